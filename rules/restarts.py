"""Runs that follow one another in the same logs: their steps count from 0 again behind a long silence.

The time between is no run's, and what comes before the first step of the later run is its start-up. A counter that
falls without a silence counts something else (the steps of an epoch), and one that goes on means one run. Where the
earlier run stood still within a step until somebody killed it, the silence is its own: see `perfmon.rules.died`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

from perfmon.model import BEGINS_WITH, BETWEEN_RUNS_S, UNDER_WAY
from perfmon.series import Series

from .died import died_within

if TYPE_CHECKING:
    from .view import View, Window

Step = tuple[float, float]
"""Time and number."""


@dataclass(frozen=True, slots=True)
class Restart:
    """A run began after another one."""

    between: Window
    """The silence between them."""
    under_way: float
    """The first step of the later one."""
    hung: bool
    """The silence is the earlier run's: it stood still."""


def restarts(view: View, silences: Sequence[Window]) -> list[Restart]:
    """Where a later run begins; `silences` are those of all logs."""
    long = [(low, high) for low, high in silences if high - low >= BETWEEN_RUNS_S]
    if not long:
        return []
    counters = [_counter(series, view) for series in view.store.steps.values()]
    found: dict[Window, float] = {}
    for counter in counters:
        for between, under_way in _of(counter, long):
            if not any(_goes_on(other, between[0]) for other in counters):
                found[between] = max(found.get(between, under_way), under_way)
    return [Restart(between, found[between], died_within(between, view)) for between in sorted(found)]


def _counter(series: Series, view: View) -> list[Step]:
    """All that a component told of its steps, whatever part of the run is looked at."""
    told = zip(series.times, series.values, series.sources, strict=True)
    return sorted((time + view.shifts.get(source, 0.0), step) for time, step, source in told)


def _of(counter: Sequence[Step], silences: Sequence[Window]) -> list[tuple[Window, float]]:
    """The silences behind which one counter begins anew, and when; none where it also falls without a silence."""
    found = []
    for (before, step), (after, first) in pairwise(counter):
        if first <= BEGINS_WITH and step >= UNDER_WAY:
            within = [(low, high) for low, high in silences if before <= low and high <= after]
            if not within:
                return []
            found.append((max(within, key=lambda silence: silence[1] - silence[0]), after))
    return found


def _goes_on(counter: Sequence[Step], at: float) -> bool:
    """Its first step after a moment is a later one than its last before."""
    place = bisect_right(counter, (at, inf))
    return 0 < place < len(counter) and counter[place][1] > counter[place - 1][1]
