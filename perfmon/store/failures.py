"""Failures that logs report, with their tracebacks and what other lines add; lines that only quote one.

The one that ended the run is chosen by `perfmon.rules.first_cause`.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from perfmon.core import LOCAL, Fields, Shift

_HALF_HOUR_S, _ZONE_S, _DAY_S = 1800.0, 120.0, 7 * 86400.0
_MOST_FAILURES = 500
_MOST_ALIKE = 20
"""Of equal failures of a log the first are kept, and the last; the others are counted."""
_MOST_RUNS = 200  # if work continued between two of them: each may have ended a run of its own
_PLACE = ("host", "ip", "rank", "local_rank", "actor", "pid")
_QUOTED_LINES = 200
"""So long a text is at most."""
_BACKTRACE_LINES = 12
"""So far behind an error its backtrace begins."""
_DETAIL_LINES = 60
"""So far from a failure its frames and details stand."""
_FRAMES_APART = 12
"""So many lines apart, at most, are the frames of a traceback, and those of its parts."""
_MOST_PLACES = 4096
_TELLING = ("cause", "order", "record")
NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
_INSTALLED = re.compile(r"(?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python\d|^<frozen |\.pyx$|^uvloop/")
_PROGRAM = re.compile(r"[/\\]s?bin[/\\]|\.exe\b")
"""A launcher that was installed: what it raises is the end of what it launched."""


@dataclass(slots=True)
class Failure:
    """A line that reports a failure."""

    cause: str
    role: str
    """One of `perfmon.sources.formats.schema.FAILURE_ROLES`."""
    fatal: bool
    time: float
    """Seconds on the log's axis; of a line without a clock those of the last dated line before it."""
    source: int
    line: int
    offset: int
    text: str
    fields: Fields
    frame: Fields = field(default_factory=dict)
    """The innermost frame of its traceback: file, line, function."""
    count: int = 1
    """Number of equal lines of the log."""
    last_line: int = 0
    """The last of them."""


