"""Filters of log lines by log, level, trace and text, with a time limit for regular expressions."""

from __future__ import annotations

import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

from perfmon.core import UsageError, plain

from .lines import TEXT_CAP, LogLevel, level_of

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

    @property
    def lets_all(self) -> bool:
        """True if every line of these logs fits."""
        return not (self.level or self.trace or self.texts)


EVERYTHING = Filter()


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

    def search(self, text: str) -> Iterator[list[int]]:
        """Yield the numbers, from 0, of the lines of `text` that fit, slice by slice.

        Raises UsageError when a regular expression takes too long.
        """
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
