"""From the stamps of one log to seconds on one axis: dates, midnights, New Year, monotonic clocks.

A log's axis is seconds since 1970 where its lines have dates, else seconds since some midnight or New Year, else
monotonic seconds, else None. How the axes of several logs lie to each other is decided later
(`perfmon.clocks.alignment`).
"""

from __future__ import annotations

import calendar
from datetime import UTC, datetime, timedelta

from perfmon.core import DAYTIME, EPOCH, LOCAL, UPTIME, YEARLESS, Stamp

_DAY = 86400.0
_BACK_S = 6 * 3600.0
"""So far back a time of day may lie; see `perfmon.sources.scan.block_times`."""
_LEAP_YEAR = 366 * _DAY
_LEAP_DAY = 59 * _DAY
_STEPPED_S = 60.0
_RESTARTED_S = 600.0
_DATED = (EPOCH, LOCAL)
_UNSET = 946684800.0
"""2000: earlier dates are those of a clock that was not set yet."""
_NEAR = _DAY / 2
_ZONES_S, _LEAST_ZONE_S, _MOST_ZONE_S = 1800.0, 3600.0, 14 * 3600.0
"""Zones lie this far apart from each other, and so far from UTC."""
_CLOSE_S, _PAUSE_S = 60.0, 300.0
"""Neighbouring lines whose clocks are of two zones: so much earlier, or later, the second one may be otherwise."""
_DATES_S = 10.0
"""Until so long after it a timestamp dates the lines that follow it, while their arrival is known."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR = 365.2425 * _DAY


class SourceClock:
    """Resolves the stamps of one log, in the order of its lines."""

    def __init__(self) -> None:
        self.kind: int | None = None
        """Kind of the first stamp: EPOCH, LOCAL, YEARLESS, DAYTIME; None while only `t=` or nothing was seen."""
        self.last: float | None = None
        self.rebased: float | None = None
        """Seconds to add to times given out before the first stamp, once it came (they were monotonic)."""
        self.stepped_back = 0
        """Number of times the clock of the lines went back by more than a minute."""
        self.mono_to_wall: float | None = None
        """Seconds to add to a `t=` to get this log's axis, where both were seen.

        A header's clock has seconds and is never later than the moment it was printed, so the largest difference seen
        is the nearest to the true one.
        """
        self.mono_step = 0.0
        """Seconds by which that last changed by more than a minute."""
        self.set_back: tuple[float, float] | None = None
        """Times before and after the last step of the clock of the lines back by more than a minute."""
        self.refused = 0
        """Number of dates that were not believed: more than a day away from those of the lines before and after."""
        self.by_arrival = False
        """No line has a time: the time of arrival is used."""
        self.jumped: tuple[float, float] | None = None
        """A pause of more than a day, known only once a second line confirmed it."""
        self._doubted: tuple[float, Stamp] | None = None
        self._refused: Stamp | None = None
        self._before: float | None = None
        """The last date before such a pause."""
        self._alone = True
        """No second date was believed yet: the first one may be the wrong one."""
        self._restarts: tuple[float, ...] = (0.0,)
        """Seconds to add to `t=` values since the last two starts of the machine."""
        self._added = 0.0
        self._slipped = 0.0
        """Seconds to add to all times of lines: their clock was set, and that was taken out."""
        self._zones: dict[int, float] = {}
        """Seconds by which stamps of a kind are ahead of those that this log began with, where one alone of the two
        has a zone; empty while unknown."""
        self._wall: float | None = None
        self._stamp: Stamp | None = None

    def resolve(self, stamp: Stamp | None, mono: float | None) -> float | None:
        """Seconds on this log's axis; a line without a date has the time of the dated line before it.

        Its `t=` counts only where no line was dated: the offset to the dates is refined with each line, so the result
        would depend on what was read before.
        """
        if stamp is not None and stamp[0] == UPTIME:
            mono, stamp = stamp[1], None
        if stamp is not None:
            if stamp != self._stamp:
                self._read(stamp)
            self.last = None if self._wall is None else self._wall + self._slipped
        elif mono is not None and self._wall is None:
            self.last = self._ticked(mono)
        return self.last

    def at(self, stamp: Stamp | None, mono: float | None) -> float | None:
        """The same for a line that may stand before the last one: nothing is remembered but how the clocks lie."""
        if stamp is None or self._wall is None:
            return self.resolve(stamp, mono)
        kind, seconds = stamp
        wall = seconds + self._added
        if kind != self.kind or not -_NEAR < wall - self._wall < _NEAR:
            self._learn_zone(kind, seconds)
            placed = self._placed(kind, seconds)
            if placed is None or self._is_doubtful(placed, stamp):
                return self.last
            wall = placed
        wall += self._slipped
        if mono is not None:
            self._pair(wall - mono)
        return wall

    def arrived(self, wall: float) -> None:
        """Use `wall` (seconds since 1970 by the clock of some zone) for the next lines, until one contains a time."""
        self.by_arrival, self.kind = True, LOCAL
        self._wall = self.last = wall if self._wall is None else max(wall, self._wall)

    def pass_to(self, time: float) -> None:
        """Date the next lines without a timestamp at `time` (on this log's axis), if the last timestamp is so old that
        it no longer dates them.
        """
        if self._wall is not None and self.last is not None and time - self._wall - self._slipped >= _DATES_S:
            self.last = max(self.last, time)

    def slip(self, seconds: float) -> None:
        """Place the last and all later lines that much later on the axis than their times."""
        self._slipped += seconds
        self.last = None if self.last is None else self.last + seconds
        if self.mono_to_wall is not None and abs(self.mono_step + seconds) <= _STEPPED_S / 2:
            self.mono_to_wall += seconds
        self.mono_step, self.set_back = 0.0, None

    def _ticked(self, mono: float) -> float:
        """Monotonic seconds that continue where they were when the machine, and its clock, started again.

        Lines of updates stand a little out of order, also those that were printed about a restart: each belongs to the
        start that brings it nearest to the line before.
        """
        near = self.last
        if near is None or (len(self._restarts) == 1 and mono >= near - _RESTARTED_S):
            return mono
        time = min((mono + added for added in self._restarts), key=lambda time: abs(time - near))
        if time >= near - _RESTARTED_S:
            return time
        self.stepped_back += 1
        self._restarts = (self._restarts[-1], near - mono)
        return near

    def _pair(self, offset: float) -> None:
        known = self.mono_to_wall
        if known is not None and abs(offset - known) > _STEPPED_S:
            self.mono_step = offset - known
        if known is None or offset > known or offset < known - _STEPPED_S:
            self.mono_to_wall = offset

    def _read(self, stamp: Stamp) -> None:
        kind, seconds = stamp
        if self.kind is None or self.by_arrival:
            self.kind, self.by_arrival = kind, False
            self._wall = None
            if self.last is not None:
                self.rebased = seconds - self.last
                self.last = None
            wall: float | None = seconds
        else:
            self._learn_zone(kind, seconds)
            wall = self._placed(kind, seconds)
            if wall is None or self._is_doubtful(wall, stamp):
                return
            wall = self._advanced(wall)
            self._alone = False
        self._stamp = stamp
        if self._wall is not None and wall is not None and wall < self._wall - _STEPPED_S:
            self.stepped_back += 1
            self.set_back = (self._wall + self._slipped, wall + self._slipped)
        self._wall = wall

    def _learn_zone(self, kind: int, seconds: float) -> None:
        """From two neighbouring lines, of which one alone states its zone: they were printed soon after each other.

        Rows with epoch seconds stand among lines of the local time. Where these are those of UTC, as in most
        containers, nothing is learned, nor from a pause between the two that is no whole number of half hours.
        """
        kinds = (kind, self.kind)
        if kind == self.kind or kind in self._zones or EPOCH not in kinds or YEARLESS in kinds or self._wall is None:
            return
        apart = seconds - self._wall
        if DAYTIME in kinds:
            apart = (apart + _NEAR) % _DAY - _NEAR
        zone = round(apart / _ZONES_S) * _ZONES_S
        if abs(apart) < _PAUSE_S:
            self._zones[kind] = 0.0
        elif _LEAST_ZONE_S <= abs(zone) <= _MOST_ZONE_S and -_CLOSE_S <= apart - zone <= _PAUSE_S:
            self._zones[kind] = zone

    def _is_doubtful(self, wall: float, stamp: Stamp) -> bool:
        """A date more than a day away from the last one, which no second line confirms."""
        if self.kind not in _DATED or self._wall is None or stamp == self._refused:
            return stamp == self._refused
        if abs(wall - self._wall) <= _DAY:
            if self._doubted is not None and stamp != self._stamp:
                self._refuse(self._doubted[1])
            return False
        if self._before is not None and abs(wall - self._before) <= _DAY and wall < self._wall:
            return False
        if self._doubted is None or abs(wall - self._doubted[0]) > _DAY:
            self._doubted = (wall, stamp)
        if self._doubted[1] == stamp:
            return True
        self._travel(self._doubted[0])
        return False

    def _refuse(self, stamp: Stamp) -> None:
        self._refused, self._doubted = stamp, None
        self.refused += 1
        self.rebased = self.rebased or 0.0

    def _travel(self, wall: float) -> None:
        """The date really changed by more than a day; if only what came before it was wrong, that moves along."""
        before = self._wall or 0.0
        self._doubted, self._before = None, before
        if self._alone or before < _UNSET:
            self.rebased = wall - before
        elif wall > before:
            self.jumped, self.rebased = (before + self._slipped, wall + self._slipped), 0.0
        else:
            self.stepped_back += 1
        self._wall, self.last = wall, wall + self._slipped

    def _placed(self, kind: int, seconds: float) -> float | None:
        """A stamp on the log's axis, near the last one; None when it cannot be placed."""
        near = self._wall if self._wall is not None else 0.0
        if kind == self.kind:
            if kind not in (DAYTIME, YEARLESS):
                return seconds
            period = _DAY if kind == DAYTIME else _LEAP_YEAR
            time = seconds + self._added
            back = _BACK_S if kind == DAYTIME else period / 2
            if time < near - back:
                return time + period
            return time - period if time > near + period - back and self._added >= period else time
        if self.kind in _DATED and kind in _DATED:
            return seconds - self._zones.get(kind, 0.0)
        if kind == EPOCH and kind not in self._zones:
            return None  # the zone of the other lines is unknown
        if DAYTIME in (kind, self.kind):
            midnight = near - near % _DAY + (seconds - self._zones.get(kind, 0.0)) % _DAY
            times = [midnight + shift for shift in (-_DAY, 0.0, _DAY)]
        elif kind == YEARLESS:
            year = _EPOCH.year + int(near / _YEAR)
            times = [_dated(seconds, year + shift) for shift in (-1, 0, 1) if 1 <= year + shift <= 9999]
        else:
            times = [_of_year(seconds) + self._added + shift for shift in (-_LEAP_YEAR, 0.0, _LEAP_YEAR)]
        if DAYTIME in (kind, self.kind):  # what lies hours back is of the next day: started again in the morning
            times = [time for time in times if time >= near - _BACK_S] or times
        return min(times, key=lambda time: abs(time - near))

    def _advanced(self, wall: float) -> float:
        """Remember the midnights, or New Years, that passed; a year without a 29 February skips it."""
        if self.kind not in (DAYTIME, YEARLESS) or self._wall is None:
            return wall
        period = _DAY if self.kind == DAYTIME else _LEAP_YEAR
        if self.kind == YEARLESS and self._skipped_leap_day(wall):
            self._added -= _DAY
            wall -= _DAY
        if wall >= self._added + period:
            self._added += period
        return wall

    def _skipped_leap_day(self, time: float) -> bool:
        before = ((self._wall or 0.0) - self._added) % _LEAP_YEAR
        return before < _LEAP_DAY and (time - self._added) % _LEAP_YEAR >= _LEAP_DAY + _DAY

    @property
    def monotonic(self) -> bool:
        """The axis is a process's monotonic clock."""
        return self._wall is None and self.last is not None


def _dated(seconds: float, year: int) -> float:
    """Seconds since 1970 of a day and time, as seconds of a leap year, in some year."""
    if not calendar.isleap(year) and seconds >= _LEAP_DAY + _DAY:
        seconds -= _DAY
    return (_EPOCH.replace(year=year) - _EPOCH).total_seconds() + seconds


def _of_year(seconds: float) -> float:
    """Seconds of a leap year of a moment, given in seconds since 1970."""
    when = _EPOCH + timedelta(seconds=seconds)
    of_year = (when - when.replace(month=1, day=1, hour=0, minute=0, second=0, microsecond=0)).total_seconds()
    return of_year + _DAY if not calendar.isleap(when.year) and of_year >= _LEAP_DAY else of_year
