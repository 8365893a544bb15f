"""Files of flight-recorder dumps: which ones there are, each read once, those of one hang together."""

from __future__ import annotations

import gc
import os
import re
import stat
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from perfmon.core import counted, plain

from .dumps import GZIP, KEYS, Dumps, read_dump
from .model import GroupKey, Operation, RankState, is_default
from .unpickle import BrokenPickleError, RefusedPickleError

_RANK = re.compile(
    r"(?:^|[^0-9])(\d{1,7})(?:[-_.]?of[-_.]?\d{1,7})?(?:\.(?:json|txt|pkl|pickle|pt|bin|dat|dump|trace))?(?:\.gz)?$"
)
_FOLDER = re.compile(r"(?:.*rank[-_.]?)?(\d{1,7})", re.IGNORECASE)
_OLD_PICKLE = re.compile(rb"\((?:dp|lp)\d|[}\]]q|\(?[ci][A-Za-z_][\w.]*\n[\w.]+\n")
"""Beginnings of the protocols 0 and 1, in which no dump is written, but which can call as well."""
_USUAL = re.compile(r"trace|dump|rank|(?<![a-z])fr(?![a-z])|flight|ccl", re.IGNORECASE)
_HEAD = 1 << 16
_MOST_FILES = 65_536
_MOST_NAMES = 1_000_000
_OTHER_ATTEMPT_S = 3600.0
"""Dumps of one hang are written within seconds of each other, or as far apart as the time-outs of heartbeat (8 min) and
groups (up to 30 min): older files are of an earlier attempt, or of an earlier job with more ranks."""
_ONE_DUMP_S = 60.0
_SHOWN = 3
_ROOTED = ("broadcast", "reduce", "gather", "scatter", "coalesced")
"""Beginnings of operations that a member may finish before all have come."""


def find_dumps(
    folder: Path, since: float = -inf, *, below: bool = True, prefix: str = "", until: float = inf
) -> dict[Path, int]:
    """The files in a folder that are flight-recorder dumps by name and first bytes, with the rank of each.

    The rank is the number at the end of the name, what stands before it depends on version and launcher; in a folder of
    one rank (`rank_3`, `3`) it is that of the folder, where the name has none. Empty and damaged files are among
    them if their names differ from those of dumps next to them by the rank alone. `since`: only
    files that were written to later (seconds since 1970). `below`: also those in the folders below it. `prefix`: only
    names that begin with it. The search ends at `until` (seconds of the monotonic clock).
    """
    found: dict[Path, int] = {}
    seen = 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".git")) if below else []
        seen += len(names) + len(folders)
        of_folder = _FOLDER.fullmatch(os.path.basename(root))
        families, damaged = set[str](), dict[Path, int]()
        for name in sorted(names):
            match = _RANK.search(name) if name.startswith(prefix) else None
            if match is None and of_folder is not None and name.startswith(prefix) and _USUAL.search(name):
                match = of_folder
            if match is not None and len(found) < _MOST_FILES:
                path = Path(root, name)
                is_dump = _looks_like_dump(path, since)
                if is_dump:
                    families.add(_family(name))
                if is_dump is not None:
                    (found if is_dump else damaged)[path] = int(match[1])
        found |= {path: rank for path, rank in damaged.items() if _family(path.name) in families}
        if seen > _MOST_NAMES or time.monotonic() >= until:
            break
    return found


def read_dumps(folder: Path) -> Dumps:
    """All dumps below a folder; what cannot be read is in the notes."""
    return DumpReader().read(find_dumps(folder))


Stamp = tuple[int, int]
"""Size and time of the last write in nanoseconds: a file with the same ones was not written to."""


@dataclass(slots=True)
class _Content:
    """Contents of one file."""

    stamp: Stamp
    written: float
    state: RankState | None
    descriptions: dict[GroupKey, str]
    problem: str = ""


_Written = tuple[float, RankState]
"""The time of writing of a dump, in seconds since 1970, and what it says."""


@dataclass(frozen=True, slots=True)
class _Set:
    """Dumps that belong together by folder, name and world; a job may have several sets, one for each host."""

    folder: Path
    family: str
    world: tuple[int, ...] = field(hash=False)
    """Of a large job thousands: they are compared, not hashed."""


