"""Whether a log's clock was put back, by when its lines come: they go on arriving, and tell an earlier time.

Old lines that another process kept back come like that, too, and so do those of two processes with different clocks in
one log. Only a log that keeps to its new time for a while, and tells no line by its old one, has been set; until that
is known its lines do not say what the present is.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from perfmon.clocksteps import LEAST_S, Step
from perfmon.sourcestate import SourceState
from perfmon.stats import median
from perfmon.units import format_seconds

_REMEMBERED, _KNOWN = 64, 3
_MORE, _SURE_S = 3, 15.0
"""Arrivals, and seconds, for which it must have kept to its new time."""
_NEAR_S = 15.0
_FORGET_S = 60.0
_HOUR_S, _ROUND_S = 3600.0, 5.0
"""What is that near to whole hours is whole hours."""


@dataclass(slots=True)
class _Doubt:
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
        self._lags: deque[float] = deque(maxlen=_REMEMBERED)
        self._tail: float | None = None
        self._doubt: _Doubt | None = None

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
        if fell and set_back is not None and len(self._lags) >= _KNOWN and lag > max(self._lags) + LEAST_S:
            self._doubt = _Doubt(set_back[1], lag, clock, clock)
        else:
            self._lags.append(lag)
        return None

    def _resolved(self, doubt: _Doubt, state: SourceState, lag: float, clock: float) -> Step | None:
        by = doubt.lag - median(self._lags)
        if abs(lag - doubt.lag) > _NEAR_S:
            self._doubt = None
            self._lags.append(doubt.lag)  # a log that tells times of two clocks by turns is not doubted again
            self.odd = f"timestamps went back by {format_seconds(by)} and forward again: used as logged"
            return None
        doubt.more, doubt.last = doubt.more + 1, clock
        if doubt.more < _MORE or clock - doubt.at < _SURE_S:
            return None
        hours = round(by / _HOUR_S) * _HOUR_S
        by = hours if hours and abs(hours - by) <= _ROUND_S else by
        self._doubt, self._tail = None, (state.tail or 0.0) + by
        return Step(state.index, -by, doubt.since)
