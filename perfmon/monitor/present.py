"""The present on the run's axis: which moment of event time it is now.

Lines say when they were printed by a clock that may lie in another zone, may be monotonic, or may be simulated. A line
cannot be read before it was printed: the least time that was seen between the two is the distance of the clocks.
"""

from __future__ import annotations

from collections import deque

_REMEMBERED_S = 120.0
_AT_END = 0.5
"""Share of the window by which the present may run ahead of the last line: beyond it a run is over, not silent, and
what it ended with stays in sight."""
_BACK_S, _SURE_S = 60.0, 30.0
"""Clocks of lines that were set back by more than that are believed once they have kept to it for so long."""


class Present:
    """Follows the distance between the clock of arrival and event time."""

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self.watched = False
        """Lines have arrived while somebody watched, or were written so lately that more is due."""
        self._newest = float("-inf")
        self._over_at = float("-inf")
        """When a log was last written to that nobody writes to any more."""
        self._lags: deque[tuple[float, float]] = deque()
        self._back_at: float | None = None

    def written(self, newest: float, changed_at: float, arrived_at: float, *, waited: bool = False) -> None:
        """The last line of a log that was there already has the time `newest`, its file was written at `changed_at`.

        With `waited` somebody watched since then; else only if that was lately.
        """
        self._newest = max(self._newest, newest)
        if waited or arrived_at - changed_at < self.window_s:
            self.watched = True
            self._lag(arrived_at, changed_at - newest)
        else:
            self._over_at = max(self._over_at, changed_at)

    def arrived(self, newest: float, arrived_at: float) -> None:
        """Something was read, and the line that was printed last was printed at `newest`."""
        if newest >= self._newest - _BACK_S:
            self._back_at = None
            if newest > self._newest:
                self._come(newest, arrived_at)
            return
        self._back_at = arrived_at if self._back_at is None else self._back_at
        if arrived_at - self._back_at >= _SURE_S:
            self._back_at = None
            self._lags.clear()
            self._come(newest, arrived_at)

    def _come(self, newest: float, arrived_at: float) -> None:
        self._newest, self.watched = newest, True
        self._lag(arrived_at, arrived_at - newest)

    def loaded(self, newest: float) -> None:
        """Of the past was read what was printed up to `newest`."""
        self._newest = newest

    def move(self, seconds: float) -> None:
        """The run's axis became another one: all its moments are that much later."""
        self._newest += seconds
        self._lags = deque((at, lag - seconds) for at, lag in self._lags)

    @property
    def newest(self) -> float | None:
        """When the last line was printed."""
        return None if self._newest == float("-inf") else self._newest

    def now(self, clock: float) -> float | None:
        """The present; the last line's time where nobody can tell how long ago that was; None before any line."""
        if self.newest is None or not self._lags or not self.watched:
            return self.newest
        now = clock - min(lag for _, lag in self._lags)
        return max(self._newest, min(now, self._newest + _AT_END * self.window_s))

    def awaited(self, clock: float) -> float | None:
        """The moment until which more is waited for, however long ago the last line was printed; None: by nobody."""
        return self.actual(clock) if self.watched else None

    def actual(self, clock: float) -> float | None:
        """Which moment it is, whether more is waited for or not; None where nobody can tell."""
        silent = self.silent_s(clock)
        return None if silent is None else self._newest + silent

    def silent_s(self, clock: float) -> float | None:
        """Seconds since the last line was printed, however long; None where nobody can tell."""
        if self.newest is None or not (self._lags or self._over_at > float("-inf")):
            return None
        if not self._lags:
            return max(0.0, clock - self._over_at)
        return max(0.0, clock - min(lag for _, lag in self._lags) - self._newest)

    def _lag(self, at: float, lag: float) -> None:
        while self._lags and (at - self._lags[0][0] > _REMEMBERED_S or self._lags[-1][1] >= lag):
            if self._lags[-1][1] >= lag:
                self._lags.pop()
            elif len(self._lags) > 1:
                self._lags.popleft()
            else:
                break
        self._lags.append((at, lag))
