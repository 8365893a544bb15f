"""Finds the lines that mean something in a block of a log, and reads them.

One automaton finds the needles of all patterns in one pass; only the lines around a hit are decoded, dated and
matched. Scanning a block depends on nothing but its bytes, so blocks of one file can be scanned in any process and in
any order; dates and clocks that need the lines before are inferred afterwards (`perfmon.sources.timeline`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from perfmon.model import DAYTIME, Observation, Record, Stamp
from perfmon.text import ESCAPES

from .formats.compiled import CompiledPattern, compile_patterns, needle_index
from .formats.headers import HeaderReader
from .needles import NeedleSearch
from .formats.schema import Pack
from .formats.stamps import iso_stamp

QUIET_S = 10.0
"""Stretches without a timed line are told from this length on."""
_MAX_TEXT = 65536
_ENVELOPES = (("message", "timestamp"), ("log", "time"), ("msg", "ts"), ("message", "time"), ("event", "timestamp"))
_COLOURS = re.compile(rb"\x1b\[[\d;]*m")
QUIET = -1
"""Pattern index of a record that only says when its line was printed: the ends of blocks and of quiet stretches."""


@dataclass(slots=True)
class Scanned:
    """What a block holds."""

    records: list[Record]
    lines: int
    """Lines that end in this block."""
    size: int
    tail: Stamp | None
    """Clock of the last line that has one."""
    problems: list[tuple[int, str]] = field(default_factory=list)
    """(line, what) for values that cannot be meant."""


class Scanner:
    """Scans blocks for the patterns of some packs."""

    def __init__(self, packs: Sequence[Pack]) -> None:
        self.packs = tuple(packs)
        self.patterns: list[CompiledPattern] = compile_patterns(self.packs)
        self._generic = frozenset(pack.id for pack in self.packs if pack.generic)
        needles, self.asked = needle_index(self.patterns)
        self.needles = NeedleSearch(needles)
        self._headers = HeaderReader(self.packs)

    def pattern_name(self, index: int) -> str:
        """`pack/pattern` of a record's pattern index."""
        return self.patterns[index].pattern.name

    def pattern_pack(self, index: int) -> str:
        """Pack id of a record's pattern index."""
        return self.patterns[index].pattern.pack

    def scan(self, data: bytes, offset: int = 0, line: int = 1) -> Scanned:
        """What `data` holds: whole lines, the first of them number `line` at byte `offset` of its file."""
        return _Block(self, data, offset, line).scan()