class DumpReader:
    """Reads each dump once; one that was still being written is read again when it has changed."""

    def __init__(self) -> None:
        self.left = 0
        """Files that the last call had no time for."""
        self._contents: dict[Path, _Content] = {}

    @property
    def stamps(self) -> frozenset[tuple[Path, Stamp]]:
        """Changes with every file that comes, changes or goes."""
        return frozenset((path, content.stamp) for path, content in self._contents.items())

    def read(self, paths: Mapping[Path, int], until: float = inf, share: float = 1.0) -> Dumps:
        """The dumps of these files, by path their ranks; what cannot be read is in the notes.

        No file is begun after `until` (seconds of the monotonic clock). Reading takes at most `share` of a core.
        """
        dumps, self.left = Dumps(files=len(paths)), 0
        sets: dict[_Set, dict[int, list[tuple[float, RankState]]]] = {}
        problems: list[str] = []
        for path, rank in paths.items():
            began = time.thread_time()
            if time.monotonic() >= until:
                self.left += 1
                continue
            content, is_new = self._content(path, rank)
            dumps.descriptions.update(content.descriptions)
            if content.state is None:
                problems.append(f"{plain(path.name, 80)}: {content.problem}")
            else:
                alike = _Set(path.parent, _family(path.name), _world_of(content))
                sets.setdefault(alike, {}).setdefault(rank, []).append((content.written, content.state))
            if is_new and share < 1.0:
                time.sleep((time.thread_time() - began) * (1.0 / share - 1.0))
        self._contents = {path: content for path, content in self._contents.items() if path in paths}
        read = _of_one_job(sets, dumps)
        dumps.written = max((written for some in read.values() for written, _ in some), default=0.0)
        dumps.notes += problems[:_SHOWN]
        if len(problems) > _SHOWN:
            dumps.notes.append(f"{counted(len(problems) - _SHOWN, 'more dump')} could not be read")
        dumps.states = _of_one_attempt(read, dumps)
        torn = [state for state in dumps.states if state.truncated]
        if torn:
            dumps.notes.append(f"{counted(len(torn), 'dump')} ended early: {torn[0].notes[0]}")
        return dumps

    def _content(self, path: Path, rank: int) -> tuple[_Content, bool]:
        """The content of a file, and true if it was read just now."""
        known, single = self._contents.get(path), Dumps()
        try:
            status = path.stat()
            stamp = status.st_size, status.st_mtime_ns
            if known is not None and known.stamp == stamp:
                return known, False
            with _no_collection():
                content = _Content(stamp, status.st_mtime, read_dump(path, rank, single), single.descriptions)
        except (OSError, ValueError) as error:
            content = _Content((-1, -1) if isinstance(error, OSError) else stamp, 0.0, None, {}, _reason(error))
        self._contents[path] = content
        return content, True


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the garbage collector for a moment: a dump is a million values without a cycle."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _reason(error: Exception) -> str:
    if isinstance(error, RefusedPickleError):
        return f"refused: it would call {plain(str(error), 120)}, and a dump contains only data"
    if isinstance(error, BrokenPickleError):
        return f"not readable as a dump: {plain(str(error), 120)}"
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror}"
    return plain(str(error), 160)


def _family(name: str) -> str:
    """A name without the rank at its end."""
    match = _RANK.search(name)
    return f"{name[: match.start(1)]}*{name[match.end(1) :]}" if match is not None else name


