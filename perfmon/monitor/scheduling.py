"""Times of evaluations, the run's clock, and listeners that get only the latest state."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Container
from datetime import UTC, datetime
from math import ceil, inf
from typing import TYPE_CHECKING

from perfmon.core import EPOCH, LEAP_YEAR_S, LOCAL, YEARLESS, TimeBase
from perfmon.viewmodel import MonitorState

if TYPE_CHECKING:
    from perfmon.diagnosis import Diagnosis

# --- Times of evaluations: soon after new lines, but never for more than a small share of a core ---

_SOON_S = 1.0
_IDLE_S = 12.0
_SHARE, _PLAYED_SHARE = 0.007, 0.03
"""Of a core; what is played disturbs no run, and its time may go many times as fast."""
_LONGEST_S = 20.0
_PASSED_S = 1.0
"""A moment has passed so much later: a line that was printed just before it may still arrive."""
_BEHIND_S = 10.0
"""A younger judgement is taken for one of the present."""
_CHEAP_S = 0.004
"""Cost in seconds up to which the next judgement is not delayed."""


class EvaluationScheduler:
    """Spaces judgements by what the last ones cost."""

    def __init__(self, *, played: bool = False) -> None:
        self._share = _PLAYED_SHARE if played else _SHARE
        self._played = played
        self._judged_at = float("-inf")
        self._cost_s = 0.0
        self._version = -1
        self._until = 0.0
        self._passed: float | None = None

    def due(self, clock: float, version: int, *, still: bool = False) -> bool:
        """Return True if an evaluation is due; `version` grows when something was observed.

        `still`: time does not pass, at the end or in a paused replay, so this very time is on display.
        """
        rest = _SOON_S if still else max(_SOON_S, min(self._cost_s / self._share, _LONGEST_S))
        if version == self._version and (still or not self._played):  # a silence that is played may be hours
            rest = max(rest, _IDLE_S)
        return clock - self._judged_at >= rest

    def stall_begins(self, snapshot: Diagnosis | None, present: float | None) -> bool:
        """Return True once when the time without progress has become longer than the rhythm of the run allows."""
        pace = None if snapshot is None else snapshot.run.pace
        if self._played or pace is None or present is None:
            return False
        limit = pace.last + pace.limit_s
        if limit == self._passed or present < limit + _PASSED_S:
            return False
        self._passed = limit
        return True

    def judged(self, clock: float, cost_s: float, version: int, until: float) -> None:
        """A judgement up to `until`, on the run's axis, ended at `clock` and took `cost_s`."""
        self._judged_at, self._version, self._until = clock, version, until
        self._cost_s = cost_s if not self._cost_s else 0.5 * (self._cost_s + cost_s)

    def judged_until(self, version: int) -> float | None:
        """The moment up to which was judged, where something was observed since; None where nothing was."""
        return self._until if version != self._version else None

    def behind_s(self, clock: float, version: int) -> float | None:
        """The age of the last judgement, where it is more than a moment and something was observed since."""
        age_s = clock - self._judged_at
        return age_s if version != self._version and _BEHIND_S <= age_s < inf else None


