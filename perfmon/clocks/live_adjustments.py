"""Steps of a log's clock, forward and back, detected while it is followed by the arrival of its lines.

Nothing can be read before it was printed, so a line that is ahead of all before it proves a step forward, and lines
that keep arriving with an earlier time one back. One line may have a wrong time, old lines may have been held back by
another process, and two processes with different clocks may write to one log: only a log that keeps to its new time
for a while has been set. Until that is known its lines do not define the present.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from perfmon.core import format_seconds, median
from perfmon.store import SourceState

from .adjustments import LEAST_S, Step

_REMEMBERED, _BURSTS = 64, 8
_KNOWN = 3
"""Arrivals before it is known how late a log's lines come."""
_MORE_FORWARD, _MORE_BACK, _SURE_S = 2, 3, 15.0
"""Arrivals after a step until it is believed; after one back also the time that must have passed."""
_NEAR_S = 15.0
_FORGET_S = 60.0
_HOUR_S, _ROUND_S, _LATE_S = 3600.0, 5.0, 30.0
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
