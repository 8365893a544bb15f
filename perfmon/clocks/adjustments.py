"""Clocks that were set while a log was written: detected by other logs and removed, or while the log is followed.

A log whose clock was put forward seems silent for that long, then is ahead of the others; one whose clock was put
back seems silent until it has caught up. That no time passed is shown by the other logs, which continued, and by
monotonic times in its own lines. An hour without output of any log is a real gap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from perfmon.core import Gap, Span, format_seconds, median
from perfmon.sources import SourceClock
from perfmon.store import SourceState, Store

LEAST_S = 60.0
"""Smaller steps cannot be distinguished from lines that came late."""
_HOUR_S = 3600.0
_COARSE_S = 2.0
_REST_S = 300.0
"""The most that may really have passed while a clock was set."""
_PROOF_S = 60.0
"""Time for which the log, and the others, must have continued since."""
_QUIET_S = 10.0
_CHECKED = 32
"""Long gaps of a log: a sparse one has thousands."""
_APART_S, _APART_SHARE = 30.0, 0.1
"""Largest distance of the ends of the logs after the correction: seconds, and share of the time since."""


SET = "clock set"
"""Start of the note about a step that was removed."""


@dataclass(frozen=True, slots=True)
class Step:
    """A clock was put forward by so many seconds (negative: back)."""

    source: int
    seconds: float
    since: float
    """The first time after it, on the log's own axis."""


def find_clock_steps(store: Store, shifts: Mapping[int, float], clocks: Mapping[int, SourceClock]) -> list[Step]:
    """Find clocks that were set, as other logs and monotonic times prove."""
    logs = [state for state in store.sources if not state.polled]
    found = (
        _forward(state, logs, shifts, clocks[state.index].mono_step) or _back(state, logs, shifts, clocks[state.index])
        for state in logs
        if state.kind is not None and state.first is not None and state.last is not None
    )
    return [step for step in found if step is not None]


def _forward(
    state: SourceState, states: Sequence[SourceState], shifts: Mapping[int, float], mono_step: float
) -> Step | None:
    last = state.last or 0.0
    if state.stepped_back:
        return None
    least = min(_HOUR_S, mono_step if mono_step >= LEAST_S else _HOUR_S) - _COARSE_S
    long = [gap for gap in state.gaps if gap.end - gap.start >= least]
    for gap in long[-_CHECKED:]:
        for seconds in _amounts(gap.end - gap.start, mono_step):
            rest, continued = gap.end - gap.start - seconds, last - gap.end
            if not -_COARSE_S <= rest <= _REST_S or continued < _PROOF_S:
                continue
            if _proven(state, gap.start, rest, last - seconds, seconds, states, shifts, mono_step):
                return Step(state.index, seconds, gap.end)
    return None


def _back(
    state: SourceState, states: Sequence[SourceState], shifts: Mapping[int, float], clock: SourceClock
) -> Step | None:
    if clock.set_back is None or state.stepped_back != 1 or state.tail is None:
        return None
    before, after = clock.set_back
    for seconds in _amounts(before - after + _REST_S, -clock.mono_step):
        rest, continued = seconds - (before - after), state.tail - after
        if not -_COARSE_S <= rest <= _REST_S or continued < _PROOF_S:
            continue
        if _proven(state, before, rest, state.tail + seconds, seconds, states, shifts, -clock.mono_step):
            return Step(state.index, -seconds, after)
    return None


def _amounts(most: float, mono_step: float) -> Iterator[float]:
    """Yield candidates for the size of a step: whole hours, and the difference to monotonic times."""
    hours = (most + _COARSE_S) // _HOUR_S * _HOUR_S
    if hours > 0:
        yield hours
    if mono_step >= LEAST_S:
        yield mono_step


