"""Evaluation of a trace: of each GPU busy and idle time, what it waits for, and what the host did in it."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from perfmon.core import intersection, without

from .shares import CELLS, Cover, Shares, equal_parts, periods, sampled, shares_of, step_lengths, step_starts
from .trace import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    MEMSET,
    GpuWork,
    Group,
    Interval,
    Trace,
    gaps,
    joined,
    total,
    union,
)

LONG_GAP_NS = 1_000_000
"""Gaps from one millisecond on are listed: shorter ones are between launches."""
KERNEL_WAIT_NS = 30_000
"""Between two kernels that were launched in time: HolisticTraceAnalysis has the same limit."""
_MOSTLY = 0.6
"""An operation is explained by those within it that take so much of it."""
_SHOWN = 5
_MOST_SAMPLES = 40
_MOST_COLLECTIVES = 1000
"""Of one name: the same ones of each rank."""
_UNKNOWN = Group("", ())


@dataclass(frozen=True, slots=True)
class Gap:
    """Time in which a GPU does nothing; nanoseconds from the first work of the GPU."""

    start: int
    end: int
    host: tuple[tuple[str, int], ...]
    """Work of the host thread that launches in it, with its length, the longest first: operations that no other one
    within them explains, with the one that they are in."""


@dataclass(frozen=True, slots=True)
class NamedRange:
    """Ranges of a name, with its numbers left out, and the time between them; nanoseconds."""

    name: str
    count: int
    total: int
    between: int
    """The time between two of them in sum."""
    longest_between: int
    pairs: int
    """The number of neighbours in one process: there is time between two of them."""
    samples: tuple[tuple[float, float], ...] = ()
    """Mean length, and mean time to the one before, of successive groups of them."""


@dataclass(slots=True)
class Collectives:
    """Kernels of one name and process group that communicate, in order; of many every nth one."""

    group: str
    """The name of the process group; "" where it is not known."""
    ranks: tuple[int, ...]
    """The members of the group; () where they are not known."""
    count: int
    """All of them."""
    start: array[int]
    duration: array[int]
    """Nanoseconds."""


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
    collectives: dict[str, Collectives] = field(default_factory=dict)
    """The kernels in which a rank waits for its peers, by what is the same on all members of their group."""
    whole: Shares = field(init=False)
    """All of the time as one part."""
    parts: list[Shares] = field(default_factory=list)
    """The steps, or other parts of the time, in order."""
    steps_ns: list[float] = field(default_factory=list)
    """Lengths of the whole steps or batches, in order."""
    cells: list[Shares] = field(default_factory=list)
    """Equal short parts of the whole steps, as samples."""
    longest_load: int = 0
    """The longest wait for a batch, as far as it is part of `loader`."""
    launched: bool = True
    """Some launch of its work is in the trace: without any the reasons of idle time are not known."""
    lanes: dict[str, list[Interval]] = field(default_factory=dict)
    """The time of each kind of work, for a picture: disjoint, ascending."""

    @property
    def idle(self) -> int:
        """The time without any work."""
        return self.span - self.busy


def evaluate(trace: Trace, long_gap: int = LONG_GAP_NS) -> list[GpuUse]:
    """The use of every GPU of a trace."""
    found = []
    for device, work in sorted(trace.gpus.items()):
        rows = _complete(work, trace)
        if rows:
            found.append(_evaluate(trace, device, work, rows, long_gap))
    return found


def named_ranges(trace: Trace) -> list[NamedRange]:
    """The ranges that the program named, the longest first."""
    found = []
    for name, held in trace.ranges.items():
        apart = gaps(union(held))
        longest = max((end - low for low, end in apart), default=0)
        pairs, samples = len(held) - 1, _samples(sorted(held))
        found.append(NamedRange(name, len(held), total(held), total(apart), longest, pairs, samples))
    return sorted(found, key=lambda one: one.total, reverse=True)


def _samples(held: Sequence[Interval]) -> tuple[tuple[float, float], ...]:
    each = -(-len(held) // _MOST_SAMPLES)
    between = [max(0, after[0] - before[1]) for before, after in pairwise(held)]
    found = []
    for low in range(0, len(held) - 1, each):
        lengths, apart = held[low + 1 : low + 1 + each], between[low : low + each]
        found.append((total(lengths) / len(lengths), sum(apart) / len(apart)))
    return tuple(found)


def _complete(work: GpuWork, trace: Trace) -> array[int]:
    """The rows of a GPU by start, of several steps without the work of the last one: the profiler cuts that off.

    Work whose launch is not in the trace was launched before it, and is left out with it, as HolisticTraceAnalysis
    does; work that names no launch belongs to the step in which it runs.
    """
    rows: Iterable[int] = range(len(work.start))
    if (cut := trace.last_step) is not None:
        begun = trace.launches.start
        rows = [
            row
            for row in rows
            if (
                work.start[row] < cut
                if work.correlation[row] < 0
                else (call := work.call[row]) >= 0 and begun[call] < cut
            )
        ]
    return array("q", sorted(rows, key=work.start.__getitem__))


def _evaluate(trace: Trace, device: int, work: GpuWork, rows: Sequence[int], long_gap: int) -> GpuUse:
    by_kind = {
        kind: joined((work.start[row], work.end[row]) for row in rows if work.kind[row] == kind)
        for kind in (COMPUTE, COMMUNICATION, COPY, MEMSET)
    }
    busy = joined((work.start[row], work.end[row]) for row in rows)
    start, span = busy[0][0], busy[-1][1] - busy[0][0]
    idle = gaps(busy)
    streams = _breakdown(trace, work, rows)
    mean, most = _queue(trace, work, rows)
    waits, stepped = _loader(trace, busy, max(work.end))
    host, kernel, other = (sum(one[at] for one in streams.values()) for at in range(3))
    stalls = intersection(union(trace.syncs), idle)
    copies = trace.copies.get(device, [])
    use = GpuUse(
        trace.file, trace.rank, device, trace.devices.get(device, ""), start, span, total(busy),
        total(by_kind[COMPUTE]), total(by_kind[COMMUNICATION]), total(by_kind[COPY]),
        total(intersection(by_kind[COMMUNICATION], by_kind[COMPUTE])),
        host, kernel, other, total(stalls), None if waits is None else total(waits), stepped,
        sum(copy[2] for copy in copies if copy[4]), sum(copy[2] for copy in copies),
        total(union(copy[:2] for copy in copies if copy[4])), mean, most, streams,
    )  # fmt: skip
    thread = _launcher(trace, work, rows)
    use.launched = thread is not None
    if waits:
        waited = Cover(waits)
        use.longest_load = max(waited.length(*load) for load in union(trace.loads))
    _explain(use, trace, [gap for gap in idle if gap[1] - gap[0] >= long_gap], thread)
    use.collectives = _collectives(trace, work, rows)
    late = _late(trace, work, rows, idle)
    fed = _fed(trace, device, by_kind[COMPUTE])
    use.lanes = {
        "compute": by_kind[COMPUTE], "communication": by_kind[COMMUNICATION],
        "copies": union([*by_kind[COPY], *by_kind[MEMSET]]), "idle": idle,
        "launched late": late, "sync stall": stalls, "data loading": waits or [],
    }  # fmt: skip
    held = {
        "idle": idle,
        "compute": by_kind[COMPUTE],
        "late": late,
        "launch": without(without([gap for gap in late if gap[1] - gap[0] < LONG_GAP_NS], waits or []), fed),
        "stall": without(without([gap for gap in late if gap[1] - gap[0] >= LONG_GAP_NS], waits or []), fed),
        "data": waits,
        "communication": by_kind[COMMUNICATION],
        "exposed": without(by_kind[COMMUNICATION], by_kind[COMPUTE]),
        "fed": fed,
        "sync": stalls,
    }
    (use.whole,) = shares_of([(start, start + max(1, span))], held, copies)
    starts = step_starts(trace, start, start + span)
    use.steps_ns = step_lengths(starts)
    use.parts = shares_of(periods(starts, start, start + span), held, copies)
    use.cells = shares_of(equal_parts(*sampled(starts, start, start + span), CELLS), held, copies)
    return use


def _collectives(trace: Trace, work: GpuWork, rows: Sequence[int]) -> dict[str, Collectives]:
    names, found = trace.names, dict[tuple[str, Group, int], list[int]]()
    streams: dict[int, int] = {}
    for row in rows:
        if work.kind[row] == COMMUNICATION and row not in work.non_synchronizing:
            # Each process group has streams of its own; their numbers may differ between ranks.
            stream = streams.setdefault(work.stream[row], len(streams))
            group = work.groups.get(row)
            key = (names[work.name[row]], group or _UNKNOWN, -1 if group else stream)
            found.setdefault(key, []).append(row)
    made = {}
    for (name, group, stream), held in found.items():
        one = made[f"{name} {group.name} {group.ranks} {stream}"] = Collectives(
            group.name, group.ranks, len(held), array("q"), array("q")
        )
        for row in held[:: -(-len(held) // _MOST_COLLECTIVES)]:
            one.start.append(work.start[row])
            one.duration.append(work.end[row] - work.start[row])
    return made


def _late(trace: Trace, work: GpuWork, rows: Sequence[int], idle: Sequence[Interval]) -> list[Interval]:
    """The gaps of a GPU whose next work was launched after they began."""
    first: dict[int, int] = {}
    begins = {gap[1] for gap in idle}
    for row in rows:
        if work.start[row] in begins:
            first.setdefault(work.start[row], row)
    found = []
    for gap in idle:
        call = work.call[first[gap[1]]]
        if call >= 0 and trace.launches.start[call] > gap[0]:
            found.append(gap)
    return found


def _fed(trace: Trace, device: int, compute: Sequence[Interval]) -> list[Interval]:
    """The time in which data go from the host to the GPU and nothing computes.

    A copy from pageable memory includes its call, in which the host first moves the data to a buffer.
    """
    held = []
    for start, end, _, call, pageable in trace.copies.get(device, []):
        held.append((min(start, trace.launches.start[call]) if pageable and call >= 0 else start, end))
    return without(union(held), compute)


def _breakdown(trace: Trace, work: GpuWork, rows: Sequence[int]) -> dict[int, tuple[int, int, int]]:
    """The idle time of each stream by its reason, as HolisticTraceAnalysis divides it."""
    found: dict[int, list[int]] = {}
    ended: dict[int, int] = {}
    begun = trace.launches.start
    for row in rows:
        stream = work.stream[row]
        before = ended.get(stream)
        ended[stream] = work.end[row]
        reasons = found.setdefault(stream, [0, 0, 0])
        if before is None:
            continue
        gap = work.start[row] - before
        call = work.call[row]
        if call >= 0 and begun[call] > before:
            reasons[0] += gap
        elif gap < KERNEL_WAIT_NS:
            reasons[1] += gap
        else:
            reasons[2] += gap
    return {stream: (host, kernel, other) for stream, (host, kernel, other) in found.items()}


def _queue(trace: Trace, work: GpuWork, rows: Sequence[int]) -> tuple[float, int]:
    """Mean and maximum of the launches that wait, over all changes of all streams."""
    changes: dict[int, array[int]] = {}
    for row in rows:
        if (call := work.call[row]) >= 0:
            held = changes.setdefault(work.stream[row], array("q"))
            held.append(trace.launches.start[call] << 1)  # the lowest bit: it starts to run
            held.append(work.start[row] << 1 | 1)
    summed = count = most = 0
    for held in changes.values():
        depth = 0
        for change in sorted(held):
            depth += -1 if change & 1 else 1
            summed += depth
            most = max(most, depth)
        count += len(held)
    return (summed / count if count else 0.0), most


def _loader(trace: Trace, busy: Sequence[Interval], end: int) -> tuple[list[Interval] | None, int]:
    """The waits for a batch that neither the GPU nor a call of the runtime hides, and the time of all steps."""
    if not trace.loads:
        return None, 0
    loads = union(trace.loads)
    bounds = union(trace.steps.values()) or [(loads[0][0], loads[-1][1])]
    steps = union([*bounds, (bounds[-1][0], max(bounds[-1][1], end))])  # the last one ends with its work
    waits = intersection(loads, steps)
    calls = union(zip(trace.launches.start, trace.launches.end, strict=True))
    return without(waits, union([*intersection(waits, busy), *intersection(waits, calls)])), total(steps)


def _launcher(trace: Trace, work: GpuWork, rows: Iterable[int]) -> int | None:
    """The host thread with most launches of a GPU."""
    calls = Counter(trace.launches.thread[call] for row in rows if (call := work.call[row]) >= 0).most_common(1)
    return calls[0][0] if calls else None


def _explain(use: GpuUse, trace: Trace, long: Sequence[Interval], thread: int | None) -> None:
    """Set the long gaps of a GPU, and what the host did in them."""
    use.long_gaps, use.long_gaps_ns = len(long), total(long)
    host, loads = _Nested(trace, long, thread), Cover(trace.loads if trace.is_streamed else ())
    explained: list[Gap] = []
    for low, high in long:
        here = host.during(low, high)
        left = (high - low) - here.total()
        if left and trace.is_streamed and (waited := min(left, loads.length(low, high))):
            here["waiting for the next batch"], left = waited, left - waited
        if left:
            here["outside of operations"] += left
        explained.append(Gap(low - use.start, high - use.start, tuple(here.most_common(_SHOWN))))
    explained.sort(key=lambda gap: gap.start - gap.end)
    use.gaps = explained[:_SHOWN]


class _Nested:
    """The operations of a host thread within some gaps, with those that they contain."""

    def __init__(self, trace: Trace, long: Sequence[Interval], thread: int | None) -> None:
        host, names = trace.host, trace.names
        lows, highs = [gap[0] for gap in long], [gap[1] for gap in long]
        own = []
        for row in range(len(host.start)) if long else ():
            if host.thread[row] == thread:
                gap = bisect_right(highs, host.start[row])
                if gap < len(lows) and lows[gap] < host.end[row]:  # of so many operations only those in long gaps
                    own.append((host.start[row], -host.end[row], host.name[row]))
        own.sort()
        self._starts = [start for start, _, _ in own]
        self._ends = [-end for _, end, _ in own]
        self._names = [names[name] for _, _, name in own]
        self._parents: list[int] = []
        opened: list[int] = []
        for at, start in enumerate(self._starts):
            while opened and self._ends[opened[-1]] <= start:
                opened.pop()
            self._parents.append(opened[-1] if opened else -1)
            opened.append(at)

    def during(self, low: int, high: int) -> Counter[str]:
        """The operations that took the time: of each outermost one the innermost that is most of it."""
        first = bisect_right(self._starts, low)
        inside: dict[int, list[int]] = {}
        at = first - 1
        while at >= 0:
            if self._ends[at] > low:
                inside.setdefault(self._parents[at], []).append(at)
            at = self._parents[at]
        for at in range(first, bisect_left(self._starts, high)):
            inside.setdefault(self._parents[at], []).append(at)
        found = Counter[str]()
        for name, held in self._by_name(inside.get(-1, ())).items():
            path, places = [name], held
            while children := self._by_name(child for at in places for child in inside.get(at, ())):
                most = max(children, key=lambda child: self._within(children[child], low, high))
                if self._within(children[most], low, high) < _MOSTLY * self._within(places, low, high):
                    break
                places = children[most]
                if most != path[-1]:
                    path.append(most)
            words = f"{path[-1]} (in {path[-2]})" if len(path) > 1 else name
            found[words] += self._within(held, low, high)
        return found

    def _by_name(self, places: Iterable[int]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for at in places:
            found.setdefault(self._names[at], []).append(at)
        return found

    def _within(self, places: Iterable[int], low: int, high: int) -> int:
        return sum(max(0, min(self._ends[at], high) - max(self._starts[at], low)) for at in places)