class DutyCycleLimiter:
    """Spaces what is done repeatedly, so that it takes no more than a share of a core."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._due_at = float("-inf")

    def due(self, clock: float) -> bool:
        """Return True if it may run now."""
        return clock >= self._due_at

    def done(self, clock: float, cost_s: float) -> None:
        """It began at `clock` and took `cost_s`."""
        self._due_at = clock + (cost_s / self._share if cost_s > _CHEAP_S else 0.0)


# --- The analysis window ---

STANDARD_WINDOW_S = 600.0
"""The default analysis window."""
LONGEST_WINDOW_S = 6 * 3600.0
"""The longest window for the sake of slow steps, or of a fault that lasts."""
_LEAST_STEPS = 6
_BEFORE = 0.5
"""Share of the window that stays in view before a silence, or time without progress, however long that lasts."""


def judged_s(requested_s: float, step_s: float, back_s: float) -> float:
    """Seconds to judge: the requested ones, or more if these would hold few steps only, as findings would come and go.

    A window that is shorter than the default holds what was requested, whatever a step takes (`step_s`). Each reaches
    back to what came before the moment `back_s` seconds ago, in large steps, so that columns keep what they show.
    """
    least_s = min(_LEAST_STEPS * step_s, LONGEST_WINDOW_S) if requested_s >= STANDARD_WINDOW_S else 0.0
    part_s = _BEFORE * requested_s
    return max(requested_s, least_s, part_s * ceil(back_s / part_s + 1.0))


# --- The present on the run's axis: which moment of event time it is now ---
#
# Lines are dated by a clock that may be in another zone, monotonic, or simulated. A
# line cannot be read before it was printed: the least time that was seen between the two is the distance of the clocks.

_REMEMBERED_S = 120.0
_BACK_S, _SURE_S = 60.0, 30.0
"""Clocks of lines that were set back by more than that are believed once they have kept to it for so long."""


class RunClock:
    """Follows the distance between the clock of arrival and event time."""

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self.watched = False
        """Lines have arrived live, or were written so recently that more are due."""
        self._newest = float("-inf")
        self._over_at = float("-inf")
        """Time of the last write to a log that has ended."""
        self._lags: deque[tuple[float, float]] = deque()
        """Times and distances, ascending in both: the first distance is the least."""
        self._back_at: float | None = None

    def written(self, newest: float, changed_at: float, arrived_at: float, *, waited: bool = False) -> None:
        """Take in the last line, at `newest`, of a log whose file was last written at `changed_at`.

        With `waited` more lines are due, or it was followed since then; else only if that was recent.
        """
        self._newest = max(self._newest, newest)
        if waited or arrived_at - changed_at < min(self.window_s, LONGEST_WINDOW_S):
            self.watched = True
            self._lag(arrived_at, changed_at - newest)
        else:
            self._over_at = max(self._over_at, changed_at)

    def arrived(self, newest: float, arrived_at: float) -> None:
        """Take in that the last line that was read has the time `newest`."""
        if newest >= self._newest - _BACK_S:
            self._back_at = None
            if newest > self._newest:
                self._set_newest(newest, arrived_at)
            return
        self._back_at = arrived_at if self._back_at is None else self._back_at
        if arrived_at - self._back_at >= _SURE_S:
            self._back_at = None
            self._lags.clear()
            self._set_newest(newest, arrived_at)

    def _set_newest(self, newest: float, arrived_at: float) -> None:
        self._newest, self.watched = newest, True
        self._lag(arrived_at, arrived_at - newest)

    def loaded(self, newest: float) -> None:
        """Take in that the history was read up to `newest`."""
        self._newest = newest

    def move(self, seconds: float) -> None:
        """Move all times: the run's axis changed."""
        self._newest += seconds
        self._lags = deque((at, lag - seconds) for at, lag in self._lags)

    @property
    def newest(self) -> float | None:
        """Time of the last line."""
        return None if self._newest == float("-inf") else self._newest

    def now(self, clock: float, *, over: bool = False) -> float | None:
        """The present; the time of the last line if its age is unknown or the run is `over`; None before any line."""
        if self.newest is None or not self._lags or not self.watched or over:
            return self.newest
        return max(self._newest, clock - self._lags[0][1])

    def awaited(self, clock: float) -> float | None:
        """The present if more lines are expected, whatever the age of the last one; else None."""
        return self.actual(clock) if self.watched else None

    def actual(self, clock: float) -> float | None:
        """The present time, whether more lines are expected or not; None if unknown."""
        silent = self.silent_s(clock)
        return None if silent is None else self._newest + silent

    def silent_s(self, clock: float) -> float | None:
        """Seconds since the last line was printed; None if unknown."""
        if self.newest is None or not (self._lags or self._over_at > float("-inf")):
            return None
        if not self._lags:
            return max(0.0, clock - self._over_at)
        return max(0.0, clock - self._lags[0][1] - self._newest)

    def _lag(self, at: float, lag: float) -> None:
        while self._lags and (at - self._lags[0][0] > _REMEMBERED_S or self._lags[-1][1] >= lag):
            if self._lags[-1][1] >= lag:
                self._lags.pop()
            elif len(self._lags) > 1:
                self._lags.popleft()
            else:
                break
        self._lags.append((at, lag))


_FIRST_YEAR = 2000
"""Earlier dates are those of counts of seconds, or of a clock that was not set."""


def day_known(time: float, base: TimeBase, kinds: Container[int | None]) -> tuple[bool, bool]:
    """Return (dated, yearless) as in `MonitorState` for the present on the axis of clocks of these kinds.

    Lines with a time of day alone are of the day of their files.
    """
    if base is not TimeBase.WALL:
        return False, False
    dates = EPOCH in kinds or LOCAL in kinds
    yearless, today = YEARLESS in kinds and not dates, datetime.now().astimezone()
    try:
        day = datetime.fromtimestamp(time + LEAP_YEAR_S * yearless, UTC)
    except (OverflowError, ValueError, OSError):
        return False, False
    if yearless:
        return (day.month, day.day) != (today.month, today.day), True
    return dates and day.year >= _FIRST_YEAR and day.date() != today.date(), False


# --- Slow listeners: the monitor continues, and they get only the newest state ---


class BackgroundListener:
    """Calls a listener in a thread of its own, with the newest picture only."""

    def __init__(self, listener: Callable[[MonitorState], None]) -> None:
        self._listener = listener
        self._newest: MonitorState | None = None
        self._ready = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    def __call__(self, picture: MonitorState) -> None:
        """Hands over a picture; returns at once."""
        self._newest = picture
        self._ready.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="perfmon-listener", daemon=True)
            self._thread.start()

    def close(self, patience_s: float = 1.0) -> None:
        """Ends the thread; a listener that hangs is left alone after `patience_s`."""
        self._closing = True
        self._ready.set()
        if self._thread is not None:
            self._thread.join(patience_s)

    def _work(self) -> None:
        while not self._closing:
            self._ready.wait()
            self._ready.clear()
            picture, self._newest = self._newest, None
            if picture is not None and not self._closing:
                self._listener(picture)
