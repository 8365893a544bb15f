"""A log line as it is shown: its text without escape sequences, its level, its trace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from perfmon.core import may_contain_secret, plain, without_secrets

# --- A log line as it is shown; its level and its trace ---

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
"""The timestamp of most lines: any level starts after it, or with its last character."""
_TICK = re.compile(r"(?<![\w.])t=(\d{1,12}(?:\.\d{1,9})?)(?![\w.])")
_TRACE = re.compile(r"\[[A-Za-z][\w.-]{0,63}\]\[([\w.:/-]{1,128})\]")


class LogLevel(IntEnum):
    """The severity that a line states; UNKNOWN when it states none."""

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
    """Identifies a line for as long as the program runs, whether it is still kept or not."""

    source: int
    ordinal: int
    """Number of lines of its log before it."""


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
    """Monotonic seconds in its `t=` field."""
    level: LogLevel
    trace: str
    """As in `[weights][def456]`; "" when there is none."""
    text: str
    """Safe to show: no escape sequence, no control, no credential; at most a few thousand characters."""


def level_of(text: str) -> LogLevel:
    """Return the level in the head of a line."""
    stamp = _DIGITS.match(text)  # skipping is much cheaper than searching
    match = _LEVEL.search(text, 0 if stamp is None else stamp.end() - 1, _HEAD)
    return LogLevel.UNKNOWN if match is None else _LEVELS[match.lastgroup or ""]


def ticks(text: str) -> float | None:
    """Return the monotonic seconds in the `t=` field of a line, if it has one."""
    if "t=" not in text:
        return None
    match = _TICK.search(text)
    return None if match is None else float(match[1])


def trace_of(text: str) -> str:
    """Return the id in `[weights][id]` near the head of a line; "" when there is none."""
    match = _TRACE.search(text, 0, 2 * _HEAD) if "][" in text else None
    return "" if match is None else match[1]


# --- Sanitised text: what is searched is what is shown, and no part of it controls the terminal ---

RAW_CAP = 8192
"""Bytes of a line that are read, whatever its length."""
TEXT_CAP = 2000
"""Characters of a line that are searched and shown."""
_FRAMES = re.compile(rb"(?m)^[^\n]*\r(?=[^\r\n])")
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\|(?=\n)|\Z)"
    r"|\x1b[ -/]*[0-~]"
    r"|\x1b"
)
_CONTROLS = bytes(code for code in range(32) if code not in (9, 10)) + b"\x7f"
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
    # no cells of their own, but terminals disagree: what follows them would be moved
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\ufff9-\ufffb\U000e0000-\U000e01ef]"
)
_STACKED = re.compile(r"([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{3})"
                      r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")  # fmt: skip


def searchable(data: bytes) -> str:
    """Return the text of whole lines, one for each of `data`: no escape sequence, no control but tabs; of the frames
    of a progress bar the last one; of longer lines the first RAW_CAP bytes."""
    if len(data) > RAW_CAP:
        lines = data.split(b"\n")
        if max(map(len, lines)) > RAW_CAP:
            data = b"\n".join([line[:RAW_CAP] for line in lines])
    if b"\r" in data:
        data = _FRAMES.sub(b"", data)
    if not data.isascii():
        return _without_invisible(data.decode("utf-8", "replace"))
    if b"\x1b" in data:
        data = _ESCAPES.sub("", data.decode("ascii")).encode("ascii")
    return data.translate(None, _CONTROLS).decode("ascii")


def _without_invisible(text: str) -> str:
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return _STACKED.sub(r"\1", _INVISIBLE.sub("", text))


def last_frame(raw: bytes) -> bytes:
    """Return what a terminal shows of a line with `\\r` in it: its last frame that is not empty."""
    return raw.rstrip(b"\r").rpartition(b"\r")[2]


def cleaned(raws: Sequence[bytes]) -> list[str]:
    """Return lines, without their newlines, as they are searched, and one character more of those that are longer."""
    return [text[: TEXT_CAP + 1] for text in searchable(b"\n".join(raws)).split("\n")] if raws else []


def shown(texts: Sequence[str]) -> list[str]:
    """Return cleaned lines as they are shown: tabs as spaces, credentials masked, `…` at the end of longer ones."""
    whole = "\n".join(texts)
    if (
        whole.isascii()
        and "\t" not in whole
        and not may_contain_secret(whole)
        and max(map(len, texts), default=0) <= TEXT_CAP
    ):
        return list(texts)  # nothing to replace or mask
    return [without_secrets(plain(text, TEXT_CAP)) for text in texts]