def _proven(
    state: SourceState,
    start: float,
    rest: float,
    end: float,
    seconds: float,
    states: Sequence[SourceState],
    shifts: Mapping[int, float],
    mono_step: float,
) -> bool:
    """True if others continued while the log seemed silent, and end where it ends once corrected."""
    shift = shifts.get(state.index, 0.0)
    start, end = start + shift, end + shift
    ends = [
        last
        for other in states
        if other.index != state.index and (last := _end_if_continued(other, start, rest, shifts)) is not None
    ]
    if not ends:
        return abs(mono_step - seconds) <= _COARSE_S and seconds % _HOUR_S == 0.0
    return abs(max(ends) - end) <= max(_APART_S, _APART_SHARE * (end - start))


def _end_if_continued(other: SourceState, start: float, rest: float, shifts: Mapping[int, float]) -> float | None:
    """End of a log that continued from `start` without a pause; None if it did not."""
    if other.kind is None or other.first is None or other.last is None:
        return None
    shift = shifts.get(other.index, 0.0)
    first, last = other.first + shift, other.last + shift
    if first > start or last < start + rest + _PROOF_S:
        return None
    longest = max(rest, 0.5 * (last - start))
    paused = any(min(gap.end + shift, last) - max(gap.start + shift, start) > longest for gap in other.gaps)
    return None if paused else last


# --- removal --------------------------------------------------------------------------------------------------
def remove_clock_step(store: Store, clock: SourceClock, step: Step) -> None:
    """Move all observations of the log after the step, and those to come."""
    state, by = store.sources[step.source], -step.seconds
    after = _after(store, step)
    store.move(step.source, lambda time, line: by if after(time, line) else 0.0)
    for span in [*store.all_spans(), *store.opened()]:
        if span.source == step.source:
            _move_span(span, by, after)
    _move_state(state, step, after, store)
    clock.slip(by)
    state.mono_to_wall, state.stepped = clock.mono_to_wall, state.stepped + 1
    store.version += 1
    direction = "forward" if step.seconds > 0 else "back"
    state.note(f"{SET} {direction} by {format_seconds(abs(step.seconds))} during the run: corrected")


_After = Callable[[float, int], bool]
"""(time, line) -> whether that came after the step."""


def _after(store: Store, step: Step) -> _After:
    """By time if the clock was put forward; by line if it was put back, as times occur twice then."""
    if step.seconds > 0:
        return lambda time, line: time >= step.since
    known = sorted(_lines_and_times(store, step.source))
    falls = ((before, after) for before, after in pairwise(known) if after[1] < before[1] - LEAST_S)
    line = next((before[0] for before, _ in falls), known[-1][0] if known else 0)
    return lambda time, number: number > line


def _lines_and_times(store: Store, source: int) -> Iterator[tuple[int, float]]:
    """Line and time of all observations of a log."""
    for series in store.all_series():
        for at, held in enumerate(series.sources):
            if held == source:
                yield series.lines[at], series.times[at]
    for span in store.all_spans():
        if span.source == source and span.refs and span.end is not None:
            lines = [ref.line for ref, _ in span.refs if ref.source == source]
            if lines:
                yield lines[-1], span.end


def _move_span(span: Span, by: float, after: _After) -> None:
    """Move a span; one that contains the step keeps the duration that its lines state."""
    lines = [ref.line for ref, _ in span.refs if ref.source == span.source] or [0]
    whole = span.start is not None and span.end is not None and span.duration_s is not None
    consistent = whole and abs((span.end or 0.0) - (span.start or 0.0) - (span.duration_s or 0.0)) < 1.0
    if span.end is None or not after(span.end, lines[-1]):
        if span.end is None and span.start is not None and after(span.start, lines[0]):
            span.start += by
        return
    derived = consistent and not after(span.start or 0.0, lines[0]) and (span.duration_s or 0.0) > abs(by) / 2
    span.end += by
    if derived:  # its duration was computed from the two stamps
        span.duration_s = max(0.0, (span.duration_s or 0.0) + by)
    elif span.start is not None:
        span.start += by