class FailureLog:
    """The failures of a run's logs, in bounded memory."""

    def __init__(self) -> None:
        self.kept: list[Failure] = []
        self._alike: dict[tuple[int, str, str], list[Failure]] = {}
        self._counts: Counter[int] = Counter()
        self._frames: dict[tuple[int, str], tuple[int, Fields]] = {}
        self._handled: dict[tuple[int, str], int] = {}
        """The lines of tracebacks whose errors their processes handled, and continued."""
        self._quotes: dict[tuple[int, str], int] = {}
        """The lines at which the text of a prompt or a sample begins that has not ended, by log and place."""
        self._chained: dict[tuple[int, str], int] = {}
        """The lines after which the next traceback is of the same process."""
        self._recent: dict[int, deque[Failure]] = {}
        self._worked_at: dict[tuple[int, str, str], int] = {}

    def detail(self, source: int, cause: str, line: int, fields: Fields) -> None:
        """Take in a line that is part of a failure, or that shows that one is none of the run's.

        `cause` is what the line is: frame, backtrace, chained, handled, raised, quoted, unquoted; or the cause of the
        failure just before to which its fields belong.
        """
        slot = (source, place_of(fields))
        if cause == "frame":
            self._frame(slot, line, fields)
        elif cause == "chained":
            _keep(self._chained, slot, line)
        elif cause == "handled":
            _keep(self._handled, slot, line)
        elif cause == "raised":
            self._handled.pop(slot, None)
        elif cause == "quoted":
            _keep(self._quotes, slot, line)
        elif cause == "unquoted":
            self._quotes.pop(slot, None)
        elif cause == "backtrace":
            self._backtrace(source, line, fields)
        else:
            self._add_fields(source, cause, line, fields)

    def _frame(self, slot: tuple[int, str], line: int, fields: Fields) -> None:
        """A frame of a traceback; the last one before the exception is the innermost.

        The innermost one outside of installed packages is kept with it, as `own_file`, `own_line` and `own_function`;
        and as `entry` the script that the process was started with, where the traceback begins there.
        """
        known = self._frames.get(slot)
        own: Fields = {}
        if not _INSTALLED.search(str(fields.get("file", ""))):
            own = {f"own_{name}": fields[name] for name in ("file", "line", "function") if name in fields}
        elif known is not None and 0 <= line - known[0] <= _FRAMES_APART:
            own = {name: value for name, value in known[1].items() if name.startswith("own_")}
        entry = self._entry(slot, line, fields)
        _keep(self._frames, slot, (line, {**fields, **own, **({"entry": entry} if entry is not None else {})}))
        handled = self._handled.get(slot)
        if handled is not None and 0 <= line - handled <= _FRAMES_APART:
            self._handled[slot] = line

    def _backtrace(self, source: int, line: int, fields: Fields) -> None:
        """The first frame of a backtrace of native code: it is that of an error just before that has none."""
        last = next(reversed(self._recent.get(source, ())), None)
        if last is not None and last.cause == "exception" and not last.frame and line - last.line <= _BACKTRACE_LINES:
            last.frame = fields

    def _entry(self, slot: tuple[int, str], line: int, fields: Fields) -> str | None:
        """The script in which the traceback of a frame begins; "" where it begins elsewhere, None if that is open."""
        known, recent = self._frames.get(slot), self._recent.get(slot[0], ())
        begun = max((one.line for one in recent if "task" not in one.fields), default=0)  # Ray's head of it begins none
        raised = max((one.line for one in recent if one.role != "context"), default=0)
        if known is not None and (known[0] > begun or self._chained.get(slot, 0) > raised):
            entry = known[1].get("entry")
            if entry is not None:
                return str(entry)
        file = str(fields.get("file", ""))
        if "runpy" in file:
            return None
        begins = fields.get("function") == "<module>" and not file.startswith("<") and not _INSTALLED.search(file)
        return file if begins and not _PROGRAM.search(file) else ""

    @property
    def is_quoting(self) -> bool:
        """The text of a prompt or a sample may go on in some log."""
        return bool(self._quotes)

    def end_quotes(self, source: int) -> None:
        """A log reports something else: no text goes on in it."""
        self._quotes = {slot: line for slot, line in self._quotes.items() if slot[0] != source}

    def add(self, failure: Failure, advanced: int) -> None:
        """Add a failure, at the `advanced`-th progress; more of the same in one log are counted."""
        slot = (failure.source, place_of(failure.fields))
        quoted = self._quotes.get(slot)
        if quoted is not None and failure.role != "order" and failure.line - quoted <= _QUOTED_LINES:
            failure.role = "context"
        known = self._frames.get(slot)
        if (
            known is not None
            and "type" in failure.fields
            and not failure.fatal
            and 0 <= failure.line - known[0] <= _DETAIL_LINES
        ):
            failure.frame = known[1]  # of ranks whose lines are mixed each has it
        handled = self._handled.get(slot)
        if handled is not None and 0 <= failure.line - handled <= _FRAMES_APART and failure.role == "cause":
            failure.role, self._handled[slot] = "context", failure.line
        failure.last_line = failure.line
        key = (failure.source, failure.cause, _alike(str(failure.fields.get("message", "")) or failure.text))
        alike = self._alike.setdefault(key, [])
        recent = self._recent.setdefault(failure.source, deque(maxlen=64))
        room = _MOST_FAILURES if failure.role in _TELLING else _MOST_FAILURES // 2
        worked = advanced > self._worked_at.get(key, -1)
        most = _MOST_RUNS if worked and failure.role in _TELLING else _MOST_ALIKE
        if len(alike) < most and self._counts[failure.source] < room:
            self._worked_at[key] = advanced
            alike.append(failure)
            self._counts[failure.source] += 1
            self.kept.append(failure)
            recent.append(failure)
            return
        if not alike:
            if len(self._alike) > 2 * _MOST_FAILURES:
                self._alike.pop(key)
            # So many kinds of failures that only the newest of the others is kept.
            key = (failure.source, "", "")
            alike = self._alike.setdefault(key, [])
            if not alike:
                alike.append(failure)
                self.kept.append(failure)
                recent.append(failure)
                return
        last, failure.count = alike[-1], alike[-1].count + 1
        for name in Failure.__slots__:
            setattr(last, name, getattr(failure, name))
        recent.append(last)

    def _add_fields(self, source: int, cause: str, line: int, fields: Fields) -> None:
        """Add fields to the failure of a line just before; known ones stay.

        It is the newest failure that may be of the same rank, process and host.
        """
        for failure in reversed(self._recent.get(source, ())):
            if line - failure.line > _DETAIL_LINES:
                return
            known = failure.fields
            elsewhere = any(name in known and name in fields and known[name] != fields[name] for name in _PLACE)
            if failure.cause == cause and not elsewhere:
                failure.fields = {**fields, **known}
                return

    def move(self, source: int, by: Shift) -> None:
        """Move what one log has."""
        for failure in self.kept:
            if failure.source == source:
                failure.time += by(failure.time, failure.line)


def _keep(held: dict[tuple[int, str], Any], slot: tuple[int, str], value: Any) -> None:
    """Keep a value of a place; of too many places only the newest."""
    held[slot] = value
    if len(held) > _MOST_PLACES:
        held.clear()
        held[slot] = value


def _alike(text: str) -> str:
    """Normalise the text of a failure: without ranks, processes, sizes, addresses."""
    return NUMBERS.sub("#", text[:200])[:80]


def place_of(fields: Fields) -> str:
    """Identify the process that printed a line of a log that several write to."""
    return "/".join(str(fields[name]) for name in _PLACE if name in fields)


def own_time(kind: int | None, time: float, fields: Fields) -> float:
    """Return the time of a failure by its own line, which may be long after the last dated line of the log.

    Whole half hours between the two are another zone's clock, not a delay: then it is unknown.
    """
    try:
        moment = datetime.fromisoformat(str(fields["time"])) if "time" in fields and kind == LOCAL else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is not None:
        return time
    own = moment.replace(tzinfo=UTC).timestamp()
    later = own - time
    return own if 0 < later < _DAY_S and _ZONE_S < later % _HALF_HOUR_S < _HALF_HOUR_S - _ZONE_S else time
