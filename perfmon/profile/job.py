"""All traces of a job: files of several ranks in parallel, the reasons for idle time, the rank that others wait for."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import UsageError

from .analysis import LONG_GAP_NS, GpuUse, NamedRange, evaluate, named_ranges
from .kineto import read_kineto
from .nsys import read_nsys
from .shares import PARTS
from .trace import TraceError

if TYPE_CHECKING:
    from perfmon.core import Config
    from perfmon.diagnosis import Finding

_KINETO, _NSYS = (".json", ".json.gz"), (".sqlite",)
_TOGETHER = 8
"""Collectives that ranks must have in common before one of them can be the last."""
_LEAST_OF_PART = 4


@dataclass(slots=True)
class Profile:
    """The evaluation of all traces."""

    gpus: list[GpuUse] = field(default_factory=list)
    findings: tuple[Finding, ...] = ()
    ranges: list[NamedRange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What was not evaluated, in sentences."""
    events: int = 0


@dataclass(slots=True)
class _File:
    path: str
    uses: list[GpuUse] = field(default_factory=list)
    ranges: list[NamedRange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    events: int = 0
    error: str = ""


def read_profile(
    paths: Iterable[Path],
    long_gap: int = LONG_GAP_NS,
    progress: Callable[[int, int], None] = lambda done, size: None,
    config: Config | None = None,
) -> Profile:
    """Evaluate trace files; folders are searched for them. Progress is in bytes: those done, and all.

    Raises:
        UsageError: There is no trace, or none of them can be evaluated.
    """
    files = _files(paths)
    found = Profile()
    read: list[_File] = []
    sizes = [path.stat().st_size for path in files]
    for one in _evaluated(files, long_gap):
        read.append(one)
        progress(sum(sizes[: len(read)]), sum(sizes))
    seen: dict[tuple[object, ...], str] = {}
    ranges: dict[str, list[NamedRange]] = defaultdict(list)
    for one in read:
        if one.error:
            found.notes.append(one.error)
            continue
        found.notes += [f"{one.path}: {note}" for note in one.notes]
        found.events += one.events
        for use in one.uses:
            key = (use.rank, use.device, use.start, use.span, use.busy)
            if key in seen:
                found.notes.append(f"{one.path}: the same trace as {seen[key]}; it counts once")
                break
            seen[key] = one.path
            found.gpus.append(use)
        else:
            for named in one.ranges:
                ranges[named.name].append(named)
    if not found.gpus:
        raise UsageError("; ".join(found.notes) or "no GPU work in these traces")
    found.gpus.sort(key=lambda use: (use.rank is None, use.rank or 0, use.file, use.device))
    found.ranges = sorted(
        (
            NamedRange(
                name, sum(one.count for one in held), sum(one.total for one in held),
                sum(one.between for one in held), max(one.longest_between for one in held),
            )
            for name, held in ranges.items()
        ),
        key=lambda one: -one.total,
    )  # fmt: skip
    seats = Counter((use.rank, use.device) for use in found.gpus if use.rank is not None)
    if twice := [rank for (rank, _), count in seats.items() if count > 1]:
        found.notes.append(f"several traces are of rank {twice[0]}: if they are of different runs, profile each alone")
    from .signals import find  # loads the rule engine

    found.findings = find(found, config)
    return found


def _files(paths: Iterable[Path]) -> list[Path]:
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = [one for one in sorted(path.rglob("*")) if one.name.endswith((*_KINETO, *_NSYS)) and one.is_file()]
            if not inside:
                raise UsageError(f"{path}: no *.json, *.json.gz or *.sqlite in this folder")
            found |= dict.fromkeys(inside)
        elif path.suffix == ".nsys-rep":
            raise UsageError(f"{path}: export it first: nsys export --type sqlite {path.name}")
        elif not path.is_file():
            raise UsageError(f"{path}: no such file")
        else:
            found[path] = None
    return list(found)


def _evaluated(files: Sequence[Path], long_gap: int) -> Iterable[_File]:
    """Files in processes of their own: their memory goes back with them."""
    workers = min(len(files), os.cpu_count() or 1)
    if workers == 1:
        yield from (_evaluate(path, long_gap) for path in files)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), max_tasks_per_child=16) as pool:
        yield from pool.map(_evaluate, files, [long_gap] * len(files))


def _evaluate(path: Path, long_gap: int) -> _File:
    """The pure function of one file."""
    found = _File(str(path))
    try:
        traces = read_nsys(path) if path.name.endswith(_NSYS) else [read_kineto(path)]
    except TraceError as error:
        found.error = str(error)
        return found
    except OSError as error:
        found.error = f"{path}: {error.strerror or error}"
        return found
    for trace in traces:
        found.events += trace.events
        found.notes += trace.notes
        found.uses += evaluate(trace, long_gap)
        found.ranges += named_ranges(trace)
        if not trace.gpus:
            found.notes.append("no GPU events: it was recorded without ProfilerActivity.CUDA, or without a GPU")
    return found


def late_ranks(uses: Sequence[GpuUse]) -> list[tuple[int, float]]:
    """Of each part of the collectives that all ranks have in common, the rank that is the last to arrive.

    The last one has the shortest kernel, the others wait in theirs: clocks of hosts do not matter for that. Its speed
    is a percentage: the part of the time that would be left if it came with the others.
    """
    of_rank = {use.rank: use for use in uses if use.rank is not None}
    if len(of_rank) < 2 or len(of_rank) != len(uses):
        return []
    named = {rank: _by_name(use) for rank, use in of_rank.items()}
    counts = [{name: len(held) for name, held in one.items()} for one in named.values()]
    if any(one != counts[0] for one in counts) or sum(counts[0].values()) < _TOGETHER:
        return []
    first = next(iter(of_rank))
    order = sorted((at[0], name, number) for name, held in named[first].items() for number, at in enumerate(held))
    parts = min(PARTS, len(order) // _LEAST_OF_PART)
    span = max(use.span for use in uses) / parts
    found = []
    for part in range(parts):
        caused = Counter[int]()
        for _, name, number in order[part * len(order) // parts : (part + 1) * len(order) // parts]:
            durations = {rank: named[rank][name][number][1] for rank in named}
            last = min(durations, key=lambda rank: durations[rank])
            caused[last] += (sum(durations.values()) - len(durations) * durations[last]) // (len(durations) - 1)
        rank, wait = caused.most_common(1)[0]
        found.append((rank, 100.0 * (1.0 - min(1.0, wait / span))))
    return found


def _by_name(use: GpuUse) -> dict[str, list[tuple[int, int]]]:
    """Start and duration of collectives by name: the order of streams may differ between ranks."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for name, start, duration in use.collectives:
        found[name].append((start, duration))
    return found
