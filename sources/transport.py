"""Where a replay stands on its time axis: speed, pause and where it is told to go. May be used from any thread."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

SLOWEST, FASTEST = 0.1, 1000.0


class Transport:
    """A position that moves with a clock, in seconds of the timeline.

    It is worked out of the moment at which it last changed its pace, so it does not drift, and it never passes what
    has not been handed over yet (`upcoming`).
    """

    def __init__(self, speed: float, clock: Callable[[], float], *, paused: bool) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._since, self._from_s = clock(), 0.0
        self._speed = _possible(speed)
        self._paused = paused
        self._goal: float | None = None
        self._next = False
        self._upcoming = 0.0
        self._rewind = False

    @property
    def speed(self) -> float:
        """Seconds of the timeline a second."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        with self._lock:
            self._stand_at(self.position())
            self._speed = _possible(speed)

    @property
    def paused(self) -> bool:
        """Whether time stands still, but for a seek or step."""
        return self._paused

    @property
    def seeking(self) -> bool:
        """Whether all up to some position is handed over at full speed now."""
        return self._goal is not None or self._next or self._rewind

    def pause(self) -> None:
        """Time stands still, once a seek or step that is under way is done."""
        with self._lock:
            self._stand_at(self.position())
            self._paused = True

    def resume(self) -> None:
        """Time goes on."""
        with self._lock:
            self._stand_at(self.position())
            self._paused = False

    def seek(self, at_s: float) -> None:
        """Everything up to `at_s` at once, from the beginning when that is earlier than the position."""
        with self._lock:
            self._rewind = self._rewind or at_s < self.position()
            self._goal, self._next = at_s, False

    def step(self, seconds: float | None) -> None:
        """Everything of the next `seconds` at once, or all of the next moment that has any; then a pause."""
        with self._lock:
            self.pause()
            if seconds is None:
                self._next = True
            else:
                self._goal = (self._from_s if self._goal is None else self._goal) + max(0.0, seconds)

    def take_rewind(self) -> float | None:
        """The position to go to when all has to begin anew, once."""
        with self._lock:
            if not self._rewind:
                return None
            self._rewind, self._upcoming = False, 0.0
            self._stand_at(0.0)
            return 0.0 if self._goal is None else self._goal

    def position(self) -> float:
        """Everything up to here has been handed over."""
        with self._lock:
            if self._goal is not None:
                return self._from_s if self._rewind else min(max(self._from_s, self._upcoming), self._goal)
            return self._from_s if self._paused else max(self._from_s, min(self._by_clock(), self._upcoming))

    def due(self, next_s: float | None, end_s: float) -> float:
        """Up to which moment items may be handed over; `next_s` is that of the next one, None when there is none."""
        with self._lock:
            self._upcoming = end_s if next_s is None else next_s
            if self._next and self._goal is None:
                self._next, self._goal = False, self._upcoming
            if self._goal is not None and (next_s is None or next_s > self._goal):
                self._stand_at(min(self._goal, end_s) if next_s is None else self._goal)
                self._goal = None
            if self._goal is not None:
                return self._goal
            return -math.inf if self._paused else self._by_clock()

    def delay(self) -> float | None:
        """Seconds until the upcoming moment; None: for ever, unless something is changed."""
        with self._lock:
            if self.seeking:
                return 0.0
            if self._paused:
                return None
            return max(0.0, self._upcoming - self._by_clock()) / self._speed

    def _by_clock(self) -> float:
        elapsed = self._clock() - self._since
        return math.inf if math.isinf(self._speed) else self._from_s + elapsed * self._speed

    def _stand_at(self, position: float) -> None:
        self._from_s, self._since = position, self._clock()


def _possible(speed: float) -> float:
    if math.isnan(speed) or speed <= 0:
        raise ValueError(f"{speed}: no speed")
    return speed if math.isinf(speed) else min(max(speed, SLOWEST), FASTEST)
