"""Changes of the level of a series: one split in two, found with sums and checked with medians."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import sqrt
from typing import TYPE_CHECKING

from perfmon.core import median

from .run_boundaries import restarts_of
from .runs import boundaries

if TYPE_CHECKING:
    from .run_view import RunView
    from .tracks import Column

BLOCKS = 200
"""A longer series is looked at in so many blocks of neighbours."""
_MAD = 1.4826
"""Times the median deviation is the standard deviation of normal noise."""


def in_blocks(values: Sequence[float], most: int = BLOCKS) -> tuple[list[float], int]:
    """(medians of blocks of neighbours, samples in a block): the values themselves where there are few."""
    size = -(-len(values) // most) or 1
    if size == 1:
        return list(values), 1
    return [median(values[at : at + size]) for at in range(0, len(values), size)], size


def split(values: Sequence[float], least: int) -> int | None:
    """The index that best splits values into larger and later smaller ones; None where there are too few.

    Both sides have at least `least` values. Noise moves the split a little; its significance is checked elsewhere.
    """
    count = len(values)
    if count < 2 * least:
        return None
    sums = list(accumulate(values, initial=0.0))

    def gain(at: int) -> float:
        fall = sums[at] / at - (sums[count] - sums[at]) / (count - at)
        return fall * sqrt(at * (count - at))

    return max(range(least, count - least + 1), key=gain)


def spread(values: Sequence[float]) -> float:
    """Standard deviation of values, without minding those that stand out."""
    middle = median(values)
    return _MAD * median([abs(value - middle) for value in values])


def noise(values: Sequence[float]) -> float:
    """Standard deviation of the differences of neighbours: a trend does not count."""
    steps = [abs(after - before) for before, after in pairwise(values)]
    return _MAD * median(steps) / sqrt(2) if steps else 0.0


def since_restart(column: Column, view: RunView) -> int:
    """The first sample of the latest run in the logs: what another one did is no measure."""
    begins = [restart.between[1] for restart in view.fact(restarts_of)]
    begins += [one.time for one in view.fact(boundaries) if one.from_start]
    return bisect_right(column.times, max(begins)) if begins else 0


def steps_fall_back(source: int, start: float, end: float, view: RunView) -> bool:
    """True where the step numbers of a log restart in a range: another phase need not be like the last one."""
    for track in view.steps.values():
        first, stop = track.between(start, end)
        numbers = [track.values[at] for at in range(max(0, first - 1), stop) if track.source(at) == source]
        if any(after < before for before, after in pairwise(numbers)):
            return True
    return False


def step_at(time: float, view: RunView) -> str:
    """The number of the last step that was printed by then; "" where none was, or no line has a time."""
    number = ""
    newest = float("-inf")
    for track in view.steps.values() if view.timed else ():
        at = bisect_right(track.times, time) - 1
        if at >= 0 and track.times[at] > newest:
            newest, number = track.times[at], f"{track.values[at]:.0f}"
    return number


def step_on(source: int, line: int, view: RunView) -> str:
    """The number of the step that a line of a log reports; "" for none."""
    for series in view.store.steps.values():
        for other, value, index in zip(series.lines, series.values, series.sources, strict=True):
            if other == line and index == source:
                return f"{value:.0f}"
    return ""


def checkpoint_before(time: float, view: RunView) -> str:
    """The key (a step) of the last checkpoint that was written by then; "" where none was, or it has no name."""
    written = [span for span in view.spans("checkpoint-write") if span.end < time and span.key]
    return max(written, key=lambda span: span.end).key if written else ""