def _move_state(state: SourceState, step: Step, after: _After, store: Store) -> None:
    by, last, tail = -step.seconds, state.last or 0.0, state.tail
    state.gaps = [
        gap for gap in (_moved_gap(gap, step, after) for gap in state.gaps) if gap.end - gap.start >= _QUIET_S
    ]
    state.idle = [_moved_gap(gap, step, after) for gap in state.idle]
    state.idle_since = None if state.idle_since is None else _moved_gap(state.idle_since, step, after)
    state.tail = state.latest = None if tail is None else tail + by
    state.passed = None
    if state.first is not None and step.since < state.first:
        state.first += by
    state.last = last + by if step.seconds > 0 else max(last, last if tail is None else tail + by)
    if step.seconds < 0 and state.first is not None and state.first >= _lowest(store, step, after) - _COARSE_S:
        times = [time for line, time in _lines_and_times(store, state.index) if not after(time - by, line)]
        times += [gap.start for gap in state.gaps if not after(gap.start - by, gap.line + 1)]
        state.first = min(times, default=state.first)
    # Of steps both ways the latest line may not be one after this.
    state.recorded = state.last = max(state.last, state.first or 0.0)


def _lowest(store: Store, step: Step, after: _After) -> float:
    """The earliest time after the step, by the clock as it was set: that is not the log's first."""
    by, source = -step.seconds, step.source
    times = [time - by for line, time in _lines_and_times(store, source) if after(time - by, line)]
    starts = ((span.start, span.refs) for span in store.updates if span.source == source)
    times += [
        start - by for start, refs in starts if start is not None and refs and after(start - by, refs[-1][0].line)
    ]
    return min(times, default=inf)


def _moved_gap(gap: Gap, step: Step, after: _After) -> Gap:
    by = -step.seconds
    if step.seconds > 0 and gap.end == step.since:
        return gap._replace(end=gap.end + by)
    return gap.moved(by) if after(gap.start, gap.line + 1) else gap


# --- Steps of a log's clock, forward and back, detected while it is followed by the arrival of its lines ---
#
# Nothing can be read before it was printed, so a line that is ahead of all before it proves a step forward, and lines
# that keep arriving with an earlier time one back. One line may have a wrong time, old lines may have been held back by
# another process, and two processes with different clocks may write to one log: only a log that keeps to its new time
# for a while has been set. Until that is known its lines do not define the present.

_REMEMBERED, _BURSTS = 64, 8
_KNOWN = 3
"""Arrivals before it is known how late a log's lines come."""
_MORE_FORWARD, _MORE_BACK, _SURE_S = 2, 3, 15.0
"""Arrivals after a step until it is believed; after one back also the time that must have passed."""
_NEAR_S = 15.0
_FORGET_S = 60.0
_ROUND_S, _LATE_S = 5.0, 30.0
"""Steps that are this near to whole hours are whole hours; the rarer lines come, the less near, up to _LATE_S."""


@dataclass(slots=True)
class _Doubt:
    """A step that later lines must confirm."""

    back: bool
    since: float
    """The first time after it, as its lines state it."""
    seconds: float
    lag: float
    at: float
    last: float
    more: int = 0


