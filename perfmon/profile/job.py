"""All traces of a job: files of several ranks in parallel, the reasons for idle time, the rank that others wait for."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from perfmon.core import UsageError, plain

from .analysis import LONG_GAP_NS, GpuUse, NamedRange, evaluate, named_ranges
from .kineto import read_kineto
from .nsys import read_nsys
from .trace import BLOCKING, LOADER, TraceError

_KINETO, _NSYS = (".json", ".json.gz"), (".sqlite",)
_LEAST = 0.02
"""Share of the time from which on a reason for idle time is worth a line."""
_PAGEABLE_LEAST = 0.5
"""Share of the copied bytes from which on the memory that they come from is a reason."""
_TOGETHER = 8
"""Collectives that ranks must have in common before one of them can be the last."""
_LAST_LEAST = 0.5
"""Share of the caused wait of the rank that is named; what the others cause must be far less."""
_FAR = 3.0
_EXPLAINED = re.compile(rf"outside of operations|{LOADER.pattern}|{BLOCKING.pattern}")
"""Names of host work that other causes are about."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason why GPUs do not compute, with its share of their time."""

    name: str
    share: float
    """Of the time of all GPUs that were traced."""
    evidence: str
    advice: str


@dataclass(frozen=True, slots=True)
class Straggler:
    """The rank that is the last to arrive in collectives: its kernels are the shortest, the others wait in theirs."""

    rank: int
    share: float
    """Of the wait in all collectives that the ranks have in common."""
    wait_ns: int
    collectives: int


@dataclass(slots=True)
class Profile:
    """The evaluation of all traces."""

    gpus: list[GpuUse] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    """The largest first."""
    ranges: list[NamedRange] = field(default_factory=list)
    straggler: Straggler | None = None
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
    paths: Iterable[Path], long_gap: int = LONG_GAP_NS, progress: Callable[[int, int], None] = lambda done, size: None
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
    found.straggler = _straggler(found.gpus)
    found.causes = _causes(found.gpus, found.straggler)
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


def _straggler(uses: Sequence[GpuUse]) -> Straggler | None:
    """The rank whose kernels are the shortest in nearly all waiting; clocks of hosts do not matter for that."""
    of_rank = {use.rank: use.collectives for use in uses if use.rank is not None}
    if len(of_rank) < 2 or len(of_rank) != len(uses):
        return None
    series: dict[int, dict[str, list[int]]] = {}
    for rank, held in of_rank.items():
        series[rank] = defaultdict(list)
        for name, duration in held:
            series[rank][name].append(duration)
    counts = [{name: len(durations) for name, durations in named.items()} for named in series.values()]
    if any(one != counts[0] for one in counts) or sum(counts[0].values()) < _TOGETHER:
        return None
    caused = Counter[int]()
    for name, count in counts[0].items():
        for at in range(count):
            durations = {rank: series[rank][name][at] for rank in series}
            last = min(durations, key=lambda rank: durations[rank])
            caused[last] += sum(durations.values()) - len(durations) * durations[last]
    ranked = caused.most_common(2)
    whole = caused.total()
    if not whole or ranked[0][1] < _LAST_LEAST * whole or (len(ranked) > 1 and ranked[0][1] < _FAR * ranked[1][1]):
        return None
    return Straggler(ranked[0][0], ranked[0][1] / whole, ranked[0][1], sum(counts[0].values()))


def _causes(uses: Sequence[GpuUse], straggler: Straggler | None) -> list[Cause]:
    """The reasons by their cost, as shares of the time of all GPUs; they may overlap."""
    span = sum(use.span for use in uses)
    idle = sum(use.idle for use in uses)
    loader = sum(min(use.loader or 0, use.idle) for use in uses)
    host = sum(use.host_wait for use in uses)
    streams = sum(use.host_wait + use.kernel_wait + use.other for use in uses)
    late = max(0, round(idle * host / streams) - loader) if streams else 0
    pageable_bytes, copied = sum(use.pageable_bytes for use in uses), sum(use.copied_bytes for use in uses)
    exposed = sum(use.communication - use.overlapped for use in uses)
    sync = sum(use.sync_stall for use in uses)
    most = max(use.queue_most for use in uses)
    busy_host = Counter[str]()
    for use in uses:
        busy_host.update({name: length for name, length in use.during_gaps if not _EXPLAINED.match(name)})
    found = [
        Cause(
            "data loading", loader / span,
            "the host waits for the next batch while the GPU has nothing to do",
            "Use more DataLoader workers, persistent_workers and a larger prefetch_factor; check that the host's CPUs"
            " and the data source keep up.",
        ),
        Cause(
            "launches come late", late / span,
            f"kernels are launched after the one before them has ended; at most {most:,} launches wait",
            "Give the GPU longer kernels or fewer of them: CUDA graphs or torch.compile, a larger batch, fused"
            " operators; look at what the host does in the long gaps.",
        ),
        Cause(
            "exposed communication", exposed / span,
            "collectives run while no kernel computes",
            "Overlap it with the computation (bucket sizes, prefetch of FSDP, async tensor parallelism), or send less.",
        ),
        Cause(
            "synchronisation on an idle GPU", sync / span,
            "the host waits for a GPU that has nothing to do",
            "Avoid .item(), .cpu(), print and torch.cuda.synchronize() within a step.",
        ),
    ]  # fmt: skip
    for name, length in busy_host.most_common(1):
        found.append(
            Cause(
                "host work in the gaps",
                length / span,
                f"while the GPU is idle, the host thread that launches is mostly in {plain(name, 80)}",
                "Move this work out of the step, into another thread or onto the GPU, or overlap it with a prefetch.",
            )
        )
    pageable = sum(use.pageable for use in uses)
    if copied and pageable_bytes >= _PAGEABLE_LEAST * copied:
        found.append(
            Cause(
                "copies from pageable memory",
                pageable / span,
                f"{pageable_bytes / 1e9:.2f} of {copied / 1e9:.2f} GB come from memory that is not pinned: such copies"
                " are synchronous and slower",
                "Pin the memory (pin_memory=True, tensor.pin_memory()) and copy with non_blocking=True.",
            )
        )
    if straggler is not None:
        found.append(
            Cause(
                "a late rank",
                straggler.wait_ns / span,
                f"rank {straggler.rank} is the last to arrive and causes {100 * straggler.share:.0f} % of the wait in"
                f" {straggler.collectives:,} collectives",
                "Compare that rank's host work and GPU with the others (clocks, data, other processes).",
            )
        )
    return sorted((one for one in found if one.share >= _LEAST), key=lambda one: one.share, reverse=True)
