"""Log lines as they are shown (text without escape sequences, level, trace), and filters on them."""

from __future__ import annotations

import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import FrameType
from typing import NamedTuple, TypeVar

from perfmon.core import UsageError, may_contain_secret, plain, rest_of_key, without_secrets

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
    r"|^(?:\[(?:default|rank)\d{1,6}\]: ?)?\[?"
    r"(?:(?P<infoglog>I)|(?P<warningglog>W)|(?P<errorglog>E)|(?P<criticalglog>F))\d{4} \d\d:"
    r"|(?P<errortraceback>Traceback \(most recent call last\))"
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
            data = b"\n".join([line if len(line) <= RAW_CAP else last_frame(line)[:RAW_CAP] for line in lines])
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


def shown(texts: Sequence[str], before: Sequence[str] = ()) -> list[str]:
    """Return cleaned lines as they are shown: tabs as spaces, credentials masked, `…` at the end of longer ones.

    `before` has the line before each of them in its log, by which the last line of a key is known.
    """
    rests = [
        (at, begin) for at, pair in enumerate(zip(before, texts, strict=False)) if (begin := rest_of_key(*pair)) >= 0
    ]
    whole = "\n".join(texts)
    if (
        not rests
        and whole.isascii()
        and "\t" not in whole
        and not may_contain_secret(whole)
        and max(map(len, texts), default=0) <= TEXT_CAP
    ):
        return list(texts)  # nothing to replace or mask
    lines = [without_secrets(plain(text, TEXT_CAP)) for text in texts]
    for at, begin in rests:
        lines[at] = f"{plain(texts[at][:begin])}***"
    return lines


# --- Filters of log lines by log, level, trace and text, with a time limit for regular expressions ---

# --- A time limit for regular expressions ---
#
# A match holds Python's lock for as long as it takes, in whatever thread it runs; only a signal ends it, and those
# reach the main thread alone. So searches run there, in slices, each with an alarm that counts processor time.

T = TypeVar("T")


class TooSlowError(Exception):
    """The time limit was reached."""


def time_limited(seconds: float, work: Callable[[], T]) -> T:
    """Return what `work` returns. Raises TooSlowError after about so many seconds of processor time.

    In other threads than the main one, and while the timer is in use, nothing stops it.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getitimer(signal.ITIMER_VIRTUAL)[0]:
        return work()
    armed = True

    def late(_signal: int, _frame: FrameType | None) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise TooSlowError

    before = signal.signal(signal.SIGVTALRM, late)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        result = work()
        armed = False
        return result
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


# --- Filters by log, level, trace and text; text is plain, or a regular expression between slashes ---

_SLICE = 256
"""Lines that are searched between two looks at the clock."""
_SLOW_S = 0.05
_ID_PART = r"[\w./-]"


class Query:
    """A search: `text`, or `/regex/`; case-insensitive if it has no capitals.

    Raises UsageError, one line, for an invalid expression.
    """

    def __init__(self, query: str) -> None:
        self.query = query
        self.regex: re.Pattern[str] | None = None
        body = query
        if len(query) > 1 and query.startswith("/"):
            body = query[1:-1] if len(query) > 2 and query.endswith("/") else query[1:]
            self.regex = _compiled(body)
        self.folded = self.regex is None and body == body.lower()
        self.needle = "" if self.regex is not None else body
        self._spans = self.regex or re.compile(re.escape(body), re.IGNORECASE if self.folded else 0)

    def matches(self, line: str) -> bool:
        """Return True for a line that contains it."""
        if self.regex is not None:
            return self.regex.search(line) is not None
        return self.needle in line or (self.folded and self._spans.search(line) is not None)

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Return its places in a line, for highlights; none if the search takes too long."""
        try:
            return time_limited(_SLOW_S, lambda: [m.span() for m in self._spans.finditer(line) if m.end() > m.start()])
        except TooSlowError:
            return []


def _compiled(body: str) -> re.Pattern[str]:
    small = re.sub(r"\\.", "", body)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(body, re.IGNORECASE if small == small.lower() else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"/{plain(body, 60)}/ is not a valid regular expression: {plain(str(error), 80)}") from None


