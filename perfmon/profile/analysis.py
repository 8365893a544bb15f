"""Evaluation of a trace: of each GPU busy and idle time, what it waits for, and what the host did in it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .trace import COMMUNICATION, COMPUTE, COPY, MEMSET, GpuWork, Interval, Trace, common, gaps, total, union

LONG_GAP_NS = 1_000_000
"""Gaps from one millisecond on are listed: shorter ones are between launches."""
KERNEL_WAIT_NS = 30_000
"""Between two kernels that were launched in time: HolisticTraceAnalysis has the same limit."""
QUEUE_FULL = 1024
"""Launches that a stream of CUDA holds; the next one waits."""
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Gap:
    """Time in which a GPU does nothing; nanoseconds from the first work of the GPU."""

    start: int
    end: int
    host: tuple[tuple[str, int], ...]
    """What the host thread that launches did in it, and for how long: outermost operations, the longest first."""


@dataclass(frozen=True, slots=True)
class NamedRange:
    """Ranges of a name, with its numbers left out, and the time between them; nanoseconds."""

    name: str
    count: int
    total: int
    between: int
    """The time between two of them in sum."""
    longest_between: int


@dataclass(slots=True)
class GpuUse:
    """Breakdown of the time of a GPU; all times are nanoseconds."""

    file: str
    rank: int | None
    device: int
    product: str
    start: int
    span: int
    """From the first work to the end of the last one."""
    busy: int
    compute: int
    """The time in which some kernel computes, whatever else runs."""
    communication: int
    copy: int
    overlapped: int
    """The part of the communication that runs while some kernel computes."""
    host_wait: int
    kernel_wait: int
    other: int
    """The idle time of the streams: launched too late by the host; between kernels launched in time; the rest."""
    sync_stall: int
    """The host waits for the GPU although it does nothing."""
    loader: int | None
    """Waits for the next batch that no work of the GPU and no call of the runtime hides; None: no DataLoader."""
    stepped: int
    """The time of the steps that `loader` is a part of."""
    pageable_bytes: int
    copied_bytes: int
    pageable: int
    """The time of copies from pageable memory."""
    queue_mean: float
    queue_most: int
    """Launches that wait for the GPU, over all changes of its streams."""
    streams: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """host_wait, kernel_wait and other by stream."""
    gaps: list[Gap] = field(default_factory=list)
    """The longest ones."""
    long_gaps: int = 0
    long_gaps_ns: int = 0
    during_gaps: list[tuple[str, int]] = field(default_factory=list)
    """Operations of the host in all long gaps, the longest first."""
    collectives: list[tuple[str, int]] = field(default_factory=list)
    """Name and duration of each kernel that communicates, by start."""

    @property
    def idle(self) -> int:
        """The time without any work."""
        return self.span - self.busy


def evaluate(trace: Trace, long_gap: int = LONG_GAP_NS) -> list[GpuUse]:
    """The use of every GPU of a trace."""
    last_step = max(trace.steps, default=None) if len(trace.steps) > 1 else None
    cut = trace.steps[last_step][0] if last_step is not None else None
    found = []
    for device, work in sorted(trace.gpus.items()):
        rows = _complete(work, trace, cut)
        if rows:
            found.append(_evaluate(trace, device, work, rows, long_gap))
    return found


def named_ranges(trace: Trace) -> list[NamedRange]:
    """The ranges that the program named, the longest first."""
    found = []
    for name, held in trace.ranges.items():
        apart = gaps(union(held))
        found.append(
            NamedRange(name, len(held), total(held), total(apart), max((end - low for low, end in apart), default=0))
        )
    return sorted(found, key=lambda one: one.total, reverse=True)


def _complete(work: GpuWork, trace: Trace, cut: int | None) -> list[int]:
    """The rows of a GPU by start, of several steps without the work of the last one: the profiler cuts that off.

    Work without a launch in the trace was launched before it, and is left out with it, as HolisticTraceAnalysis does.
    """
    rows = list(range(len(work.start)))
    if cut is not None:
        launches = trace.launches
        rows = [row for row in rows if (call := launches.get(work.correlation[row])) is not None and call[0] < cut]
    return sorted(rows, key=lambda row: (work.start[row], work.end[row]))


def _evaluate(trace: Trace, device: int, work: GpuWork, rows: Sequence[int], long_gap: int) -> GpuUse:
    intervals = [(work.start[row], work.end[row]) for row in rows]
    by_kind = {
        kind: union(intervals[at] for at, row in enumerate(rows) if work.kind[row] == kind)
        for kind in (COMPUTE, COMMUNICATION, COPY, MEMSET)
    }
    busy = union(intervals)
    start, span = busy[0][0], busy[-1][1] - busy[0][0]
    idle = gaps(busy)
    streams = _breakdown(trace, work, rows)
    mean, most = _queue(trace, work, rows)
    loader, stepped = _loader(trace, busy, max(work.end))
    host, kernel, other = (sum(one[at] for one in streams.values()) for at in range(3))
    use = GpuUse(
        trace.file, trace.rank, device, trace.devices.get(device, ""), start, span, total(busy),
        total(by_kind[COMPUTE]), total(by_kind[COMMUNICATION]), total(by_kind[COPY]),
        total(common(by_kind[COMMUNICATION], by_kind[COMPUTE])),
        host, kernel, other,
        total(common(union(trace.syncs), idle)), loader, stepped,
        trace.pageable_bytes.get(device, 0), trace.copied_bytes.get(device, 0),
        total(union(trace.pageable.get(device, []))), mean, most, streams,
    )  # fmt: skip
    _explain(use, trace, [gap for gap in idle if gap[1] - gap[0] >= long_gap], _launcher(trace, work, rows))
    names = trace.names
    use.collectives = [
        (names[work.name[row]], work.end[row] - work.start[row]) for row in rows if work.kind[row] == COMMUNICATION
    ]
    return use


def _breakdown(trace: Trace, work: GpuWork, rows: Sequence[int]) -> dict[int, tuple[int, int, int]]:
    """The idle time of each stream by its reason, as HolisticTraceAnalysis divides it."""
    found: dict[int, list[int]] = {}
    ended: dict[int, int] = {}
    for row in rows:
        stream = work.stream[row]
        before = ended.get(stream)
        ended[stream] = work.end[row]
        reasons = found.setdefault(stream, [0, 0, 0])
        if before is None:
            continue
        gap = work.start[row] - before
        call = trace.launches.get(work.correlation[row])
        if call is not None and call[0] > before:
            reasons[0] += gap
        elif gap < KERNEL_WAIT_NS:
            reasons[1] += gap
        else:
            reasons[2] += gap
    return {stream: (host, kernel, other) for stream, (host, kernel, other) in found.items()}


def _queue(trace: Trace, work: GpuWork, rows: Sequence[int]) -> tuple[float, int]:
    """Mean and maximum of the launches that wait, over all changes of all streams."""
    changes: dict[int, list[tuple[int, int]]] = {}
    for row in rows:
        call = trace.launches.get(work.correlation[row])
        if call is not None:
            changes.setdefault(work.stream[row], []).extend(((call[0], 1), (work.start[row], -1)))
    summed = count = most = 0
    for of_stream in changes.values():
        depth = 0
        for _, change in sorted(of_stream, key=lambda one: one[0]):
            depth += change
            summed += depth
            count += 1
            most = max(most, depth)
    return (summed / count if count else 0.0), most


def _loader(trace: Trace, busy: Sequence[Interval], end: int) -> tuple[int | None, int]:
    """The waits for a batch that neither the GPU nor a call of the runtime hides, and the time of all steps."""
    if not trace.loads:
        return None, 0
    bounds = union([*trace.steps.values()] or trace.loads)
    steps = union([*bounds, (bounds[-1][0], max(bounds[-1][1], end))])  # the last one ends with its work
    waits = common(union(trace.loads), steps)
    calls = union((start, end) for start, end, _ in trace.launches.values())
    hidden = union([*common(waits, busy), *common(waits, calls)])
    return total(waits) - total(hidden), total(steps)


def _launcher(trace: Trace, work: GpuWork, rows: Iterable[int]) -> int | None:
    """The host thread with most launches of a GPU."""
    calls = Counter(
        call[2] for row in rows if (call := trace.launches.get(work.correlation[row])) is not None
    ).most_common(1)
    return calls[0][0] if calls else None


def _explain(use: GpuUse, trace: Trace, long: Sequence[Interval], thread: int | None) -> None:
    """Set the long gaps of a GPU, and what the host did in them."""
    use.long_gaps, use.long_gaps_ns = len(long), total(long)
    host = trace.host
    own = sorted(
        (host.start[row], -host.end[row], host.name[row])
        for row in range(len(host.start))
        if host.thread[row] == thread
    )
    outermost: list[tuple[int, int, int]] = []
    for start, end, name in own:
        if not outermost or start >= outermost[-1][1]:
            outermost.append((start, -end, name))
    starts, ends = [one[0] for one in outermost], [one[1] for one in outermost]
    names, everywhere = trace.names, Counter[str]()
    explained: list[Gap] = []
    for low, high in long:
        here = Counter[str]()
        for start, end, name in outermost[bisect_right(ends, low) : bisect_left(starts, high)]:
            here[names[name]] += min(end, high) - max(start, low)
        if left := (high - low) - here.total():
            here["outside of operations"] += left
        everywhere.update(here)
        explained.append(Gap(low - use.start, high - use.start, tuple(here.most_common(_SHOWN))))
    explained.sort(key=lambda gap: gap.start - gap.end)
    use.gaps, use.during_gaps = explained[:_SHOWN], everywhere.most_common(_SHOWN)
