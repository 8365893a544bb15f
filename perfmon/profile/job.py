"""All traces of a job: files of several ranks in parallel, the reasons for idle time, the rank that others wait for."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.cluster import RayCluster, check_visible
from perfmon.core import UsageError
from perfmon.sources import usable_cores

from .analysis import LONG_GAP_NS, GpuUse, NamedRange, evaluate, named_ranges
from .kineto import is_kineto, read_kineto
from .nsys import is_nsys, read_nsys
from .trace import TraceError
from .waits import GroupUse, without_waits

if TYPE_CHECKING:
    from perfmon.core import Config
    from perfmon.diagnosis import Finding

_KINETO, _NSYS = (".json", ".json.gz"), (".sqlite",)
_LOGS = (".log", ".out", ".err", ".txt", ".jsonl", ".pmrec")
_LOOKED = 20
_PACKED, _MEMORY = 12, 0.6
"""Bytes of text by byte of a gzip file, and bytes of memory by byte of text, at most."""
_Progress = Callable[[int, int], None]
_NO_LAUNCHES = (
    "no launches of the work of a GPU: whether the host was late is not known "
    "(record with ProfilerActivity.CPU, or nsys profile --trace=cuda)"
)


@dataclass(slots=True)
class Profile:
    """The evaluation of all traces."""

    gpus: list[GpuUse] = field(default_factory=list)
    findings: tuple[Finding, ...] = ()
    ranges: list[NamedRange] = field(default_factory=list)
    groups: list[GroupUse] = field(default_factory=list)
    """Process groups whose members all have traces, those that wait longest first."""
    late: list[tuple[int, float]] = field(default_factory=list)
    """The rank that others wait for in each part of the collectives, and its speed in percent; empty without one."""
    notes: list[str] = field(default_factory=list)
    """Traces and parts that were not evaluated, in sentences."""
    events: int = 0
    size: int = 0
    """Bytes of all files."""
    partial: list[str] = field(default_factory=list)
    """Files whose end, or a part of them, is missing."""


@dataclass(slots=True)
class _File:
    path: str
    uses: list[GpuUse] = field(default_factory=list)
    ranges: list[NamedRange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    events: int = 0
    is_partial: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Options:
    long_gap: int
    pictures: bool


def read_profile(
    paths: Iterable[Path],
    long_gap: int = LONG_GAP_NS,
    progress: _Progress = lambda done, size: None,
    config: Config | None = None,
    cluster: RayCluster | None = None,
    *,
    pictures: bool = False,
) -> Profile:
    """Evaluate trace files, here or on a cluster; folders are searched for them. `pictures`: keep all intervals.

    Progress is in bytes: those done, and all.

    Raises:
        UsageError: There is no trace, or none of them can be evaluated.
    """
    files = _files(paths)
    found = Profile(size=sum(path.stat().st_size for path in files))
    read = list(_evaluated(files, _Options(long_gap, pictures), cluster, progress))
    seen: dict[tuple[object, ...], str] = {}
    ranges: dict[str, list[NamedRange]] = defaultdict(list)
    for one in read:
        if one.error:
            found.notes.append(one.error)
            continue
        found.notes += [f"{one.path}: {note}" for note in one.notes]
        found.events += one.events
        found.partial += [one.path] if one.is_partial else []
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
                sum(one.pairs for one in held),
                tuple(sample for one in held for sample in one.samples),
            )
            for name, held in ranges.items()
        ),
        key=lambda one: -one.total,
    )  # fmt: skip
    seats = Counter((use.rank, use.device) for use in found.gpus if use.rank is not None)
    if twice := [rank for (rank, _), count in seats.items() if count > 1]:
        note = f"several traces are of rank {twice[0]}: if they are of different runs, profile each alone"
        found.notes.insert(0, note)  # it doubts all figures, others are about a file
    found.groups, found.late = without_waits(found.gpus)
    from .signals import find  # loads the rule engine

    found.findings = find(found, config)
    return found


def holds_traces(path: Path) -> bool:
    """Return true for a trace, or a folder with traces and no logs; false for what is none, or cannot be read."""
    if path.is_dir():
        files = [one for one in sorted(path.rglob("*")) if one.is_file()]
        if any(one.suffix in _LOGS for one in files):
            return False
        return any(
            holds_traces(one) for one in [one for one in files if one.name.endswith((*_KINETO, *_NSYS))][:_LOOKED]
        )
    if not path.name.endswith((*_KINETO, *_NSYS)):
        return False
    return is_nsys(path) if path.name.endswith(_NSYS) else is_kineto(path)


def _files(paths: Iterable[Path]) -> list[Path]:
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = [one for one in sorted(path.rglob("*")) if one.name.endswith((*_KINETO, *_NSYS)) and one.is_file()]
            if not inside:
                raise UsageError(f"{path}: no *.json, *.json.gz or *.sqlite in this folder")
            found |= dict.fromkeys(inside)
        elif path.suffix in (".nsys-rep", ".qdrep"):
            raise UsageError(f"{path}: export it first: nsys export --type sqlite {path.name}")
        elif not path.is_file():
            raise UsageError(f"{path}: no such file")
        else:
            found[path] = None
    return list(found)


def _evaluated(
    files: Sequence[Path], options: _Options, cluster: RayCluster | None, done: _Progress
) -> Iterable[_File]:
    """The files in their order: in processes of their own, whose memory goes back with them, or on a cluster."""
    sizes = [path.stat().st_size for path in files]
    if cluster is not None:
        yield from _on_cluster(cluster, files, sizes, options, done)
        return
    workers, read = _workers(files, sizes), 0
    if workers == 1:
        for path, size in zip(files, sizes, strict=True):
            yield _evaluate(path, options)
            done(read := read + size, sum(sizes))
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        started = [pool.submit(_evaluate, path, options) for path in files]
        for path, size, future in zip(files, sizes, started, strict=True):
            try:
                yield future.result()
            except BrokenProcessPool:
                yield _File(str(path), error=f"{path}: not evaluated: a process was killed, probably for its memory")
            done(read := read + size, sum(sizes))


def _workers(files: Sequence[Path], sizes: Sequence[int]) -> int:
    """So many processes that the largest traces have room at the same time."""
    needs = sorted(
        (size * (_PACKED if path.suffix == ".gz" else 1) * _MEMORY for path, size in zip(files, sizes, strict=True)),
        reverse=True,
    )
    room = _free_memory() / 2
    fits = next((count for count, need in enumerate(accumulate(needs)) if need > room), len(needs))
    return max(1, min(len(files), usable_cores(), fits))


def _free_memory() -> float:
    """Bytes that are available on this host; infinity where that is not known."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return float("inf")
    found = re.search(r"MemAvailable:\s*(\d+) kB", text)
    return float(found[1]) * 1024 if found else float("inf")