class _Block:
    """The state of scanning one block."""

    def __init__(self, scanner: Scanner, data: bytes, offset: int, line: int) -> None:
        self.scanner, self.data, self.offset, self.line = scanner, data, offset, line
        self.first_line = line
        self.headers = scanner._headers
        self.returns = b"\r" in data
        self.records: list[Record] = []
        self.problems: list[tuple[int, str]] = []
        self.counted = 0
        self.known: Stamp | None = None
        self.known_until = 0
        self.anchors: list[tuple[int, Stamp]] = []

    def scan(self) -> Scanned:
        data, scanner = self.data, self.scanner
        asked, patterns = scanner.asked, scanner.patterns
        begin = end = 0
        matched = True
        text = ""
        stamp: Stamp | None = None
        tried: set[int] = set()
        rfind, find, count = data.rfind, data.find, data.count
        for at, to, needle in scanner.needles.find(data):
            if at >= end:
                begin = rfind(b"\n", end, at) + 1 or end
                end = find(b"\n", to)
                if end < 0:
                    end = len(data)
                if self.returns:
                    begin, end = self._between_returns(begin, end, at, to)
                self.line += count(b"\n", self.counted, begin)
                self.counted = begin
                text, stamp = self._record(begin, end, at)
                matched = False
                tried.clear()
            elif matched or needle in tried:
                continue
            tried.add(needle)
            for index in asked[needle]:
                if self._match(patterns[index], text, stamp, begin, end):
                    matched = True
                    break
        return self._finish()

    def _between_returns(self, begin: int, end: int, at: int, to: int) -> tuple[int, int]:
        """Frames of a progress bar share a line: the frame around the hit."""
        begin = max(begin, self.data.rfind(b"\r", begin, at) + 1)
        stop = self.data.find(b"\r", to, end)
        return begin, end if stop < 0 else stop

    def _record(self, begin: int, end: int, at: int) -> tuple[str, Stamp | None]:
        """Decoded text and stamp of the record that spans begin..end."""
        if end - begin > _MAX_TEXT:
            begin = max(begin, at - _MAX_TEXT // 2)
            end = min(end, begin + _MAX_TEXT)
        raw = self.data[begin:end]
        if b"\x1b" in raw:
            raw = _COLOURS.sub(b"", raw)
        text = raw.decode("utf-8", "replace")
        if "\x1b" in text:
            text = ESCAPES.sub("", text)
        if "\x00" in text:
            text = text.replace("\x00", "")
        return text, self.headers.read(text)

    def _match(self, compiled: CompiledPattern, text: str, stamp: Stamp | None, begin: int, end: int) -> bool:
        """Reads the line with one pattern; False when it is not of this kind."""
        inner = text
        if text.startswith("{") and compiled.pattern.style != "json":
            opened = _envelope(text)
            if opened is not None:
                inner, stamp = opened
        values = compiled.fields(inner)
        if values is None:
            return False
        pattern = compiled.pattern
        problems: list[str] = []
        observations: list[Observation] = compiled.observe(values, problems)
        if problems:
            self.problems.extend((self.line, problem) for problem in problems)
        if pattern.clock:
            stamp = compiled.clock(values) or stamp
        if stamp is None:
            stamp = self._inherited(begin)
        elif stamp is not self.known:
            self.known = stamp
            self.anchors.append((begin, stamp))
        self.known_until = end
        mono = compiled.mono(values) if pattern.mono else None
        self.records.append((compiled.index, self.line, self.offset + begin, stamp, mono, observations, text))
        return True

    def _inherited(self, begin: int) -> Stamp | None:
        """Clock of the last line before `begin` that has one; None when it stands in an earlier block."""
        found = self._stamp_before(self.known_until, begin)
        if found is not None:
            self.anchors.append(found)
            self.known = found[1]
        return self.known

    def _stamp_before(self, low: int, high: int) -> tuple[int, Stamp] | None:
        """The last dated line that begins in low..high, searched from the end."""
        data = self.data
        end = high
        while end > low:
            begin = data.rfind(b"\n", low, end - 1) + 1 or low
            stamp = self._stamp_of(begin, end)
            if stamp is not None:
                return begin, stamp
            end = begin
        return None

    def _stamp_after(self, low: int, high: int) -> tuple[int, Stamp] | None:
        """The first dated line that begins in low..high."""
        data = self.data
        begin = low
        while begin < high:
            end = data.find(b"\n", begin, high)
            end = high if end < 0 else end
            stamp = self._stamp_of(begin, end)
            if stamp is not None:
                return begin, stamp
            begin = end + 1
        return None

    def _stamp_of(self, begin: int, end: int) -> Stamp | None:
        head = self.data[begin : min(end, begin + 400)]
        if not head:
            return None
        text = head.decode("utf-8", "replace")
        if "\x1b" in text:
            text = ESCAPES.sub("", text)
        if text.startswith("{"):
            opened = _envelope(self.data[begin : min(end, begin + _MAX_TEXT)].decode("utf-8", "replace"))
            return opened[1] if opened is not None else None
        return self.headers.read(text)

    def _finish(self) -> Scanned:
        data = self.data
        size = len(data)
        lines = self.line - self.first_line + data.count(b"\n", self.counted)
        if data and not data.endswith(b"\n"):
            lines += 1
        tail = self._stamp_before(self.known_until, size)
        if tail is not None:
            self.known = tail[1]
            self.anchors.append(tail)
        self._tell_quiet()
        return Scanned(self.records, lines, size, self.known, self.problems)

    def _tell_quiet(self) -> None:
        """Adds records for the first and last dated line and for both ends of every quiet stretch."""
        first_known = self.anchors[0][0] if self.anchors else len(self.data)
        first = self._stamp_after(0, first_known) or (self.anchors[0] if self.anchors else None)
        if first is None:
            return
        told = dict((first, *self.anchors[-1:]))
        before = first
        for anchor in self.anchors:
            self._quiet_between(before, anchor, told)
            before = anchor
        quiet: list[Record] = [
            (QUIET, self._line_at(position), self.offset + position, stamp, None, [], self._line_text(position))
            for position, stamp in told.items()
        ]
        self.records = sorted(self.records + quiet, key=lambda record: record[2])

    def _quiet_between(self, low: tuple[int, Stamp], high: tuple[int, Stamp], told: dict[int, Stamp]) -> None:
        """Halves the lines between two dated lines until each quiet stretch is held by neighbouring dated lines."""
        pending = [(low, high)]
        while pending:
            before, after = pending.pop()
            if after[0] <= before[0] or _elapsed(before[1], after[1]) < QUIET_S:
                continue
            middle = (before[0] + after[0]) // 2
            begin = self.data.find(b"\n", middle, after[0]) + 1
            found = self._stamp_after(begin, after[0]) if begin else None
            if found is None:
                found = self._stamp_before(self._next_line(before[0]), begin or after[0])
            if found is None:
                told[before[0]], told[after[0]] = before[1], after[1]
                continue
            pending.append((before, found))
            pending.append((found, after))

    def _line_at(self, position: int) -> int:
        """Line number of a position: counted from the nearer known one."""
        if position >= self.counted:
            return self.line + self.data.count(b"\n", self.counted, position)
        return self.first_line + self.data.count(b"\n", 0, position)

    def _line_text(self, position: int) -> str:
        end = self.data.find(b"\n", position)
        raw = self.data[position : min(len(self.data) if end < 0 else end, position + 400)]
        return ESCAPES.sub("", raw.decode("utf-8", "replace"))

    def _next_line(self, begin: int) -> int:
        end = self.data.find(b"\n", begin)
        return len(self.data) if end < 0 else end + 1


def _elapsed(before: Stamp, after: Stamp) -> float:
    """Seconds from one stamp to the next, over midnight when only the time of day is known; 0 across kinds."""
    if before[0] != after[0]:
        return 0.0
    seconds = after[1] - before[1]
    return seconds + 86400.0 if before[0] == DAYTIME and seconds < -43200.0 else seconds


def _envelope(text: str) -> tuple[str, Stamp | None] | None:
    """Message and stamp of a JSON log record; None when it is no such record."""
    if '"message"' not in text and '"log"' not in text and '"msg"' not in text and '"event"' not in text:
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    for message, time in _ENVELOPES:
        inner = record.get(message)
        if isinstance(inner, str) and time in record:
            when = record[time]
            stamp = iso_stamp(when) if isinstance(when, str) else (0, float(when)) if isinstance(when, int | float) else None
            return ESCAPES.sub("", inner), stamp
    return None
