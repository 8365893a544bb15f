"""Time stamps as logs print them: from a strptime-like format to a regex and a quick parser.

A stamp tells as much as the line does: with date and zone it is EPOCH, without a zone LOCAL, without a year YEARLESS,
without a date DAYTIME. What is missing is inferred later, from the lines around it (`perfmon.sources.timeline`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import cache, lru_cache
from typing import NamedTuple

from perfmon.model import DAYTIME, EPOCH, LOCAL, YEARLESS, Stamp

MONTHS = {
    name: i + 1
    for i, name in enumerate(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"))
}
_DIRECTIVES = {
    "Y": r"\d{4}",
    "m": r"\d{1,2}",
    "d": r"[ \d]?\d",
    "e": r"\d\d",
    "H": r"\d{1,2}",
    "M": r"\d\d",
    "S": r"\d\d",
    "f": r"(?:[.,]\d{1,9})?",
    "z": r"(?:Z|[+-]\d\d:?\d\d)?",
    "b": "|".join(MONTHS),
    "p": r"(?: ?[AP]M(?!\w))?",
    "s": r"1\d{18}|1\d{15}|1\d{12}|\d{9,10}(?:\.\d+)?",
}
_NEIGHBOURS = 256
"""So many stamps are known again: the lines of a second share theirs, whatever stands before and behind it."""
_DATE_ONLY = len("2026-08-21")
_FINEST = 1e11
"""Seconds since 1970 are less than this, and milliseconds are more: so it is up to nanoseconds."""
_DAYS_BEFORE = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335, 366)


@cache
def _split(time: str) -> tuple[tuple[str, bool], ...]:
    """(text, is_directive) pieces of a format."""
    pieces: list[tuple[str, bool]] = []
    position = 0
    for match in re.finditer(r"%(.)", time):
        if match.start() > position:
            pieces.append((time[position : match.start()], False))
        if match[1] not in _DIRECTIVES:
            raise ValueError(f"unknown directive %{match[1]}, expected one of %{' %'.join(_DIRECTIVES)}")
        pieces.append((match[1], True))
        position = match.end()
    if position < len(time):
        pieces.append((time[position:], False))
    names = {text for text, directive in pieces if directive}
    if "s" not in names and not {"H", "M", "S"} <= names:
        raise ValueError("expected at least %H, %M and %S, or %s")
    return tuple(pieces)


@cache
def time_regex(time: str) -> str:
    """The regex of a time format, without groups that capture; ValueError for an unknown directive."""
    return "".join(f"(?:{_DIRECTIVES[text]})" if directive else re.escape(text) for text, directive in _split(time))


@cache
def _day_seconds(year: int, month: int, day: int) -> float:
    return (date(year, month, day).toordinal() - 719163) * 86400.0


def _offset(text: str) -> float:
    if text == "Z":
        return 0.0
    sign = -1.0 if text[0] == "-" else 1.0
    digits = text[1:].replace(":", "")
    return sign * (int(digits[:2]) * 3600 + int(digits[2:4]) * 60)


class Parts(NamedTuple):
    """What a stamp tells without its fraction of a second."""

    kind: int
    day_s: float
    """Where its day begins, in seconds since 1970 or since New Year; 0 where no date is known."""
    time_s: int
    """Whole seconds of that day."""
    offset_s: float
    """Of its zone."""

    def stamp(self, fraction: str) -> Stamp:
        """The stamp, with the digits of its fraction of a second ("" where it has none)."""
        time_s = self.time_s + float(f"0.{fraction}") if fraction else self.time_s
        return (self.kind, self.day_s + time_s - self.offset_s)


class StampReader:
    """Reads the stamps of one format."""

    def __init__(self, time: str) -> None:
        pieces = _split(time)
        self._regex = re.compile("".join(f"({_DIRECTIVES[t]})" if d else re.escape(t) for t, d in pieces))
        names = [text for text, directive in pieces if directive]
        self._at = {name: names.index(name) for name in set(names)}

    def stamp(self, text: str) -> Stamp | None:
        """The stamp of a text; None when the numbers are no date or time (`99:99:99`)."""
        match = self._regex.match(text)
        if match is None:
            return None
        if "s" in self._at:
            return epoch_stamp(float(match[1 + self._at["s"]]))
        parts = self._parts(match)
        return None if parts is None else parts.stamp(self._fraction(match))

    def fraction(self, text: str) -> tuple[Parts, int, int] | None:
        """What a text tells without the digits of its fraction, and where those begin and end; None without any."""
        if "." not in text and "," not in text:  # nor any fraction
            return None
        match = self._regex.match(text)
        parts = None if match is None or "s" in self._at else self._parts(match)
        if match is None or parts is None or not self._fraction(match):
            return None
        begin, end = match.span(1 + self._at["f"])
        return parts, begin + 1, end

    def time_of_day(self, text: str) -> tuple[Parts, int, int, int] | None:
        """What a text tells, where its `HH:MM:SS` begins, and where its fraction begins and ends, with the sign; None
        where the time of day has another form."""
        match = None if "s" in self._at or "p" in self._at else self._regex.match(text)
        parts = None if match is None else self._parts(match)
        if match is None or parts is None:
            return None
        begin, end = match.start(1 + self._at["H"]), match.end(1 + self._at["S"])
        if end - begin != len("HH:MM:SS") or text[begin + 2] != ":" or text[begin + 5] != ":":
            return None
        first, last = match.span(1 + self._at["f"]) if "f" in self._at else (end, end)
        return (parts, begin, first, last) if first == end else None

    def _fraction(self, match: re.Match[str]) -> str:
        return match[1 + self._at["f"]][1:] if "f" in self._at else ""

    def _parts(self, match: re.Match[str]) -> Parts | None:
        at, part = self._at, match.groups()
        hour, minute, second = int(part[at["H"]]), int(part[at["M"]]), int(part[at["S"]])
        half = part[at["p"]] if "p" in at else ""
        if half and 1 <= hour <= 12:  # beside another hour it is a word of the message
            hour = hour % 12 + (12 if half[-2] == "P" else 0)
        if hour > 23 or minute > 59 or second > 60:
            return None
        seconds = hour * 3600 + minute * 60 + second
        month = MONTHS[part[at["b"]]] if "b" in at else int(part[at["m"]]) if "m" in at else None
        if month is None:
            return Parts(DAYTIME, 0.0, seconds, 0.0)
        day = int(part[at["d" if "d" in at else "e"]]) if "d" in at or "e" in at else 1
        if not 1 <= month <= 12 or not 1 <= day <= _DAYS_BEFORE[month] - _DAYS_BEFORE[month - 1]:
            return None
        if "Y" not in at:
            return Parts(YEARLESS, (_DAYS_BEFORE[month - 1] + day - 1) * 86400.0, seconds, 0.0)
        try:
            began = _day_seconds(int(part[at["Y"]]), month, day)
        except ValueError:
            return None
        zone = part[at["z"]] if "z" in at else ""
        return Parts(EPOCH, began, seconds, _offset(zone)) if zone else Parts(LOCAL, began, seconds, 0.0)


@cache
def stamp_reader(time: str) -> StampReader:
    """What reads the stamps of a format."""
    return StampReader(time)


@cache
def stamp_parser(time: str) -> Callable[[str], Stamp | None]:
    """A function from the stamp's text to a Stamp; None when the numbers are no date or time (`99:99:99`)."""
    return lru_cache(_NEIGHBOURS)(stamp_reader(time).stamp)


def iso_stamp(text: str) -> Stamp | None:
    """The stamp of an ISO 8601 time (`2026-08-21T10:00:03.123+00:00`), None when it is none, or a date only."""
    if len(text) <= _DATE_ONLY:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return (LOCAL, moment.replace(tzinfo=UTC).timestamp())
    return (EPOCH, moment.timestamp())


def epoch_stamp(number: float) -> Stamp | None:
    """The stamp of a time since 1970 in seconds, or whole milli-, micro- or nanoseconds; None when it is too early."""
    if not 1e8 < number < 1e8 * 1e12:
        return None
    while number >= _FINEST:
        number /= 1e3
    return (EPOCH, float(number)) if number > 1e8 else None


def any_stamp(value: object) -> Stamp | None:
    """The stamp in a field that holds a time, as text or as number; None when it holds none."""
    if isinstance(value, str):
        text = value.strip("\"' ")
        try:
            return epoch_stamp(float(text))
        except ValueError:
            return iso_stamp(text)
    return epoch_stamp(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
