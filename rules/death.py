"""The data of a death: the failures that led to it, its fields for a sentence, and the ranks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfmon.core import Fields, format_seconds
from perfmon.store import Failure

if TYPE_CHECKING:
    pass


WAITED = frozenset(("collective-timeout",))
"""Causes that are reported long after the run stopped making progress."""
CAUSE_WORDS = {
    "out-of-memory": "GPU memory ran out",
    "host-out-of-memory": "the host ran out of memory",
    "shared-memory": "shared memory (/dev/shm) ran out",
    "collective-timeout": "a collective timed out",
    "exception": "an uncaught exception",
    "gpu-error": "a GPU error",
    "disk-full": "no disk space left",
    "time-limit": "the scheduler's time limit",
    "preempted": "preemption by the scheduler",
    "cancelled": "external cancellation",
    "node-failure": "a failed node",
    "killed": "a kill signal",
    "interrupted": "an external signal (SIGTERM, SIGHUP or Ctrl-C)",
    "engine-dead": "a crashed inference engine",
    "startup-refused": "a refused start",
    "not-finite": "loss or gradients that became NaN or infinite",
    "network": "a lost connection",
    "process-died": "a crashed process",
    "crashed": "a crash in native code",
    "data-error": "unreadable data",
    "configuration": "a configuration error",
    "missing-module": "a missing Python module",
}
"""Causes of a death, as the end of a sentence."""
_SAID = 240
"""Characters: the setting to change mostly stands at the end of a message."""
_RANKS = re.compile(r"\d+")
_JOINED = ("rank", "local_rank", "host", "exitcode", "signal")


@dataclass(slots=True)
class Death:
    """The death of a run."""

    cause: Failure
    time: float
    """On the run's axis."""
    known: bool
    """The first cause is in these logs; else only its echo."""
    echoes: list[Failure] = field(default_factory=list)
    """Failures of other ranks, parents and servers because of it, by time."""
    ranks: tuple[str, ...] = ()
    """Ranks with the same failure."""
    silent_ranks: tuple[str, ...] = ()
    """Ranks that reported no time-out while the others did."""
    behind: tuple[str, ...] = ()
    """Ranks whose last collective lies behind that of the others."""
    hung_s: float = 0.0
    """Seconds without progress before the run was ended."""
    tries: int = 1
    """Failed starts in a row."""
    anew: bool = False
    """Another start is under way."""

    @property
    def fields(self) -> Fields:
        """The values of its lines, for a sentence."""
        fields: Fields = {**_joined_fields(self.cause, self.echoes), **self.cause.fields}
        for name in ("node", "ip"):
            if "host" not in fields and name in fields:
                fields["host"] = fields[name]
        if "total" in fields:  # of memory: the slot of that name counts occurrences
            fields["capacity"] = fields.pop("total")
        message = str(fields.get("message", "")) or self.cause.text
        message = message.strip()
        fields["message"] = _shortened(message)
        if message == fields.get("type"):  # an exception without a text
            del fields["type"]
        if "exit_detail" in fields:
            fields["exit_detail"] = _shortened(str(fields["exit_detail"]))
        frame = self.cause.frame
        if frame.get("file"):
            place = f"{str(frame['file']).rpartition('/')[2]}:{frame.get('line', '?')}"
            function = frame.get("function", "")
            fields["frame"] = f"{place} in {function}" if function else place
        if self.cause.cause in WAITED:
            fields.pop("rank", None)
            fields["reported"] = named_ranks(self.ranks)
            culprits = self.behind or self.silent_ranks
            if len(culprits) == 1:
                fields["rank"] = culprits[0]
        elif len(self.ranks) > 1:
            fields.pop("rank", None)
            fields["ranks"] = named_ranks(self.ranks)
        if self.silent_ranks:
            fields["silent_ranks"] = named_ranks(self.silent_ranks)
        if self.behind:
            fields["behind"] = named_ranks(self.behind)
        if self.echoes:
            fields["echoes"] = str(len(self.echoes))
        if self.hung_s > 0:
            fields["hung"] = format_seconds(self.hung_s)
        if self.tries > 1:
            fields["tries"] = f"{self.tries} starts"
        if self.anew:
            fields["anew"] = "restarted since, and not ready yet"
        return fields


def _shortened(text: str) -> str:
    """The start of a text, in whole words."""
    if len(text) <= _SAID:
        return text
    kept = text[:_SAID]
    return f"{kept[: max(kept.rfind(' '), _SAID // 2)].rstrip(' .,;:(')}…"


