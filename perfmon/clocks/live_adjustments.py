"""Steps of a log's clock, forward and back, detected while it is followed."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from perfmon.core import format_seconds, median
from perfmon.store import SourceState

from .adjustments import LEAST_S, Step

# --- Whether a log's clock was put forward, by when its lines come: nothing can be read before it was printed ---
#
# Lines that come late say nothing: only those that are ahead of all that came before do. A single one may just tell a
# wrong time, so it takes some more to believe it; until then the log is in doubt, and nobody should judge by it.

_REMEMBERED, _BURSTS = 64, 8
_KNOWN, _MORE = 3, 2
"""Arrivals before it is known how late a log's lines come, and after a jump until it is believed."""
_NEAR_S = 15.0
_FORGET_S = 60.0
_HOUR_S, _ROUND_S, _LATE_S = 3600.0, 5.0, 30.0
"""What is that near to whole hours is whole hours: the more so the rarer lines come."""


@dataclass(slots=True)
class _Doubt:
    since: float
    seconds: float
    lag: float
    at: float
    more: int = 0


class Arrivals:
    """What the arrivals of one log tell of its clock."""

    def __init__(self) -> None:
        self._lags: deque[float] = deque(maxlen=_REMEMBERED)
        self._held: deque[float] = deque(maxlen=_BURSTS)
        self._tail: float | None = None
        self._at = 0.0
        self._live = 0
        self._doubt: _Doubt | None = None

    @property
    def lag(self) -> float | None:
        """Seconds by which its lines are behind the clock of arrival at least; None while that is not known."""
        return min(self._lags) if self._lags else None

    def doubtful(self, clock: float) -> bool:
        """Whether its last lines may be ahead of their time."""
        return self._doubt is not None and clock - self._doubt.at < _FORGET_S

    def come(self, state: SourceState, clock: float) -> Step | None:
        """More was read at `clock` (seconds, of arrival); the step that its clock made, once that is certain."""
        tail, before = state.tail, self._tail
        if state.kind is None or tail is None:
            return None
        held = state.idle_since
        state.murmurs = tail == before
        state.murmured = tail + clock - self._at if state.murmurs else None
        state.murmurs_live = state.live_lines > self._live and held is not None and held.upto >= state.lines
        self._live = state.live_lines
        if tail == before:
            return None
        elapsed, self._tail, self._at = clock - self._at, tail, clock
        if before is not None:
            self._hold(state, before, elapsed)
        lag = clock - tail
        if self._doubt is not None:
            return self._resolved(self._doubt, state, lag, clock)
        if before is not None and len(self._lags) >= _KNOWN:
            self._doubt = self._jump(state, before, lag, elapsed, clock)
        if self._doubt is None:
            self._lags.append(lag)
        return None

    def _hold(self, state: SourceState, before: float, elapsed: float) -> None:
        """Lines that come after a while in which the log was not silent were held back; once may be by chance."""
        silent = sum(gap.end - gap.start for gap in state.gaps if gap.start >= before - 1.0)
        self._held.append(max(0.0, elapsed - silent))
        state.held_s = sorted(self._held)[-2] if len(self._held) > 1 else 0.0

    def _jump(self, state: SourceState, before: float, lag: float, elapsed: float, clock: float) -> _Doubt | None:
        ahead = min(self._lags) - lag
        gap = state.gaps[-1] if state.gaps else None
        if ahead < LEAST_S or gap is None or gap.start < before - 1.0:
            return None
        hours = round(ahead / _HOUR_S) * _HOUR_S
        ahead = hours if hours and abs(hours - ahead) <= max(_ROUND_S, min(elapsed, _LATE_S)) else ahead
        if abs(gap.end - gap.start - ahead - elapsed) > _NEAR_S + elapsed:
            return None
        return _Doubt(gap.end, min(ahead, gap.end - gap.start), lag, clock)

    def _resolved(self, doubt: _Doubt, state: SourceState, lag: float, clock: float) -> Step | None:
        if abs(lag - doubt.lag) > _NEAR_S or clock - doubt.at >= _FORGET_S * (_MORE + 1):
            self._doubt = None
            self._lags.append(doubt.lag)  # a log that tells times of two clocks by turns is not doubted again
            return None
        doubt.more += 1
        if doubt.more < _MORE:
            return None
        self._doubt, self._tail = None, (state.tail or 0.0) - doubt.seconds
        return Step(state.index, doubt.seconds, doubt.since)