def _on_cluster(
    cluster: RayCluster, files: Sequence[Path], sizes: Sequence[int], options: _Options, done: _Progress
) -> Iterable[_File]:
    seen = [path.absolute() for path in files]
    with cluster.workers(list(zip(seen, sizes, strict=True)), {}) as workers:
        workers.free()
        with workers.failures():
            tasks = [(there, options, str(path)) for there, path in zip(seen, files, strict=True)]
            started = workers.start(_evaluate_there, tasks)
            workers.wait(dict(zip(started, sizes, strict=True)), done)
            for one in started:
                yield workers.ray.get(one)


def _evaluate_there(path: Path, options: _Options, name: str) -> _File:
    """Run by a worker."""
    check_visible(path)
    return _evaluate(path, options, name)


def _evaluate(path: Path, options: _Options, name: str = "") -> _File:
    """The pure function of one file; `name` is that of reports."""
    name = name or str(path)
    found = _File(name)
    try:
        traces = read_nsys(path) if path.name.endswith(_NSYS) else [read_kineto(path)]
    except TraceError as error:
        found.error = str(error).replace(str(path), name, 1)
        return found
    except OSError as error:
        found.error = f"{name}: {error.strerror or error}"
        return found
    for trace in traces:
        trace.file = name
        found.events += trace.events
        found.notes += trace.notes
        found.is_partial = found.is_partial or trace.is_partial
        uses = evaluate(trace, options.long_gap)
        if not all(use.launched for use in uses) and _NO_LAUNCHES not in found.notes:
            found.notes.append(_NO_LAUNCHES)
        found.uses += uses
        found.ranges += named_ranges(trace)
        if not trace.gpus:
            found.notes.append(
                "no GPU events: recorded without ProfilerActivity.CUDA, without a GPU, or by another profiler"
            )
    if not options.pictures:
        for use in found.uses:
            use.lanes = {}
    return found