def _joined_fields(cause: Failure, others: Iterable[Failure]) -> Fields:
    """The rank and host of the process that failed, from the record of its parent, by its pid."""
    pid = cause.fields.get("pid")
    records = [one for one in others if one.role == "record"]
    mine = [one for one in records if pid is not None and one.fields.get("pid") == pid]
    ranked = {str(one.fields["rank"]) for one in records if "rank" in one.fields}
    if not mine and "rank" not in cause.fields and len(ranked) == 1:
        mine = [one for one in records if "rank" in one.fields]
    if not mine and pid is None and "rank" not in cause.fields and len({one.fields.get("pid") for one in records}) == 1:
        mine = records  # one process died, and one failure is its reason
    joined: Fields = {}
    for one in mine:
        joined |= {name: one.fields[name] for name in _JOINED if name in one.fields and name not in joined}
    if "rank" not in joined and "local_rank" in joined and not any("rank" in one.fields for one in records):
        joined["rank"] = joined["local_rank"]  # of one node, as far as these logs show
    return joined


def kind_of_failure(failure: Failure) -> tuple[str, str]:
    """The common part of equal failures, however their lines are torn."""
    return failure.cause, str(failure.fields.get("type", ""))


def same_failure(first: Failure, failures: Iterable[Failure]) -> tuple[str, ...]:
    """Ranks with the same failure."""
    wanted = (first.cause, first.fields.get("type"))
    ranks = {
        str(one.fields["rank"])
        for one in failures
        if "rank" in one.fields and (one.cause, one.fields.get("type")) == wanted and one.role == first.role
    }
    return tuple(sorted(ranks, key=_number))


def _number(text: str) -> tuple[int, str]:
    return (int(text), text) if text.isdecimal() else (1 << 30, text)


# --- ranks that are behind --------------------------------------------------------------------------------------------
def name_ranks(death: Death, timeouts: Sequence[Failure]) -> None:
    """Set the ranks that did not report, and those that are behind by sequence numbers of one process group."""
    named = {rank for one in timeouts for rank in _listed(one, "missing") | _listed(one, "ranks")}
    reported = {str(one.fields["rank"]) for one in timeouts if "rank" in one.fields} - named
    if named:  # a line names them
        death.behind = tuple(sorted(named, key=_number))
        return
    if not reported:
        return
    world = _world(death, timeouts)
    silent = world - reported
    behind: set[str] = set()
    for ranks in _numbers([*timeouts, *death.echoes]).values():
        if len(set(ranks.values())) > 1:
            least = min(ranks.values())
            behind |= {rank for rank, number in ranks.items() if number == least}
    behind = behind or _deviating(timeouts)
    death.behind = tuple(sorted(behind, key=_number)) if len(behind) < max(2, len(world) // 2 + 1) else ()
    death.silent_ranks = tuple(sorted(silent, key=_number)) if 0 < len(silent) <= len(world) // 2 else ()


def _listed(failure: Failure, name: str) -> set[str]:
    """Ranks that a line lists in a field."""
    return set(_RANKS.findall(str(failure.fields.get(name, ""))))


def _deviating(timeouts: Sequence[Failure]) -> set[str]:
    """Ranks that wait in another operation, or of another size, than most: their program took another path."""
    shapes = {
        str(one.fields["rank"]): (one.fields.get("op"), one.fields.get("numel_in"))
        for one in timeouts
        if "rank" in one.fields and "op" in one.fields
    }
    counts = Counter(shapes.values())
    if len(counts) < 2 or len(shapes) < 3:
        return set()
    usual, most = counts.most_common(1)[0]
    return {rank for rank, shape in shapes.items() if shape != usual} if 2 * most > len(shapes) else set()


def _world(death: Death, timeouts: Sequence[Failure]) -> set[str]:
    """All ranks that any line names, and those between."""
    lines = [one.fields for one in (*timeouts, *death.echoes)]
    named = {str(fields[name]) for fields in lines for name in ("rank", "from_rank") if name in fields}
    numbers = [int(rank) for rank in named if rank.isdecimal()]
    sizes = [size for fields in lines if (size := _whole(fields.get("world_size"))) is not None]
    size = max([*sizes, max(numbers, default=-1) + 1])
    return {str(rank) for rank in range(min(size, 65_536))} if numbers else named


def _numbers(failures: Iterable[Failure]) -> Mapping[str, dict[str, int]]:
    """By process group the last collective that each rank started: the one that timed out, or was enqueued last."""
    found: dict[str, dict[str, int]] = {}
    failures = [one for one in failures if "seq" in one.fields or "enqueued" in one.fields]
    # Only some versions of the lines name the group.
    grouped = all("process_group" in one.fields or "group_name" in one.fields for one in failures)
    for one in failures:
        rank = str(one.fields.get("rank", ""))
        if not rank:
            continue
        group = str(one.fields.get("process_group", one.fields.get("group_name", ""))) if grouped else ""
        enqueued, sequence = (_whole(one.fields.get(name)) for name in ("enqueued", "seq"))
        number = sequence if sequence is not None else enqueued
        if number is not None:
            ranks = found.setdefault(group, {})
            ranks[rank] = max(ranks.get(rank, number), number)
    return found


def _whole(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isdecimal() else None


def named_ranks(ranks: Sequence[str]) -> str:
    """`0-6` of consecutive ranks, which are in ascending order."""
    if not all(rank.isdecimal() for rank in ranks):
        return ", ".join(ranks)
    ranges: list[tuple[int, int]] = []
    for number in map(int, ranks):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
