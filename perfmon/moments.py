"""Moments as people give them: `10m` before the end, a date, a time of day, seconds from the start."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from math import inf

from .errors import UsageError
from .units import parse_duration

_DAY = 86400.0
YEARLESS_S = 10 * 366 * _DAY
"""Axes that begin below this have no year: they count from a midnight or a New Year."""
_LEAP_YEAR = 2000
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?$")
_UNIT = re.compile(r"[a-z]\s*$", re.IGNORECASE)
_AGO = re.compile(r"(?<=[a-z])\s+ago$", re.IGNORECASE)
"""`10m ago` is `10m`."""
_BARE = re.compile(r"\d+(?:\.\d+)?$")


def moment(text: str, start: float, end: float) -> float:
    """The moment on the axis of a run that goes from `start` to `end` (seconds).

    `30m`, `1h 5m`, `10m ago`: before the end; `120`: seconds from the start; `14:00:30`: that time of day, the first
    one at or after the start's day began; ISO 8601. UsageError for anything else.
    """
    text = _AGO.sub("", text.strip())
    if _BARE.match(text):
        return start + float(text)
    if not _UNIT.search(text) and "-" not in text and ":" not in text:
        raise _no_time(text)
    clock = _CLOCK.match(text)
    if clock:
        return _of_day(int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3] or 0), start, end)
    if ":" in text:
        return _dated(text, start, end)  # never a duration: `25:99` would be one, and is meant as a time of day
    try:
        duration = parse_duration(text)
    except (ValueError, OverflowError):
        return _dated(text, start, end)
    if not 0.0 <= duration < inf:
        raise UsageError(f"{text!r} is not a duration before the end: expected a positive value, as in 10m")
    return end - duration


def _no_time(text: str) -> UsageError:
    told = "expected 10m (before the end), 14:00:30, 2026-08-21T14:00 or seconds from the start"
    return UsageError(f"{text!r} is not a valid time: {told}")


def _of_day(seconds: float, start: float, end: float) -> float:
    at = start - start % _DAY + seconds
    return at if at >= start - _DAY / 2 or at + _DAY > end else at + _DAY


def _dated(text: str, start: float, end: float) -> float:
    """A date; in a run whose lines have no year the day of its year, and in one without any date its time of day."""
    try:
        when = datetime.fromisoformat(text)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        if start >= YEARLESS_S:
            return when.timestamp()
    except (ValueError, OverflowError):
        raise _no_time(text) from None
    in_year = (when.replace(year=_LEAP_YEAR) - datetime(_LEAP_YEAR, 1, 1, tzinfo=when.tzinfo)).total_seconds()
    if start - _DAY <= in_year <= end + _DAY:
        return in_year
    return _of_day(in_year % _DAY, start, end)
