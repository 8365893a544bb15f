"""Boundaries of runs in the logs: restarts, and ends."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

from perfmon.core import BEGINS_WITH, BETWEEN_RUNS_S, UNDER_WAY, Gap, Span, Update, union, without
from perfmon.store import Series, SourceState

from .activity import activity_of
from .runs import pauses_of
from .silence import FAREWELL, dated, is_set_forward, silences
from .tracks import DONE, SENT

if TYPE_CHECKING:
    from perfmon.core import Window

    from .run_view import RunView


# --- Whether a run stood still within a step before another one began in the same logs, or had ended ---
#
# Both look alike from afar: a long silence, and steps that begin at 0. What tells is what the earlier run was at. Where
# something had begun since its last step and never ended, the run was at work when it fell silent: the silence is time
# that it lost, until somebody gave up and started it anew. Where it said that it ends, or that it failed, no process
# was left to lose anything: until the next start nobody ran. Where neither is told, it is taken for a pause: a run that
# prints nothing but its steps ends behind one of them, and a stall that is not there costs more trust than a pause that
# was one.

_CRASH = "crash"
_FAILED = re.compile(
    r"\b(?:ERROR|CRITICAL|FATAL|Traceback|[A-Z]\w*(?:Error|Exception)|SIG(?:TERM|KILL|INT|ABRT|SEGV)|[Kk]illed|[Aa]borted)\b"
)
_BEGUN = re.compile(r"(?i)\b(?:start(?:ed|ing)? [^:;|]{0,40}?\b(?:step|iteration|batch|rollouts?)\b|waiting for\b)")
"""Lines that say what a run is at, of which no pattern tells that it begins."""

Lines = tuple[int, int]
"""The last line that tells of a step, and the last dated one."""


def died_within(silence: Window, view: RunView) -> bool:
    """Whether the run that fell silent there was within a step and neither said that it ends nor that it failed."""
    before = _last_lines(silence, view)
    texts = [gap.text for gap in before.values()]
    if any(FAREWELL.search(text) or _FAILED.search(text) for text in texts) or _crashed(before, view):
        return False
    within = {source: (_last_step(source, gap.line, view), gap.line) for source, gap in before.items()}
    begun = any(_BEGUN.search(before[source].text) for source, (step, _) in within.items() if step)
    return begun or any(_was_open(span, within) for span in _spans(view))


def _last_lines(silence: Window, view: RunView) -> dict[int, Gap]:
    """The gap of each log that holds the silence."""
    low, high = silence
    shifts = view.shifts
    return {
        state.index: gap
        for state in view.store.sources
        if not state.polled
        for gap in state.gaps
        if gap.start + shifts.get(state.index, 0.0) <= low and high <= gap.end + shifts.get(state.index, 0.0)
    }


def _crashed(before: dict[int, Gap], view: RunView) -> bool:
    """Lines without a clock, between the last dated line and the first one of the later run, tell of a crash."""
    marks = [series for (name, _), series in view.store.marks.items() if name == _CRASH]
    return any(
        source in before and before[source].line < line and not 0 < before[source].upto <= line
        for series in marks
        for source, line in zip(series.sources, series.lines, strict=True)
    )


def _last_step(source: int, upto: int, view: RunView) -> int:
    """The line of a log's last step up to a line; 0 for none."""
    lines = (
        line
        for series in view.store.steps.values()
        for line, of in zip(series.lines, series.sources, strict=True)
        if of == source and line <= upto
    )
    return max(lines, default=0)


def _spans(view: RunView) -> Iterable[Span]:
    yield from view.store.opened()
    yield from view.store.abandoned
    yield from view.store.updates
    for spans in view.store.spans.values():
        yield from spans


def _was_open(span: Span, within: dict[int, Lines]) -> bool:
    """It began after the last step, and no line of that run told its end: where one did, it was the later run's."""
    if not span.refs or span.refs[0][0].source not in within:
        return False
    step, last = within[span.refs[0][0].source]
    if not step < span.refs[0][0].line <= last:
        return False
    if isinstance(span, Update):
        return span.legs & (SENT | DONE) == SENT
    return span.end is None or span.refs[-1][0].line > last


# --- Runs that follow one another in the same logs: their steps count from 0 again behind a long silence ---
#
# The time between is no run's, and what comes before the first step of the later run is its start-up. A counter that
# falls without a silence counts something else (the steps of an epoch), and one that goes on means one run. Where the
# earlier run stood still within a step until somebody killed it, the silence is its own: see
# `perfmon.rules.run_boundaries`.

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
        for between, working in _of(counter, long):
            if not any(_goes_on(other, between[0]) for other in counters):
                found[between] = max(found.get(between, working), working)
    return [Restart(between, found[between], died_within(between, view)) for between in sorted(found)]


def _counter(series: Series, view: RunView) -> list[Step]:
    """All that a component told of its steps, whatever part of the run is looked at."""
    told = zip(series.times, series.values, series.sources, strict=True)
    return sorted((time + view.shift(source), step) for time, step, source in told)


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
    for low, high in sorted(view.extent(state) for state in dated(view)):
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
