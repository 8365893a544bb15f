"""From the stamps of one log to seconds on one axis: dates, midnights, New Year, monotonic clocks.

A log's axis is seconds since 1970 where its lines have dates, else seconds since some midnight or New Year, else
monotonic seconds, else None. How the axes of several logs lie to each other is decided later (`perfmon.alignment`).
"""

from __future__ import annotations

from perfmon.model import DAYTIME, EPOCH, LOCAL, YEARLESS, Stamp

_DAY = 86400.0
_LEAP_YEAR = 366 * _DAY
_LEAP_DAY = 59 * _DAY
_COARSE_S = 1.0
_STEPPED_S = 60.0


class SourceClock:
    """Resolves the stamps of one log, in the order of its lines."""

    def __init__(self) -> None:
        self.kind: int | None = None
        """Kind of the first stamp: EPOCH, LOCAL, YEARLESS, DAYTIME; None while only `t=` or nothing was seen."""
        self.last: float | None = None
        self.rebased: float | None = None
        """Seconds to add to times given out before the first stamp, once it came (they were monotonic)."""
        self.stepped_back = 0
        """How often the clock of the lines went back by more than a minute."""
        self._added = 0.0
        self._wall: float | None = None
        self._stamp: Stamp | None = None
        self._mono_to_wall: float | None = None

    def resolve(self, stamp: Stamp | None, mono: float | None) -> float | None:
        """Seconds on this log's axis; a line without any clock has the time of the line before it."""
        if stamp is not None and stamp != self._stamp:
            self._read(stamp)
        wall = self._wall
        if mono is not None:
            time = self._finer(wall, mono)
        elif wall is None or (stamp is None and self.last is not None):
            return self.last
        else:
            time = wall
        last = self.last
        if last is not None and last > time >= last - _COARSE_S:
            return last
        self.last = time
        return time

    def _read(self, stamp: Stamp) -> None:
        kind, seconds = stamp
        if self.kind is None:
            self.kind = kind
            if self._wall is None and self.last is not None:
                self.rebased = seconds - self.last
                self.last = None
        elif kind != self.kind:
            converted = self._converted(kind, seconds)
            if converted is None:
                return
            seconds = converted
        self._stamp = stamp
        wall = self._unrolled(seconds) if self.kind in (DAYTIME, YEARLESS) and kind == self.kind else seconds
        if self._wall is not None and wall < self._wall - _STEPPED_S:
            self.stepped_back += 1
        self._wall = wall

    def _converted(self, kind: int, seconds: float) -> float | None:
        """A stamp of another kind than the log's first, on the log's axis; None when it cannot be placed."""
        if self.kind in (EPOCH, LOCAL) and kind in (EPOCH, LOCAL):
            return seconds
        if self._wall is None:
            return None
        if kind == DAYTIME:
            day = self._wall - self._wall % _DAY
            return min((day + shift + seconds for shift in (-_DAY, 0.0, _DAY)), key=lambda t: abs(t - (self._wall or 0)))
        return None

    def _unrolled(self, seconds: float) -> float:
        """Adds the midnights, or the New Years, that passed since the first line."""
        period = _DAY if self.kind == DAYTIME else _LEAP_YEAR
        time = seconds + self._added
        if self._wall is None:
            return time
        if time < self._wall - period / 2:
            self._added += period
            time += period
        elif time > self._wall + period / 2 and self._added >= period:
            return time - period
        if self.kind == YEARLESS and self._skipped_leap_day(time):
            self._added -= _DAY
            time -= _DAY
        return time

    def _skipped_leap_day(self, time: float) -> bool:
        before = (self._wall or 0.0) % _LEAP_YEAR
        return before < _LEAP_DAY and time % _LEAP_YEAR >= _LEAP_DAY + _DAY

    def _finer(self, wall: float | None, mono: float) -> float:
        """The time of a line with `t=`: header clocks have seconds, `t=` microseconds.

        A header is never later than the moment it was printed, so the largest difference seen so far is the nearest
        to the true one.
        """
        if wall is None:
            return mono
        offset = wall - mono
        known = self._mono_to_wall
        if known is None or offset > known or offset < known - _STEPPED_S:
            self._mono_to_wall = known = offset
        return mono + known

    @property
    def mono_to_wall(self) -> float | None:
        """Seconds to add to a `t=` to get this log's axis, where both were seen."""
        return self._mono_to_wall

    @property
    def monotonic(self) -> bool:
        """The axis is a process's monotonic clock."""
        return self._wall is None and self.last is not None
