"""The search for the rank that is behind, for logs that show a hang: next to the logs, and where torch writes dumps.

Dumps below the folders of a run are of this run. The other places may hold dumps of any job of the user: there a dump
only counts if the watchdog lines of its rank report an operation as timed out that it lists as unfinished.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from perfmon.core import Fields

from .dossier import LogLine, last_lines
from .dump_files import DumpReader, find_dumps
from .dumps import Dumps
from .lines import evidence_of_lines, merge
from .model import Evidence
from .verdict import Answer, judge
from .words import brief

_VARIABLES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_OLD_PREFIX = "/tmp/nccl_trace_rank_"  # noqa: S108 - torch 2.5 and earlier write there
REMOTE_PREFIXES = ("~/.cache/torch/comm_lib_trace_rank_", "~/.cache/torch/nccl_trace_rank_", _OLD_PREFIX)
"""Beginnings of the paths to which torch writes dumps by default, on a host whose environment is not known."""
_MOST_EVIDENT = 4
"""Ranks that are behind whose last lines are looked for."""
_SHARED_LATER_S = 600.0
"""Dumps follow the last line of a hung run within a minute or so; later ones in a shared place are of a later job."""


@dataclass(frozen=True, slots=True)
class Places:
    """Folders and prefixes of paths where dumps may be."""

    folders: tuple[Path, ...] = ()
    """Folders of the run, with all below."""
    shared: tuple[Path, ...] = ()
    """Folders of single logs, without what is below: they may hold files of other jobs."""
    prefixes: tuple[str, ...] = ()
    """Beginnings of paths that several jobs may share."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one search."""

    seconds: float = inf
    most_bytes: float = inf
    """Sum of the sizes of the dumps; about a quarter of it is kept in memory during a search."""
    largest: float = inf
    """Bytes of the largest dump; reading it takes about ten times as much memory for a moment."""
    share: float = 1.0
    """Largest share of a core for reading."""


@dataclass(frozen=True, slots=True)
class Found:
    """The answer of the dumps and watchdog lines of a job."""

    ranks: tuple[int, ...] = ()
    why: str = ""
    """"" where they do not decide."""
    lines: Mapping[int, tuple[LogLine, ...]] = field(default_factory=dict)
    """By rank the last lines of its log."""
    dumps: int = 0
    missing: int = 0
    """Ranks without a dump."""
    is_torn: bool = False
    """The end of a dump is missing: it may still be written."""
    left: int = 0
    """Dumps that there was no time to read."""
    too_large: int = 0
    """Dumps that were not read because they are larger than the limits."""


def usual_places(
    specs: Iterable[str | Path], environment: Mapping[str, str] = os.environ, home: str | None = None
) -> Places:
    """The places for logs that are given as folders or files: these, the settings of torch here, and its defaults."""
    paths = [Path(spec).expanduser() for spec in specs]
    folders = tuple(dict.fromkeys(path for path in paths if path.is_dir()))
    files = [path for path in paths if path not in folders and str(path) != "-"]
    shared = tuple(dict.fromkeys(path.parent for path in files if path.parent.is_dir()))
    cache = environment.get("XDG_CACHE_HOME") or f"{home or os.path.expanduser('~')}/.cache"
    prefixes = [environment.get(name, "") for name in _VARIABLES]
    prefixes += [f"{cache}/torch/comm_lib_trace_rank_", f"{cache}/torch/nccl_trace_rank_", _OLD_PREFIX]
    return Places(folders, shared, tuple(dict.fromkeys(one for one in prefixes if one.startswith("/"))))


class HangSearch:
    """Looks for dumps, as often as there may be new ones; each is read once."""

    def __init__(self) -> None:
        self._own, self._shared = DumpReader(), DumpReader()

    @property
    def stamps(self) -> frozenset[object]:
        """Changes with every dump that comes or changes."""
        return self._own.stamps | self._shared.stamps

    def look(
        self,
        places: Places,
        timeouts: Sequence[tuple[Fields, str]],
        since: float = -inf,
        until: float = inf,
        limits: Limits | None = None,
    ) -> Found:
        """The answer of the dumps that were written after `since`, in shared places not long after `until`.

        Both are in seconds since 1970. `timeouts` are the fields and texts of watchdog lines.
        """
        limits = limits or Limits()
        end = time.monotonic() + limits.seconds
        paths: dict[Path, int] = {}
        for folder in places.folders:
            paths |= find_dumps(folder, since, until=end)
        too_large = _too_large(paths, limits)
        if too_large:
            return Found(too_large=too_large)
        lines = evidence_of_lines(timeouts)
        dumps, left = self._own.read(paths, end, limits.share), self._own.left
        if not dumps.states:
            dumps, left = self._of_shared(places, lines, (since, until + _SHARED_LATER_S), end, limits)
        if not dumps.states:
            return Found(left=left)
        evidence = merge(dumps.evidence(), lines)
        verdict, _ = judge(evidence)
        found = Found(
            dumps=len(dumps.states),
            missing=len(evidence.world) - len(dumps.states),
            is_torn=any(state.truncated for state in dumps.states),
            left=left,
        )
        if verdict.answer not in (Answer.NAMED, Answer.ARRIVED):
            return found
        last: dict[int, tuple[LogLine, ...]] = {}
        for folder in places.folders:
            last |= last_lines(folder, verdict.ranks[:_MOST_EVIDENT])
        return replace(found, ranks=verdict.ranks, why=brief(verdict, evidence), lines=last)

    def _of_shared(
        self, places: Places, lines: Evidence, written: tuple[float, float], end: float, limits: Limits
    ) -> tuple[Dumps, int]:
        if not any(state.operations for state in lines.states.values()):
            return Dumps(), 0
        found = [find_dumps(folder, written[0], below=False, until=end) for folder in places.shared]
        for prefix in places.prefixes:
            folder, _, name = prefix.rpartition("/")
            found.append(find_dumps(Path(folder or "/"), written[0], below=False, prefix=name, until=end))
        for paths in found:
            if not paths or _too_large(paths, limits):
                continue
            dumps = self._shared.read(paths, end, limits.share)
            if dumps.states and dumps.written <= written[1] and is_same_job(dumps, lines):
                return dumps, self._shared.left
        return Dumps(), 0


def _too_large(paths: Iterable[Path], limits: Limits) -> int:
    """The number of dumps if one of them, or all together, are larger than the limits, else 0."""
    sizes = []
    for path in paths if min(limits.most_bytes, limits.largest) < inf else ():
        try:
            sizes.append(path.stat().st_size)
        except OSError:
            continue
    return len(sizes) if sum(sizes) > limits.most_bytes or max(sizes, default=0) > limits.largest else 0


def is_same_job(dumps: Dumps, lines: Evidence) -> bool:
    """Return true if each dump whose rank reports time-outs lists one of them as unfinished, and some rank reports."""
    compared = []
    for state in dumps.states:
        reported = lines.states.get(state.rank)
        operations = [one for one in reported.operations if one.name] if reported is not None else []
        if operations:
            unfinished = {(one.seq, size) for one in state.outstanding() for size in (one.numel_in, None)}
            compared.append(any((one.seq, one.numel_in) in unfinished for one in operations))
    return bool(compared) and all(compared)
