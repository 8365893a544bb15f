"""A log line as it is shown, and what its head tells: how grave it is, which trace it belongs to."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NamedTuple

_HEAD = 200
_LEVEL = re.compile(
    r"(?<![\w.-])(?:"
    r"(?P<debug>TRACE|DEBUG|DBG)|(?P<info>INFO|NOTICE|SUCCESS)|(?P<warning>WARN(?:ING)?)"
    r"|(?P<error>ERROR|ERR|EXCEPTION)|(?P<critical>CRITICAL|CRIT|FATAL|PANIC)"
    r")(?![\w.-])"
    r"|(?:\blevel\"?\s*[=:]\s*\"?|^\[|\s\[)(?:"
    r"(?P<debug_>trace|debug)|(?P<info_>info|notice|success)|(?P<warning_>warn(?:ing)?)"
    r"|(?P<error_>err(?:or)?)|(?P<critical_>crit(?:ical)?|fatal|panic)"
    r")\b"
    r"|^(?:(?P<infoglog>I)|(?P<warningglog>W)|(?P<errorglog>E)|(?P<criticalglog>F))\d{4} \d\d:"
    r"|^(?P<errortrace>Traceback \(|[\w.]*(?:Error|Exception)(?=:|$))"
    r"|^(?:(?P<errorword>[Ee]rror)|(?P<criticalword>[Ff]atal)|(?P<warningword>[Ww]arning)):"
)
_DIGITS = re.compile(r"\d+[-/:][\d:., /T-]*")
"""The stamp that most lines begin with: all that tells a level begins after it, or with its last character."""
_TICK = re.compile(r"(?<![\w.])t=(\d{1,12}(?:\.\d{1,9})?)(?![\w.])")
_TRACE = re.compile(r"\[[A-Za-z][\w.-]{0,63}\]\[([\w.:/-]{1,128})\]")


class LogLevel(IntEnum):
    """How grave a line says it is; UNKNOWN when it does not say."""

    UNKNOWN = 0
    DEBUG = 1
    INFO = 2
    WARNING = 3
    ERROR = 4
    CRITICAL = 5


_LEVELS = {
    name: level
    for level in LogLevel
    for name in _LEVEL.groupindex
    if level and name.startswith(level.name.lower())
}  # fmt: skip


class Place(NamedTuple):
    """A line for as long as the program runs, whether the ring still holds it or not."""

    source: int
    ordinal: int
    """Lines of its log that came before it."""


class Line(NamedTuple):
    """A log line as it is shown."""

    place: Place
    source: int
    number: int
    """In its file, from 1; 0 when lines are not counted."""
    time: float | None
    """Seconds on the run's axis; without a clock of its own that of the line before it, None before any."""
    dated: bool
    """It has a clock of its own."""
    mono: float | None
    """Monotonic seconds that it tells as `t=`."""
    level: LogLevel
    trace: str
    """As in `[weights][def456]`; "" when there is none."""
    text: str
    """Safe to show: no escape sequence, no control, no credential; at most a few thousand characters."""


def level_of(text: str) -> LogLevel:
    """The level that a line's head tells."""
    stamp = _DIGITS.match(text)  # the other expression takes much longer for each character that it goes on by
    match = _LEVEL.search(text, 0 if stamp is None else stamp.end() - 1, _HEAD)
    return LogLevel.UNKNOWN if match is None else _LEVELS[match.lastgroup or ""]


def ticks(text: str) -> float | None:
    """Monotonic seconds that a line tells as `t=`; None when it tells none."""
    if "t=" not in text:
        return None
    match = _TICK.search(text)
    return None if match is None else float(match[1])


def trace_of(text: str) -> str:
    """The id in `[weights][id]` near the head of a line; "" when there is none."""
    match = _TRACE.search(text, 0, 2 * _HEAD) if "][" in text else None
    return "" if match is None else match[1]
