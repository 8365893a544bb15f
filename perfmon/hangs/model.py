"""The evidence of a hang, whatever it was read from: what each rank has enqueued, finished and still waits for.

Flight-recorder dumps of every version, and watchdog lines, become the same `RankState`s. Ranks are global; a process
group is the same on all of its members. Sequence numbers count the collectives of one group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

_DEFAULT_GROUPS = frozenset(("default_pg", "default"))
UNKNOWN_PEER = -1
"""Of a send or receive whose other side the dump does not name."""


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A process group: with `split_group` several groups share a name, so their members belong to the key."""

    name: str
    ranks: tuple[int, ...] = ()
    """Ascending; empty where the evidence does not list the members."""

    def __hash__(self) -> int:
        """Without the members: of a large job they are thousands, and keys are looked up for every rank."""
        return hash((self.name, len(self.ranks)))


@dataclass(frozen=True, slots=True)
class Operation:
    """One collective, send or receive of one rank."""

    group: GroupKey
    seq: int
    """Of collectives in the group; of sends and receives the number of the process's own."""
    name: str
    """Without the backend: all_reduce, send."""
    record: int
    """Order in which the process enqueued it."""
    finished: bool
    peer: int | None = None
    """Of a send or receive: the other side, or UNKNOWN_PEER."""
    numel_in: int | None = None
    numel_out: int | None = None
    dtypes: tuple[str, ...] = ()
    created_ns: int = 0
    """Wall clock of the host."""
    site: str = ""
    """`train.py:120 in step`: the innermost frame outside of torch."""

    @property
    def is_p2p(self) -> bool:
        """Return true for a send or a receive."""
        return self.peer is not None


@dataclass(frozen=True, slots=True)
class Status:
    """Last collectives of a rank in a group; -1: none."""

    enqueued: int
    completed: int


@dataclass(slots=True)
class RankState:
    """All that is known of one rank."""

    rank: int
    source: str
    """Name of the file, or of the log."""
    operations: list[Operation] = field(default_factory=list)
    """In the order in which they were enqueued."""
    status: dict[GroupKey, Status] = field(default_factory=dict)
    groups: tuple[GroupKey, ...] = ()
    """Groups that it belongs to, used or not."""
    timeout_s: float = 600.0
    """The longest time-out of its operations; the default of NCCL where it lists none."""
    complete: bool = True
    """All operations are listed; of watchdog lines only those that timed out are."""
    truncated: bool = False
    """The end of its file is missing, or the ring buffer was too small for its oldest outstanding operation."""
    notes: list[str] = field(default_factory=list)

    def outstanding(self) -> list[Operation]:
        """Operations that are not finished, oldest first."""
        return [one for one in self.operations if not one.finished]


@dataclass(slots=True)
class Evidence:
    """All that is known of a job that hangs."""

    states: dict[int, RankState] = field(default_factory=dict)
    world: tuple[int, ...] = ()
    """All ranks that are known to exist, ascending."""
    sized: bool = False
    """The size of the job is known: the world has no further rank."""
    stated_size: int = 0
    """A number of ranks that lines state, of the job or of a part of it; 0 if there is none."""
    members: dict[GroupKey, tuple[int, ...]] = field(default_factory=dict)
    descriptions: dict[GroupKey, str] = field(default_factory=dict)
    reported: dict[int, str] = field(default_factory=dict)
    """Ranks that a log line itself names as behind, dead or in another operation, with that line."""
    stuck: dict[int, str] = field(default_factory=dict)
    """Ranks whose own watchdog made no progress, with the line."""
    alive: frozenset[int] = frozenset()
    """Ranks that printed any line of a watchdog."""
    notes: list[str] = field(default_factory=list)
    """Problems of the input: one sentence each."""
    files: int = 0

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks of which nothing is known."""
        return tuple(rank for rank in self.world if rank not in self.states)

    def members_of(self, key: GroupKey) -> tuple[int, ...]:
        """The ranks of a group, as far as they are known."""
        return self.members.get(key, key.ranks)

    def lists_all(self, key: GroupKey) -> bool:
        """Return true where all members of a group are known."""
        return bool(key.ranks) or (self.sized and self.is_world(key))

    def is_world(self, key: GroupKey) -> bool:
        """Return true for the group of all ranks."""
        return is_default(self.descriptions.get(key, "")) or (
            self.members.get(key) == self.world and len(self.world) > 1
        )

    def label(self, key: GroupKey) -> str:
        """`TENSOR_MODEL_PARALLEL_GROUP (35)`, or the name alone."""
        text = self.descriptions.get(key, "")
        if not text or text == "undefined":
            return key.name or "unnamed group"
        return text if text == key.name or is_default(text) else f"{text} ({key.name})"


def is_default(description: str) -> bool:
    """Return true for the description of the group of all ranks."""
    return description in _DEFAULT_GROUPS


def build(
    states: Sequence[RankState],
    descriptions: Mapping[GroupKey, str],
    world: Iterable[int] = (),
    size: int = 0,
    stated: int = 0,
) -> Evidence:
    """Evidence of some ranks: the world and the members of groups follow from what the ranks list.

    `size`: number of ranks by other evidence, `stated`: the same if it may be that of a part; 0 if there is none.
    """
    known = {state.rank: state for state in states}
    members: dict[GroupKey, set[int]] = {}
    for state in states:
        for key in {*(one.group for one in state.operations), *state.status, *state.groups}:
            members.setdefault(key, set(key.ranks)).add(state.rank)
    everyone = {*world, *known, *(rank for ranks in members.values() for rank in ranks)}
    peers = {one.peer for state in states for one in state.operations}
    everyone.update(rank for rank in peers if rank is not None and rank != UNKNOWN_PEER)
    everyone.update((max(size, stated) - 1,) if max(size, stated) > 0 else ())
    top = max(everyone, default=-1)
    if 0 <= top < 1 << 20:  # ranks are numbered without gaps
        everyone = set(range(top + 1))
    for key in members:
        if not key.ranks and is_default(descriptions.get(key, "")):
            members[key] |= everyone
    return Evidence(
        states=known,
        world=tuple(sorted(everyone)),
        sized=size == top + 1 > 0 or any(_is_world(key, descriptions, top) for key in members),
        stated_size=stated,
        members={key: tuple(sorted(ranks)) for key, ranks in members.items()},
        descriptions=dict(descriptions),
    )


def _is_world(key: GroupKey, descriptions: Mapping[GroupKey, str], top: int) -> bool:
    """Return true for a group that lists the members of the whole job."""
    listed = key.ranks[-1:] == (top,)
    return listed and (is_default(descriptions.get(key, "")) or len(key.ranks) == top + 1 > 1)


def named_ranks(ranks: Iterable[int]) -> str:
    """`0-6, 9` of ranks."""
    numbers = sorted(set(ranks))
    parts: list[str] = []
    at = 0
    while at < len(numbers):
        stop = at
        while stop + 1 < len(numbers) and numbers[stop + 1] == numbers[stop] + 1:
            stop += 1
        parts.append(str(numbers[at]) if stop == at else f"{numbers[at]}-{numbers[stop]}")
        at = stop + 1
    return ", ".join(parts)
