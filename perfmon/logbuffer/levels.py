"""The number of warnings and errors of a log, and when: counted while lines are appended."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite

from .lines import LogLevel, level_of, searchable

_SIGNS = re.compile(
    rb"[WwEeCcFfPpT](?:ARN|arn|RR|rr|RIT|rit|ATAL|atal|ANIC|anic|XCEP|xcep|raceb)"
    rb"|\]: ?\[?[WEF]\d{4} |\n\[?[WEF]\d{4} \d\d:"
)
"""In every line that states a level from warning up, or before it; glog's are those of its second half."""
_GLOG = re.compile(rb"(?m)^[WEF]\d{4} \d\d:")
_NEWLINE = ord("\n")
_LEVEL_BYTES = 600
"""The level is in the first 200 characters; colours and progress bars are longer than they look."""
_LIVE_BYTES, _LIVE_LINES = 1 << 16, 500
"""Of what has just come in, so much is counted at a time: in a flood that is not to cost more than the rest."""
_HISTORY_LINES = 5000
_LEAST_S = 2.0
_MOST_SLOTS = 1024


# --- Lines that are of one error: a traceback, with the line that announces it ---

_TRACEBACK = "Traceback (most recent call last)"
_LINK = re.compile(r"(?:During handling of the above exception|The above exception was the direct cause)")
_EXCEPTION = re.compile(r"[\w.]*(?:Error|Exception|Interrupt|Exit)(?=:|$)")
_MOST_BETWEEN = 1 << 16


@dataclass(slots=True)
class ErrorEvent:
    """An error while its lines come: some loggers put time and level before each line of a traceback."""

    text: str | None = None
    """Its last line with a level."""
    prefix: str | None = None
    """Before each line of its traceback; None before that has begun, and after its last line."""
    linked: bool = False
    """The next traceback is of the same error."""

    def takes(self, text: str, between: bytes) -> bool:
        """Take in the next line with an error, `between` it and the one before; False if a new event begins."""
        adjacent = self.text is not None and self.goes_on(between)
        at = text.find(_TRACEBACK)
        if at >= 0:
            announced = self.prefix is None and not self.linked and not between and _announces(self.text, text[:at])
            own = adjacent and (self.linked or announced)
            self.text, self.prefix, self.linked = text, text[:at].rstrip(), False
            return own
        own = adjacent and self.prefix is not None and text.startswith(self.prefix)
        rest = text[len(self.prefix) :].lstrip() if own and self.prefix is not None else ""
        if own and not self.prefix:  # without a level of its own only the exception is a line with an error
            own, self.prefix = _EXCEPTION.match(rest) is not None, None
        elif not own:
            self.prefix = None
        self.text, self.linked = text, own and (self.linked or _LINK.match(rest) is not None)
        return own

    def goes_on(self, between: bytes) -> bool:
        """Return true if these lines, none of which states a level, may belong to it."""
        if self.text is None or len(between) > _MOST_BETWEEN:
            return False
        for whole in _searchable_lines(between):
            line = whole.removeprefix(self.prefix or "")  # of a launcher
            if _LINK.match(line.lstrip()):
                self.linked = True
            elif line and not line[0].isspace():
                return False
        return True


def _announces(text: str | None, prefix: str) -> bool:
    """Return true for the line before a traceback, of the same record or one of which that is the rest."""
    return text is not None and text.startswith(prefix) and _EXCEPTION.match(text) is None and _TRACEBACK not in text


def _searchable_lines(data: bytes) -> Iterator[str]:
    """The whole lines of some data, sanitised."""
    yield from (searchable(line[:_LEVEL_BYTES]) for line in data.split(b"\n"))


# --- The counts ---


