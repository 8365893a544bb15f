"""Interruptions that are no stalls: phases that last long, pauses that recur, work on GPUs; restarts and ends."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

from perfmon.core import BEGINS_WITH, BETWEEN_RUNS_S, UNDER_WAY, Gap, Ref, Span, Update, Window, median, union, without
from perfmon.store import SourceState, WorkCounter

from .activity import LEAST_STALL_S, PHASE_KINDS, activity_of, all_tracks
from .death import CAUSE_WORDS
from .runs import boundaries
from .silence import FAREWELL, dated, is_set_forward, silences
from .tracks import DONE, SENT

if TYPE_CHECKING:
    from perfmon.core import Window

    from .run_view import RunView
    from .tracks import Column, Item

PHASE_BOUNDS_S = {
    "model-load": 1800.0, "download": 1800.0, "engine-init": 2700.0, "compile": 1200.0, "graph-capture": 900.0,
    "data-prepare": 3600.0, "checkpoint-load": 1800.0, "checkpoint-write": 900.0, "evaluation": 1800.0,
}  # fmt: skip
"""Seconds that an announced phase may last before it counts as hung, where the run has had none of its kind."""
USUAL_PHASE = 3.0
"""Times the usual length of a phase that it may last."""
BEGINNING_S = 600.0
_BETWEEN_S = 300.0
"""Seconds that something that prints nothing may take after a full bar: validation, a checkpoint, an upload."""
_NEARLY = 0.01
_CLOCK_S = 1.0
BEGINS = re.compile(
    r"(?i)\b(?:saving|evaluating|validating|compiling|capturing|loading|downloading|initiali[sz]ing|profiling|"
    r"warming up|warm-?up|resharding|offloading|"
    r"(?:start\w*|begin\w*|running|launch\w*|writing|enter\w*)\b.{0,40}\b(?:eval\w*|validation|checkpoint\w*|save|"
    r"compil\w*|test\w*|benchmark\w*|profil\w*))\b"
)
"""Last lines of a log that announce a long phase which no format knows."""
_RECALLED = 16
"""The longest pauses of a kind of progress that are looked back on."""
_ALIKE, _AS_LONG = 0.2, 2.0
"""The part by which the times between pauses that recur differ, and how long one is, as a multiple of the others."""
_BEFORE_S, _TOGETHER_S = 120.0, 30.0
_WORKS, _SPINS = 20.0, 99.0
"""Load of a GPU in % that shows work; kernels that wait for other ranks keep it at its maximum."""


def phase_limit(view: RunView, main: Sequence[SourceState], start: float, end: float) -> float:
    """Seconds that a phase may last that is open, or announced by the last line of a log, at the start of a range."""
    limit, bars = 0.0, dict[int, int]()
    for span in view.store.opened():
        shift = view.shift(span.source)
        if span.start is None or not span.start + shift <= start + 1.0 or span.kind.endswith("-wait"):
            continue
        ended = [item for item in view.spans(span.kind) if item.end <= start]
        lengths = [item.end - item.start for item in ended]
        bound = PHASE_BOUNDS_S.get(span.kind, 0.0)
        own = bar_limit(span, ended, view)
        limit = max(limit, own[1] if own is not None else USUAL_PHASE * median(lengths) if lengths else bound)
        if own is not None:
            bars[span.source] = own[0].line
    last = (text for ref, text in last_lines(view, main, start, end) if ref.line >= bars.get(ref.source, 0))
    if any(map(BEGINS.search, last)):
        limit = max(limit, BEGINNING_S)
    if any(_is_full_at(state, start, view) for state in main):
        limit = max(limit, _BETWEEN_S)
    return limit


_WITH_BARS, _BEGUN_S, _ITEMS, _AGAIN = "evaluation", 2.0, 3.0, 2.0
"""The kind of phase whose bar is seen, by how many seconds that may begin early, and how often an item's time, and the
longest pause of an earlier phase, it may stand still."""
_MOVED = 3
_EARLIER = 8


def bar_limit(span: Span, ended: Iterable[Item], view: RunView) -> tuple[WorkCounter, float] | None:
    """The own bar of an open evaluation, and the seconds that it may stand still.

    None where it shows no bar: then only the length of the whole is known, by those that have `ended`.
    """
    if span.kind != _WITH_BARS or span.start is None:
        return None
    bars = [one for one in view.counters(span.source) if one.total and one.elapsed_s]
    bars = [one for one in bars if _began(one) >= span.start - _BEGUN_S]
    last = max(bars, key=lambda one: (one.time, one.line), default=None)
    if last is None or last.amount - last.began_at < _MOVED:
        return None
    each = (last.elapsed_s or 0.0) / max(1.0, last.amount)
    longest = _longest_pause([item for item in ended if item.source == span.source][-_EARLIER:], view)
    return last, max(_BETWEEN_S, _ITEMS * each, _AGAIN * longest)


def _began(bar: WorkCounter) -> float:
    return bar.time - (bar.elapsed_s or 0.0)


def _longest_pause(phases: Sequence[Item], view: RunView) -> float:
    """The longest time without progress within phases of one log."""
    if not phases:
        return 0.0
    shift, tracks = view.shift(phases[0].source), view.store.progress.of(phases[0].source)
    times = sorted({time + shift for track in tracks for time in track.times})
    within = ((one, times[bisect_right(times, one.start) : bisect_left(times, one.end)]) for one in phases)
    return max(after - before for one, own in within for before, after in pairwise([one.start, *own, one.end]))


def _is_full_at(state: SourceState, moment: float, view: RunView) -> bool:
    """True where the last bar of a log before a moment was full: an epoch is over, and the next has not started."""
    last = max(view.counters(state.index), key=lambda one: (one.line, one.time), default=None)
    if last is None or last.total is None or abs(last.time + view.shift(state.index) - moment) > _CLOCK_S:
        return False
    return last.amount >= last.total - max(1.0, _NEARLY * last.total)  # the last frame is read when the next comes


def last_lines(view: RunView, logs: Sequence[SourceState], start: float, end: float) -> tuple[tuple[Ref, str], ...]:
    """The last line of each log before a range."""
    lines: list[tuple[Ref, str]] = []
    for state in logs:
        shift = view.shift(state.index)
        low, high = start - shift + 1.0, end - shift - 1.0
        gap = next((gap for gap in [*state.gaps, *state.idle] if gap.start <= low and gap.end >= high), None)
        if gap is not None:
            lines.append((Ref(state.index, gap.line, 0), gap.text))
            continue
        held = state.idle_since if state.idle_since and state.idle_since.start + shift <= start + 1.0 else None
        dated = state.last_line[1] and (state.tail or state.last or 0.0) + shift <= start + 1.0
        if dated and (held is None or held.line <= state.last_line[0]):
            lines.append((Ref(state.index, state.last_line[0], 0), state.last_line[1]))
        elif held is not None:  # of steps that have no timestamps
            lines.append((Ref(state.index, held.line, 0), held.text))
    return tuple(lines)


def recurring_s(view: RunView, start: float, end: float) -> float:
    """Seconds that a pause may last because pauses of its kind recur, as those for evaluations do; 0 where none do.

    Two others and this one come after the same time at work, however many steps that is.
    """
    limit = 0.0
    for track in all_tracks(view):
        if track.kind in PHASE_KINDS or track.kind.endswith("-wait") or not track.times:
            continue
        others = [(a, b) for a, b in pairwise(track.times) if b - a >= LEAST_STALL_S and not (a < end and b > start)]
        others = sorted(sorted(others, key=lambda pause: pause[0] - pause[1])[:_RECALLED])
        for least in {b - a for a, b in others}:
            limit = max(limit, _recur([one for one in others if one[1] - one[0] >= least], start, end))
    return limit


def _recur(others: Sequence[Window], start: float, end: float) -> float:
    at = bisect_right(others, (start, end))
    limit = 0.0
    for first in (at - 2, at - 1, at):
        if first < 0 or first + 2 > len(others):
            continue
        near = others[first : first + 2]
        one, two, three = sorted([*near, (start, end)])
        before, after = two[0] - one[1], three[0] - two[1]
        if abs(before - after) <= _ALIKE * max(before, after):
            limit = max(limit, _AS_LONG * min(b - a for a, b in near))
    return limit


def worked_until(view: RunView, start: float, end: float) -> float:
    """The time up to which all GPUs that computed before a range went on to do so; its start where they did not.

    Their load has to vary: one that waits for a collective of a rank that hangs is fully busy, too. A range that is
    longer than any evaluation proves nothing.
    """
    if end - start > PHASE_BOUNDS_S["evaluation"]:
        return start
    streams = view.track("gpu_busy").streams.values()
    return max(start, min((_works_until(one, start, end) for one in streams if _is_in_use(one, start)), default=start))


def _is_in_use(column: Column, moment: float) -> bool:
    stop = bisect_right(column.times, moment)
    before = column.values[bisect_right(column.times, moment - _BEFORE_S) : stop]
    return bool(before) and sum(before) > _WORKS * len(before)


def _works_until(column: Column, start: float, end: float) -> float:
    """The last sample that shows work together with most of those before it."""
    low = bisect_right(column.times, start)
    for at in range(bisect_right(column.times, end) - 1, low - 1, -1):
        if _shows_work(column.values[at]):
            begin = max(low, bisect_right(column.times, column.times[at] - _TOGETHER_S))
            if 2 * sum(map(_shows_work, column.values[begin : at + 1])) > at + 1 - begin:
                return column.times[at]
    return start


def _shows_work(load: float) -> bool:
    return _WORKS < load < _SPINS


# --- Boundaries of runs in the logs: restarts, and ends ---

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
        (low, high)
        for low, high in view.fact(_between_runs)
        if bisect_left(events, high) - bisect_right(events, low) <= 0
    ]
    return union([*silent, *pauses])


def _between_runs(view: RunView) -> list[Window]:
    """The time between unrelated runs, as far as no log continues."""
    return [
        (one.ended, one.time)
        for one in view.fact(boundaries)
        if not one.resumed and not one.again and one.time > one.ended
    ]


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
