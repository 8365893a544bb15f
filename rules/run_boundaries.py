"""Runs that follow one another in the same logs: their steps count from 0 again behind a long silence.

The time between is no run's, and what comes before the first step of the later run is its start-up. A counter that
falls without a silence counts something else (the steps of an epoch), and one that goes on means one run. Where the
earlier run stood still within a step until somebody killed it, the silence is its own: see `perfmon.rules.died`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

from perfmon.ledger import union, without
from perfmon.model import BEGINS_WITH, BETWEEN_RUNS_S, UNDER_WAY
from perfmon.series import Series
from perfmon.sourcestate import SourceState

from .activity import activity_of
from .died import died_within
from .runs import pauses_of
from .silence import dated, is_set_forward, silences, span_of

if TYPE_CHECKING:
    from perfmon.ledger import Window

    from .run_view import RunView

_APART_S = 3600.0
_APART_FACTOR = 3.0
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


def restarts(view: RunView, silences: Sequence[Window]) -> list[Restart]:
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


def _counter(series: Series, view: RunView) -> list[Step]:
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


def dark_run(view: RunView) -> list[Window]:
    """Stretches in which no log printed a line, whatever the cause; nothing where a log may have printed unseen."""
    return without(silences(view), view.fact(apart))


def set_forward(state: SourceState, view: RunView) -> Window | None:
    """The first silence of a log that is taken for summer time."""
    return next((dark for dark in view.fact(dark_run) if is_set_forward(*dark, state, view)), None)


def apart(view: RunView) -> list[Window]:
    """The time between runs: nobody observed it.

    Between logs it is longer than an hour and than three times what lies on either side; within them it is where they
    begin anew.
    """
    if not view.timed:
        return []
    groups: list[Window] = []
    for low, high in sorted(span_of(state, view) for state in dated(view)):
        if groups and not _far(groups[-1], (low, high)):
            groups[-1] = (groups[-1][0], max(groups[-1][1], high))
        else:
            groups.append((low, high))
    logs = [(before[1], after[0]) for before, after in pairwise(groups)]
    silent = [*logs, *(one.between for one in view.fact(restarts_of) if not one.hung)]
    events = view.fact(activity_of).events
    pauses = [
        (low, high) for low, high in view.fact(pauses_of) if bisect_left(events, high) - bisect_right(events, low) <= 0
    ]
    return union([*silent, *pauses])


def _far(before: Window, after: Window) -> bool:
    longest = max(before[1] - before[0], after[1] - after[0])
    return after[0] - before[1] > max(_APART_S, _APART_FACTOR * longest)


def restarts_of(view: RunView) -> list[Restart]:
    """Where a later run begins in the same logs; none where that cannot be told."""
    return restarts(view, silences(view)) if view.timed and view.store.steps else []