class ClockWatch:
    """Follows the arrivals of one log: the steps of its clock, and lines that are held back."""

    def __init__(self) -> None:
        self.anomaly = ""
        """Note about timestamps that went back and forward again."""
        self._lags: deque[float] = deque(maxlen=_REMEMBERED)
        self._bursts: deque[float] = deque(maxlen=_BURSTS)
        self._tail: float | None = None
        self._at = 0.0
        self._live = 0
        self._doubt: _Doubt | None = None

    @property
    def lag(self) -> float | None:
        """Seconds by which its lines are behind the clock of arrival at least; None while that is not known."""
        return min(self._lags) if self._lags else None

    def is_doubtful(self, clock: float) -> bool:
        """Return True if the times of its last lines may be wrong."""
        return self._doubt is not None and clock - self._doubt.last < _FORGET_S

    def may_be_ahead(self, clock: float) -> bool:
        """Return True if its last lines may be ahead of their time."""
        return self._doubt is not None and not self._doubt.back and self.is_doubtful(clock)

    def observe(self, state: SourceState, clock: float, set_back: tuple[float, float] | None) -> Step | None:
        """Take in that more was read at `clock` (seconds, of arrival); return a step once it is certain.

        `set_back` is the last time at which its lines went back, and the time to which.
        """
        tail, before = state.tail, self._tail
        if state.kind is None or tail is None:
            return None
        self._observe_untimed(state, tail == before, clock)
        if tail == before:
            return None
        elapsed, self._tail, self._at, lag = clock - self._at, tail, clock, clock - tail
        if before is not None:
            self._hold(state, before, elapsed)
        if self._doubt is not None:
            return self._resolved(self._doubt, state, lag, clock)
        if before is not None and len(self._lags) >= _KNOWN:
            self._doubt = self._ahead(state, before, lag, elapsed, clock)
            if set_back is not None and tail < before - LEAST_S and lag > max(self._lags) + LEAST_S:
                self._doubt = _Doubt(True, set_back[1], lag - median(self._lags), lag, clock, clock)
        if self._doubt is None:
            self._lags.append(lag)
        return None

    def _observe_untimed(self, state: SourceState, untimed: bool, clock: float) -> None:
        """Note whether lines came after the last dated one."""
        held, tail = state.idle_since, state.tail or 0.0
        state.murmurs, state.murmured = untimed, tail + clock - self._at if untimed else None
        state.murmurs_live = state.live_lines > self._live and held is not None and held.upto >= state.lines
        self._live = state.live_lines

    def _hold(self, state: SourceState, before: float, elapsed: float) -> None:
        """Note lines that were held back: they come after a while without a gap in the log; once may be by chance."""
        silent = sum(gap.end - gap.start for gap in state.gaps if gap.start >= before - 1.0)
        self._bursts.append(max(0.0, elapsed - silent))
        state.held_s = sorted(self._bursts)[-2] if len(self._bursts) > 1 else 0.0

    def _ahead(self, state: SourceState, before: float, lag: float, elapsed: float, clock: float) -> _Doubt | None:
        ahead = min(self._lags) - lag
        gap = state.gaps[-1] if state.gaps else None
        if ahead < LEAST_S or gap is None or gap.start < before - 1.0:
            return None
        ahead = _whole_hours(ahead, max(_ROUND_S, min(elapsed, _LATE_S)))
        if abs(gap.end - gap.start - ahead - elapsed) > _NEAR_S + elapsed:
            return None
        return _Doubt(False, gap.end, min(ahead, gap.end - gap.start), lag, clock, clock)

    def _resolved(self, doubt: _Doubt, state: SourceState, lag: float, clock: float) -> Step | None:
        too_late = not doubt.back and clock - doubt.at >= _FORGET_S * (_MORE_FORWARD + 1)
        if abs(lag - doubt.lag) > _NEAR_S or too_late:
            self._doubt = None
            self._lags.append(doubt.lag)  # a log that alternates between two clocks is not doubted again
            if doubt.back:
                by = format_seconds(doubt.seconds)
                self.anomaly = f"timestamps went back by {by} and forward again: used as logged"
            return None
        doubt.more += 1
        if doubt.back:
            doubt.last = clock
        if doubt.more < (_MORE_BACK if doubt.back else _MORE_FORWARD) or (doubt.back and clock - doubt.at < _SURE_S):
            return None
        seconds = -_whole_hours(doubt.seconds, _ROUND_S) if doubt.back else doubt.seconds
        self._doubt, self._tail = None, (state.tail or 0.0) - seconds
        return Step(state.index, seconds, doubt.since)


def _whole_hours(seconds: float, slack: float) -> float:
    """Round to whole hours if they are that near."""
    hours = round(seconds / _HOUR_S) * _HOUR_S
    return hours if hours and abs(hours - seconds) <= slack else seconds


def follows(state: SourceState, clock: float, kind: int | None, seconds: float, lag: float) -> Step | None:
    """Return the step of a log that starts after a clock of its kind was put forward by so many seconds.

    `lag`: by how much the lines of that clock were behind.
    """
    if state.kind != kind or state.tail is None or abs(clock - state.tail + seconds - lag) > _NEAR_S:
        return None
    return Step(state.index, seconds, float("-inf"))