def _looks_like_dump(path: Path, since: float) -> bool | None:
    """Return true for a dump by its first bytes; None for what is no file, is older, or cannot be read."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_mtime < since:
            return None
        with path.open("rb") as file:
            return is_dump_head(path.name, file.read(_HEAD))
    except OSError:
        return None


def is_dump_name(name: str) -> bool:
    """Return true for a name that ends with a rank."""
    return _RANK.search(name) is not None


def is_dump_head(name: str, head: bytes) -> bool:
    """Return true if a file of this name whose first bytes are these is a dump, as far as they show."""
    if head[:2] == GZIP:
        try:
            head = zlib.decompressobj(31).decompress(head, _HEAD)
        except zlib.error:
            return False
    if head[:1] == b"\x80":  # data sets and checkpoints are pickles as well, large ones
        is_pickle = len(head) > 1 and 2 <= head[1] <= 5
        likely = len(head) < _HEAD or _USUAL.search(name) is not None or any(key in head for key in KEYS)
        return is_pickle and likely
    if head.lstrip()[:1] == b"{":
        return any(b'"%s"' % key in head for key in KEYS)
    return _OLD_PICKLE.match(head) is not None and _USUAL.search(name) is not None


def _world_of(content: _Content) -> tuple[int, ...]:
    """All ranks of the job by the groups that a dump lists; empty if it lists none."""
    groups = content.state.groups if content.state is not None else ()
    return max((key.ranks for key in groups if is_default(content.descriptions.get(key, ""))), key=len, default=())


def _of_one_job(sets: Mapping[_Set, Mapping[int, Sequence[_Written]]], dumps: Dumps) -> dict[int, list[_Written]]:
    """The dumps by rank, without those of other jobs: of another world, or of the same ranks at another time.

    Ranks of different jobs must not meet in one graph. Copies of folders keep no times of writing, so unless these are
    hours apart the last operations are compared: the set with the newest one comes first.
    """
    written = {one: max(at for some in ranks.values() for at, _ in some) for one, ranks in sets.items()}
    newest = max(written.values(), default=0.0)
    latest = {
        one: {rank: max(_latest_ns(state) for _, state in some) for rank, some in ranks.items()}
        for one, ranks in sets.items()
    }
    torn = {
        (one, rank) for one, ranks in sets.items() for rank, some in ranks.items() if all(s.truncated for _, s in some)
    }
    kept: dict[int, list[_Written]] = {}
    times: dict[int, int] = {}
    world: tuple[int, ...] = ()
    other: list[_Set] = []

    def order(one: _Set) -> tuple[bool, int, str, str]:
        return newest - written[one] > _OTHER_ATTEMPT_S, -max(latest[one].values()), str(one.folder), one.family

    for one in sorted(sets, key=order):
        whole = {rank: at_ns for rank, at_ns in latest[one].items() if (one, rank) not in torn}
        if (world and one.world and world != one.world) or any(times.get(rank, at) != at for rank, at in whole.items()):
            other.append(one)
            continue
        world = world or one.world
        times |= whole
        for rank, some in sets[one].items():
            kept.setdefault(rank, []).extend(some)
    if other:
        count = counted(sum(len(some) for one in other for some in sets[one].values()), "dump")
        names = [plain(f"{one.folder.name}/{one.family}", 80) for one in other[:_SHOWN]]
        more = f" and {len(other) - _SHOWN} more" if len(other) > _SHOWN else ""
        dumps.notes.append(f"{count} of an earlier attempt or another job, ignored: {', '.join(names)}{more}")
    return kept


def _of_one_attempt(read: Mapping[int, Sequence[_Written]], dumps: Dumps) -> list[RankState]:
    """The newest dump of each rank; of several attempts in a folder those of the last one.

    A pickle and a JSON file of the same moment are one dump: the one that lists more is kept.
    """
    newest = max((written for some in read.values() for written, _ in some), default=0.0)
    states, old = list[_Written](), 0
    for some in read.values():
        last = max(written for written, _ in some)
        together = [one for one in some if last - one[0] <= _ONE_DUMP_S]
        if newest - last <= _OTHER_ATTEMPT_S:
            states.append(max(together, key=lambda one: (_latest_ns(one[1]), len(one[1].operations), _sites(one[1]))))
            old += len(some) - len(together)
        else:
            old += len(some)
    if old:
        dumps.notes.append(f"{counted(old, 'dump')} of an earlier attempt ignored")
    return sorted(_without_stale(states, dumps), key=lambda one: one.rank)


def _without_stale(states: Sequence[_Written], dumps: Dumps) -> list[RankState]:
    """The dumps without those that an earlier attempt left behind.

    The next attempt only dumps after a time-out of its own, so a stale dump ends a time-out or more before the others.
    A rank that is behind may have been idle that long; its file is as new as the others then, and agrees with them.
    """
    if not states:
        return []
    written, last = max(states, key=lambda one: _latest_ns(one[1]))
    kept: list[RankState] = []
    for at, state in states:
        gap_s = (_latest_ns(last) - _latest_ns(state)) / 1e9
        if not _latest_ns(state) or gap_s <= state.timeout_s:
            kept.append(state)
        elif written - at > state.timeout_s or _contradicts(state, last):
            dumps.notes.append(
                f"{state.source}: of an earlier attempt, {gap_s / 60:.0f} min before the last operation, ignored"
                " (if not, the clocks of the hosts differ)"
            )
        else:
            kept.append(state)
    return kept


def _contradicts(state: RankState, last: RankState) -> bool:
    """Return true if a dump cannot be of the same attempt as the last one.

    In one attempt no rank launches a collective a time-out after another one has launched it or a later one, and none
    finishes without the others a collective that all have to join.
    """
    after_ns = state.timeout_s * 1e9
    ends: dict[GroupKey, Operation] = {}
    for one in state.operations:
        if not one.is_p2p and one.created_ns:
            ends[one.group] = one
    for one in last.operations:
        end = ends.get(one.group)
        if end is None or one.is_p2p or one.created_ns <= end.created_ns + after_ns:
            continue
        joins_all = not one.name.lower().lstrip("_").startswith(_ROOTED)
        if one.seq <= end.seq or (one.finished and joins_all and not state.truncated):
            return True
    return False


def _latest_ns(state: RankState) -> int:
    return max((one.created_ns for one in state.operations), default=0)


def _sites(state: RankState) -> int:
    return sum(bool(one.site) for one in state.operations)