@dataclass(slots=True)
class LevelCounts:
    """The counts of a log since it was first read; what a traceback prints is one error, however many lines it has."""

    warnings: int = 0
    errors: int = 0
    exact: bool = True
    """Every line was counted; otherwise there are at least so many."""
    slot_s: float = _LEAST_S
    slots: dict[int, list[float]] = field(default_factory=dict)
    """Lines, warnings and errors per slot of time, on the log's own axis; slots double in length, so there are few."""
    event: ErrorEvent = field(default_factory=ErrorEvent)
    """The error that the last line belongs to."""

    def add(
        self, data: bytes, lines: int, begin: float, end: float, live: bool, time: Callable[[str], float | None]
    ) -> None:
        """Count the lines of `data`, printed from `begin` to `end` (infinite: unknown); `time` reads that of a line."""
        begin = end if not isfinite(begin) else begin
        timed = isfinite(end)
        if timed:
            self._spread(lines, begin, end)
        most_bytes, most_lines = (_LIVE_BYTES, _LIVE_LINES) if live else (len(data), _HISTORY_LINES)
        self.exact = self.exact and len(data) <= most_bytes
        before, whole = 0, len(data) <= most_bytes
        for count, (at, end_of_line, level, text) in enumerate(_levels(data[:most_bytes])):
            if count >= most_lines:
                self.exact = whole = False
                break
            between, before = data[before:at], end_of_line
            warns = level is LogLevel.WARNING
            if warns:
                self.event = ErrorEvent()
            elif self.event.takes(text, between):
                continue
            self.warnings, self.errors = self.warnings + warns, self.errors + (not warns)
            if timed:
                own = time(text)
                when = begin + (end - begin) * at / max(1, len(data)) if own is None else own
                self._slot(when)[1 if warns else 2] += 1
        if not (whole and self.event.goes_on(data[before:])):
            self.event = ErrorEvent()

    def add_to(self, columns: Sequence[list[float]], begin: float, column_s: float) -> None:
        """Add lines, warnings and errors to columns of time; `begin` of the first one is on the log's own axis."""
        first, last = begin // self.slot_s, (begin + column_s * len(columns)) // self.slot_s
        for number in (one for one in self.slots if first <= one <= last):
            lines, warnings, errors = self.slots[number]
            low = (number * self.slot_s - begin) / column_s
            high = low + self.slot_s / column_s
            for at in range(max(0, int(low)), min(len(columns), int(high) + 1)):
                columns[at][0] += lines * max(0.0, min(at + 1, high) - max(at, low)) / (high - low)
            at = int((low + high) / 2)
            if low + high >= 0 and at < len(columns):
                columns[at][1] += warnings
                columns[at][2] += errors

    def _spread(self, lines: int, begin: float, end: float) -> None:
        """Count lines evenly between two times: dating each of them would cost more than reading them."""
        parts = min(_MOST_SLOTS, 1 + int((end - begin) / self.slot_s))
        for part in range(parts):
            self._slot(begin + (part + 0.5) * (end - begin) / parts)[0] += lines / parts

    def _slot(self, when: float) -> list[float]:
        slot = self.slots.get(int(when // self.slot_s))
        if slot is not None:
            return slot
        if len(self.slots) >= _MOST_SLOTS:
            self.slot_s *= 2
            halves, self.slots = self.slots, {}
            for number, counts in halves.items():
                merged = self.slots.setdefault(number // 2, [0.0, 0.0, 0.0])
                merged[:] = [one + other for one, other in zip(merged, counts, strict=True)]
        return self.slots.setdefault(int(when // self.slot_s), [0.0, 0.0, 0.0])


def _levels(data: bytes) -> Iterator[tuple[int, int, LogLevel, str]]:
    """Yield the begin, end, level and head of each line of `data` that states a warning or worse."""
    at, size = 0, len(data)
    signs = _GLOG if data[:1] in (b"I", b"W", b"E", b"F") and _GLOG.search(data) else _SIGNS
    while (found := signs.search(data, max(0, at - 1))) is not None:
        sign = found.start() + (data[found.start()] == _NEWLINE)
        begin = data.rfind(b"\n", 0, sign) + 1
        at = (data.find(b"\n", sign) + 1) or size
        head = searchable(data[begin : min(at - 1, begin + _LEVEL_BYTES)])
        level = level_of(head)
        if level >= LogLevel.WARNING:
            yield begin, at, level, head
