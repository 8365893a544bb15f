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
from perfmon.store import SourceState

from .activity import activity_of
from .death import CAUSE_WORDS
from .runs import boundaries, pauses_of
from .silence import FAREWELL, dated, is_set_forward, silences
from .tracks import DONE, SENT

if TYPE_CHECKING:
    from perfmon.core import Window

    from .run_view import RunView


# --- A run that hung within a step before another one started in the same logs, or one that had ended ---
#
# Both have a long silence, and steps that restart at 0. The difference is the state of the earlier run. Where something
# had started since its last step and never ended, the run was at work when its output stopped: the silence is time that
# it lost, until it was given up and restarted. Where it announced its end, or reported a failure, no process was left
# to lose anything. Where neither is known, it is taken for a pause: a run that prints nothing but its steps ends after
# one of them, and a false stall costs more trust than a missed one.

_CRASH = "crash"
_FAILED = re.compile(
    r"\b(?:ERROR|CRITICAL|FATAL|Traceback|[A-Z]\w*(?:Error|Exception)|SIG(?:TERM|KILL|INT|ABRT|SEGV)|[Kk]illed|[Aa]borted)\b"
)
_BEGUN = re.compile(r"(?i)\b(?:start(?:ed|ing)? [^:;|]{0,40}?\b(?:step|iteration|batch|rollouts?)\b|waiting for\b)")
"""Lines that announce an operation, of which no pattern reports the start."""

Lines = tuple[int, int]
"""The last line of a step, and the last dated one."""


def died_within(silence: Window, view: RunView) -> bool:
    """True where the run before a silence was within a step and announced neither its end nor a failure."""
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
    return {
        state.index: gap
        for state in view.logs
        for gap in state.gaps
        if gap.start + view.shift(state.index) <= low and high <= gap.end + view.shift(state.index)
    }


def _crashed(before: dict[int, Gap], view: RunView) -> bool:
    """Lines without a clock, between the last dated line and the first one of the later run, report a crash."""
    return any(
        source in before and before[source].line < line and not 0 < before[source].upto <= line
        for series in view.marked(_CRASH)
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
    """It started after the last step, and no line of that run reported its end."""
    if not span.refs or span.refs[0][0].source not in within:
        return False
    step, last = within[span.refs[0][0].source]
    if not step < span.refs[0][0].line <= last:
        return False
    if isinstance(span, Update):
        return span.legs & (SENT | DONE) == SENT
    return span.end is None or span.refs[-1][0].line > last


# --- Successive runs in the same logs: their steps restart at 0 after a long silence ---
#
# The time between belongs to no run, and what comes before the first step of the later run is its start-up. A counter
# that falls without a silence counts something else (the steps of an epoch), and one that continues means one run.
# Where the earlier run hung within a step until it was killed, the silence is its own, see above.

_APART_S = 3600.0
_APART_FACTOR = 3.0
Step = tuple[float, float]
"""Time and number."""


@dataclass(frozen=True, slots=True)
class Restart:
    """The start of a run after another one."""

    between: Window
    """The silence between them."""
    under_way: float
    """The first step of the later one."""
    hung: bool
    """The silence is the earlier run's: it stood still."""


def restarts_of(view: RunView) -> list[Restart]:
    """The starts of later runs in the same logs, by their steps."""
    ranges = silences(view) if view.timed and view.store.steps else ()
    long = [(low, high) for low, high in ranges if high - low >= BETWEEN_RUNS_S]
    if not long:
        return []
    # All steps of each component, whatever part of the run is evaluated.
    counters = [
        sorted(
            (time + view.shift(log), step) for time, step, log in zip(one.times, one.values, one.sources, strict=True)
        )
        for one in view.store.steps.values()
    ]
    found: dict[Window, float] = {}
    for counter in counters:
        for between, working in _of(counter, long):
            if not any(_continues(other, between[0]) for other in counters):
                found[between] = max(found.get(between, working), working)
    return [Restart(between, found[between], died_within(between, view)) for between in sorted(found)]


def _of(counter: Sequence[Step], silences: Sequence[Window]) -> list[tuple[Window, float]]:
    """The silences after which one counter restarts, and when; none where it also falls without a silence."""
    found = []
    for (before, step), (after, first) in pairwise(counter):
        if first <= BEGINS_WITH and step >= UNDER_WAY:
            within = [(low, high) for low, high in silences if before <= low and high <= after]
            if not within:
                return []
            found.append((max(within, key=lambda silence: silence[1] - silence[0]), after))
    return found


def _continues(counter: Sequence[Step], at: float) -> bool:
    """Its first step after a moment is a later one than its last before."""
    place = bisect_right(counter, (at, inf))
    return 0 < place < len(counter) and counter[place][1] > counter[place - 1][1]


def dark_run(view: RunView) -> list[Window]:
    """Ranges in which no log printed a line, whatever the cause; none where a log may have printed undated lines."""
    return without(silences(view), view.fact(apart))


def set_forward(state: SourceState, view: RunView) -> Window | None:
    """The first silence of a log that is taken for summer time."""
    return next((dark for dark in view.fact(dark_run) if is_set_forward(*dark, state, view)), None)


def apart(view: RunView) -> list[Window]:
    """The time between runs, which is not observed.

    Between logs it is longer than an hour and than three times what lies on either side; within them it is where runs
    restart.
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


# --- The last start of a run that another one had begun ---

_TOGETHER_S = 120.0
"""The parts of a run start again within so many seconds."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """The start of a run that continues another one, or tries its start again."""

    time: float
    """On the axis of the run."""
    down_s: float
    """Seconds since the last sign of the one before."""
    cause: str
    """What ended that one, in words; "" where no line reports it."""
    step: float | None
    """The step, epoch or the like with which it goes on; None where none is known."""
    again: float
    """The number of those that it makes once more."""
    unit: str


def resumption_of(view: RunView) -> Resumption | None:
    """The last restart of the run; None where it began once, or as a run of its own."""
    found = view.fact(boundaries)
    if not found or not view.timed:
        return None
    same = [one for one in found if found[-1].time - one.time <= _TOGETHER_S]
    again = [one for one in same if one.resumed or one.again]
    if not again:
        return None
    resumed = max((one for one in same if one.resumed), key=lambda one: one.unit == "step", default=None)
    failed = min((one.failure for one in same if one.failure is not None), key=lambda one: one.time, default=None)
    first, last = (None, None) if resumed is None else (resumed.first_step, resumed.last_step)
    return Resumption(
        again[-1].time,
        max(0.0, again[-1].time - min(one.ended for one in again)),
        "" if failed is None else CAUSE_WORDS.get(failed.cause, failed.cause),
        first,
        0.0 if first is None or last is None else max(0.0, last - first + 1),
        "step" if resumed is None else resumed.unit,
    )
