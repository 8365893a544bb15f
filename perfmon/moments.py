"""Moments as people give them: `10m` before the end, a date, a time of day, seconds from the start."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from .errors import UsageError
from .units import parse_duration

_DAY = 86400.0
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d+)?))?$")
_BARE = re.compile(r"\d+(?:\.\d+)?$")


def moment(text: str, start: float, end: float) -> float:
    """The moment on the axis of a run that goes from `start` to `end` (seconds).

    `30m`, `1h 5m`: before the end; `120`: seconds from the start; `14:00:30`: that time of day, the first one at or
    after the start's day began; ISO 8601. UsageError for anything else.
    """
    text = text.strip()
    if _BARE.match(text):
        return start + float(text)
    clock = _CLOCK.match(text)
    if clock:
        seconds = int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3] or 0)
        at = start - start % _DAY + seconds
        return at if at >= start - _DAY / 2 or at + _DAY > end else at + _DAY
    try:
        return end - parse_duration(text)
    except ValueError:
        pass
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is no time: expected 10m (before the end), 14:00:30, 2026-08-21T14:00 or seconds from the start"
        ) from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