def follows(state: SourceState, clock: float, kind: int | None, seconds: float, lag: float) -> Step | None:
    """A log that begins after a clock of its kind, whose lines were `lag` behind, was put forward tells its times."""
    if state.kind != kind or state.tail is None or abs(clock - state.tail + seconds - lag) > _NEAR_S:
        return None
    return Step(state.index, seconds, float("-inf"))


# --- Whether a log's clock was put back, by when its lines come: they go on arriving, and tell an earlier time ---
#
# Old lines that another process kept back come like that, too, and so do those of two processes with different clocks
# in one log. Only a log that keeps to its new time for a while, and tells no line by its old one, has been set; until
# that is known its lines do not say what the present is.

_BACKWARD_REMEMBERED, _BACKWARD_KNOWN = 64, 3
_BACKWARD_MORE, _SURE_S = 3, 15.0
"""Arrivals, and seconds, for which it must have kept to its new time."""
_BACKWARD_HOUR_S, _BACKWARD_ROUND_S = 3600.0, 5.0
"""What is that near to whole hours is whole hours."""


@dataclass(slots=True)
class _BackwardDoubt:
    since: float
    """The first time after it, as its lines tell."""
    lag: float
    at: float
    last: float
    more: int = 0


class Setbacks:
    """What the arrivals of one log tell of its clock."""

    def __init__(self) -> None:
        self.odd = ""
        """What is to be said of times that went back and did not keep to it."""
        self._lags: deque[float] = deque(maxlen=_BACKWARD_REMEMBERED)
        self._tail: float | None = None
        self._doubt: _BackwardDoubt | None = None

    def doubtful(self, clock: float) -> bool:
        """Whether its last lines may be of another time than they tell."""
        return self._doubt is not None and clock - self._doubt.last < _FORGET_S

    def come(self, state: SourceState, clock: float, set_back: tuple[float, float] | None) -> Step | None:
        """More was read at `clock` (seconds, of arrival); the step that its clock made, once that is certain.

        `set_back` is when its lines last went back, and to when.
        """
        tail, before = state.tail, self._tail
        if state.kind is None or tail is None or tail == before:
            return None
        self._tail, lag = tail, clock - tail
        if self._doubt is not None:
            return self._resolved(self._doubt, state, lag, clock)
        fell = before is not None and tail < before - LEAST_S and set_back is not None
        if fell and set_back is not None and len(self._lags) >= _BACKWARD_KNOWN and lag > max(self._lags) + LEAST_S:
            self._doubt = _BackwardDoubt(set_back[1], lag, clock, clock)
        else:
            self._lags.append(lag)
        return None

    def _resolved(self, doubt: _BackwardDoubt, state: SourceState, lag: float, clock: float) -> Step | None:
        by = doubt.lag - median(self._lags)
        if abs(lag - doubt.lag) > _NEAR_S:
            self._doubt = None
            self._lags.append(doubt.lag)  # a log that tells times of two clocks by turns is not doubted again
            self.odd = f"timestamps went back by {format_seconds(by)} and forward again: used as logged"
            return None
        doubt.more, doubt.last = doubt.more + 1, clock
        if doubt.more < _BACKWARD_MORE or clock - doubt.at < _SURE_S:
            return None
        hours = round(by / _BACKWARD_HOUR_S) * _BACKWARD_HOUR_S
        by = hours if hours and abs(hours - by) <= _BACKWARD_ROUND_S else by
        self._doubt, self._tail = None, (state.tail or 0.0) + by
        return Step(state.index, -by, doubt.since)
