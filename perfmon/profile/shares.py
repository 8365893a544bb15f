"""A trace in parts: of each step, or other part of the time, the shares of what holds it up."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from .trace import BATCHES, Interval, Trace, union

PARTS = 20
"""Parts of a trace without steps and without a DataLoader."""
CELLS = 40
"""Samples of a trace, by which two are compared."""
MOST_PARTS = 60
"""Of more steps several are a part."""
_LEAST = 2


@dataclass(frozen=True, slots=True)
class Shares:
    """A part of the time of a GPU; shares are of its length, 0 to 1."""

    start: int
    end: int
    """Nanoseconds."""
    idle: float
    compute: float
    """Some kernel computes, whatever else runs."""
    late: float
    """Idle, and the next work is launched late."""
    launch: float
    """Of that, gaps below a millisecond that neither waits for data nor for copies explain."""
    stall: float
    """The same in longer gaps: the host launches nothing."""
    data: float | None
    """Waits of the host for a batch that nothing hides; None without a DataLoader."""
    communication: float
    exposed: float
    """Communication while nothing computes."""
    fed: float
    """Copies from the host while nothing computes."""
    sync: float
    """The host waits for a GPU that has nothing to do."""
    pageable: float | None
    """Share of the bytes from the host that come from pageable memory; None without such copies."""

    @property
    def rest(self) -> float:
        """The part that no other share explains: other copies, and idle time with another reason."""
        known = self.compute + self.exposed + self.fed + (self.data or 0.0) + self.launch + self.stall
        return max(0.0, 1.0 - known)


def step_starts(trace: Trace, start: int, end: int) -> list[int]:
    """Starts of the steps: those of the profiler, or batches of the DataLoader; [] with fewer than three in a time."""
    steps = sorted(one[0] for one in trace.steps.values())
    loads = [one[0] for one in union(trace.loads)]
    if trace.is_streamed or not loads:  # batches that follow each other at once have no waits between them
        loads = sorted({one[0] for one in trace.ranges.get(BATCHES, ())})
    return next((held for held in (steps, loads) if len(_within(held, start, end)) > _LEAST), [])


def periods(starts: Sequence[int], start: int, end: int) -> list[Interval]:
    """The parts of a time: its steps, or equal parts."""
    if not starts:
        return equal_parts(start, end, PARTS)
    inside = _within(starts, start, end)
    # What comes before the first whole step belongs to it, and to the last what comes behind.
    return list(pairwise([start, *inside[:: _each(inside)][1:-1], end]))


def step_lengths(starts: Sequence[int]) -> list[float]:
    """Lengths of the whole steps in nanoseconds, of many the means of some: from start to start."""
    each = _each(starts)
    return [(after - before) / each for before, after in pairwise(starts[::each])]


def sampled(starts: Sequence[int], start: int, end: int) -> Interval:
    """The time that samples are of: whole steps, unless the host runs far ahead of the GPU."""
    if not starts:
        return start, end
    inside = _within(starts, start, end)
    low, high = max(start, inside[1]), inside[-1]
    return (low, high) if 2 * (high - low) >= end - start else (start, end)


def _each(starts: Sequence[int]) -> int:
    return max(1, -(-len(starts) // MOST_PARTS))


def equal_parts(start: int, end: int, count: int) -> list[Interval]:
    """So many parts of a time, or fewer of a very short one."""
    marks = [start + (end - start) * at // count for at in range(count + 1)]
    return [part for part in pairwise(marks) if part[1] > part[0]]


def _within(bounds: Sequence[int], start: int, end: int) -> list[int]:
    """Those in a time, and the one before it: what it began may still run."""
    low = max(0, bisect_right(bounds, start) - 1)
    return list(bounds[low : bisect_left(bounds, end)])


def shares_of(
    parts: Sequence[Interval],
    held: Mapping[str, Sequence[Interval] | None],
    copies: Sequence[tuple[int, int, int, int, bool]],
) -> list[Shares]:
    """The shares of each part; of disjoint ascending intervals by name."""
    covers = {name: None if intervals is None else Cover(intervals) for name, intervals in held.items()}
    starts = [copy[0] for copy in copies]
    order = sorted(range(len(copies)), key=starts.__getitem__)
    ordered = [starts[at] for at in order]
    found = []
    for low, high in parts:
        shares = {
            name: None if cover is None else cover.length(low, high) / (high - low) for name, cover in covers.items()
        }
        here = [copies[at] for at in order[bisect_left(ordered, low) : bisect_left(ordered, high)]]
        size = sum(copy[2] for copy in here)
        pageable = sum(copy[2] for copy in here if copy[4]) / size if size else None
        found.append(Shares(low, high, **shares, pageable=pageable))  # type: ignore[arg-type]
    return found


class Cover:
    """The part of a time that disjoint intervals cover."""

    def __init__(self, intervals: Sequence[Interval]) -> None:
        self._starts = [one[0] for one in intervals]
        self._ends = [one[1] for one in intervals]
        self._sums = [0, *accumulate(one[1] - one[0] for one in intervals)]

    @property
    def whole(self) -> int:
        """All of it."""
        return self._sums[-1]

    def length(self, low: int, high: int) -> int:
        """The covered part of a time."""
        first, last = bisect_right(self._ends, low), bisect_left(self._starts, high)
        if first >= last:
            return 0
        whole = self._sums[last] - self._sums[first]
        return whole - max(0, low - self._starts[first]) - max(0, self._ends[last - 1] - high)