@dataclass(frozen=True, slots=True)
class Filter:
    """Lines that meet all of these; what is left empty does not matter."""

    sources: frozenset[int] | None = None
    """Indices of logs; None: all."""
    level: LogLevel = LogLevel.UNKNOWN
    """The least severe level."""
    trace: str = ""
    """An id that they contain."""
    texts: tuple[str, ...] = ()
    """They contain all of these; see Query."""
    folds: bool = False
    """Of requests that were served, line after line of a log, only the first; without effect next to a level, a trace
    or texts."""

    @property
    def looks_for_some(self) -> bool:
        """True if lines must have a level, a trace or a text."""
        return bool(self.level or self.trace or self.texts)

    @property
    def lets_all(self) -> bool:
        """True if every line of these logs fits."""
        return not (self.looks_for_some or self.folds)


EVERYTHING = Filter()


_SERVED = re.compile(
    # As uvicorn, aiohttp, nginx, Apache and clients such as httpx print it; gin, which has no version in it.
    r"(?:^(?:[^\n]*HTTP/(?<!\wHTTP/)[\d.]+\"?[ \t]+[23]\d\d\b|\[GIN\][^|\n]{1,60}\|[ \t]*[23]\d\d[ \t]*\|)"
    r"[^\n]*(?:\n|\Z))++",
    re.MULTILINE,
)
"""Lines, one after the other, of requests that were answered without an error."""


class CompiledFilter:
    """Finds the lines that fit a filter. Raises UsageError for a text that is not a valid regular expression."""

    def __init__(self, wanted: Filter) -> None:
        queries = [Query(text) for text in wanted.texts if text]
        self._tests: list[Callable[[str], object]] = [query.matches for query in queries]
        self._needles = [(query.needle, query.folded) for query in queries if query.needle]
        if wanted.trace:
            named = re.compile(rf"(?<!{_ID_PART}){re.escape(wanted.trace)}(?!{_ID_PART})")
            self._tests.insert(0, named.search)
            self._needles.insert(0, (wanted.trace, False))
        if wanted.level:
            self._tests.append(lambda line: level_of(line) >= wanted.level)
        self._names = ", ".join(query.query for query in queries if query.regex is not None)
        self._folds = wanted.folds and not wanted.looks_for_some

    def search(self, text: str, above: str = "") -> Iterator[list[int]]:
        """Yield the numbers, from 0, of the lines of `text` that fit, slice by slice; `above` is the line before them.

        Raises UsageError when a regular expression takes too long.
        """
        if self._folds:
            yield _unfolded(text, above)
            return
        candidates = self._candidates(text)
        if not candidates:
            return
        lines = text.split("\n")
        for at in range(0, len(candidates), _SLICE):
            yield self._fit(lines, candidates[at : at + _SLICE])

    def _candidates(self, text: str) -> Sequence[int]:
        """Return the lines that contain the literal text that a fitting line needs."""
        if not self._needles:
            return range(text.count("\n") + 1)
        needle, folded = max(self._needles, key=lambda item: len(item[0]))
        if not folded:
            return lines_with(needle, text)
        if text.isascii() and needle.isascii():
            return lines_with(needle, text.lower())
        return range(text.count("\n") + 1)

    def _fit(self, lines: Sequence[str], candidates: Sequence[int]) -> list[int]:
        def search() -> list[int]:
            found = list(candidates)
            for test in self._tests:
                found = [at for at in found if test(lines[at][:TEXT_CAP])]
            return found

        if not self._names:
            return search()
        try:
            return time_limited(_SLOW_S, search)
        except TooSlowError:
            raise UsageError(f"{plain(self._names, 60)} takes too long on these lines: use a simpler one") from None


def _unfolded(text: str, above: str) -> list[int]:
    """Return the numbers, from 0, of all lines but those of requests after the first one in a row."""
    found: list[int] = []
    at = read = 0
    for served in _SERVED.finditer(text):
        begin, end = served.span()
        first = at + text.count("\n", read, begin)
        goes_on = begin == 0 and _SERVED.match(above) is not None
        found.extend(range(at, first if goes_on else first + 1))
        at, read = first + text.count("\n", begin, end), end
    if not read or read < len(text) or text.endswith("\n"):
        found.extend(range(at, at + text.count("\n", read) + 1))
    return found


def lines_with(needle: str, text: str) -> list[int]:
    """Return the numbers, from 0, of the lines that contain `needle`."""
    found: list[int] = []
    line = begin = 0
    at = text.find(needle)
    while at >= 0:
        line += text.count("\n", begin, at)
        found.append(line)
        begin = text.find("\n", at)
        at = text.find(needle, begin) if begin >= 0 else -1
    return found
