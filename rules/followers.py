"""Lines without a clock that always follow a dated one, as timers follow an iteration: they fill no silence.

When they were printed is not known, only that as many have come within a short time before, and often.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from perfmon.model import Gap
from perfmon.series import Series

_OFTEN = 5
_LOOKED_AT = 64
"""Samples of each series before the silence."""
_QUICK = 1 / 3
"""Of the silence: within this time as many lines came before."""
Told = tuple[float, int]
"""Time and line."""


def is_filled(held: Iterable[Series], source: int, gap: Gap) -> bool:
    """More lines without a clock told something within a gap of a log than usually follow a dated one."""
    within: dict[int, int] = {}
    series = list(held)
    for at, one in enumerate(series):
        count = _within(one, source, gap)
        if count:
            within[at] = count
    if not within:
        return False
    before = [_before(one, source, gap) for one in series]
    dated = _dated(told for one in before for told in one)
    quick = _quick(dated, gap)
    return any(not _usual(before[at], count, dated, quick) for at, count in within.items())


def _within(series: Series, source: int, gap: Gap) -> int:
    """Samples behind the line before the gap; without a clock they have its time."""
    first, stop = 0, len(series)
    if series.steady():
        if not stop or series.sources[0] != source:
            return 0
        first, stop = bisect_left(series.times, gap.start), bisect_right(series.times, gap.start)
    return sum(
        series.sources[at] == source and series.times[at] == gap.start and series.lines[at] > gap.line
        for at in range(first, stop)
    )


def _before(series: Series, source: int, gap: Gap) -> list[Told]:
    """The last samples that a log told before the gap's first line."""
    if series.steady():
        if not len(series) or series.sources[0] != source:
            return []
        stop = bisect_left(series.times, gap.start)
        places = range(max(0, stop - _LOOKED_AT), stop)
        return [(series.times[at], series.lines[at]) for at in places]
    mine = [
        (time, line)
        for time, line, told_by in zip(series.times, series.lines, series.sources, strict=True)
        if told_by == source and time < gap.start
    ]
    return sorted(mine)[-_LOOKED_AT:]


def _dated(told: Iterable[Told]) -> dict[float, int]:
    """By their time the first lines that have it: those may be dated."""
    first: dict[float, int] = {}
    for time, line in told:
        first[time] = min(line, first.get(time, line))
    return first


def _quick(times: Iterable[float], gap: Gap) -> set[float]:
    """Times after which the next one came soon."""
    return {
        before for before, after in pairwise([*sorted(times), gap.start]) if after - before <= _QUICK * _length(gap)
    }


def _length(gap: Gap) -> float:
    return gap.end - gap.start


def _usual(before: Iterable[Told], count: int, dated: dict[float, int], quick: set[float]) -> bool:
    """So many samples of a series, and more, have often followed a dated line soon."""
    followed = Counter(time for time, line in before if line > dated[time] and time in quick)
    return sum(came >= count for came in followed.values()) >= _OFTEN
