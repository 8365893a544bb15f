"""Finds the lines that mean something in a block of a log, and reads them.

One search finds the needles of all patterns; only the lines around a hit are decoded, dated and matched. Scanning a
block depends on nothing but its bytes, so blocks of one file can be scanned in any process and in any order; dates and
clocks that need the lines before are inferred afterwards (`perfmon.sources.timeline`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from perfmon.model import HEAD, LEG, SILENCE, TAIL, Record, Stamp
from perfmon.text import ESCAPES

from .envelope import json_begin, opened_envelope, record_stamp
from .finding import joined
from .formats.compiled import CompiledPattern, compile_patterns, needle_index
from .formats.headers import HeaderReader
from .formats.schema import Pack
from .heads import Heads
from .joining import NEVER, Calm, HeldLeg, cells
from .native import finder
from .numbering import LineCount
from .shapes import Cells, Shapes
from .silence import BOM, LATE_LINES, QUIET_S, Dated, Lines, elapsed, is_behind

_MAX_TEXT = 65536
_RESTARTED_S = 600.0
"""A monotonic clock that falls back by more began anew."""
_LOOKED_BACK = 16
"""So many lines at the end of a block are looked at for one that is later than the last."""
_SHOWN = 400
"""Of the line before a silence so much is kept."""
_COLOURS = re.compile(rb"\x1b\[[\d;]*m")
_offset_of = itemgetter(2)


@dataclass(slots=True)
class Scanned:
    """What a block holds."""

    records: list[Record]
    lines: int
    """Lines that end in this block."""
    size: int
    recognised: dict[int, int] = field(default_factory=dict)
    """Lines by pattern index."""
    problems: list[tuple[int, str]] = field(default_factory=list)
    """(line, what) for values that cannot be meant."""


class Scanner:
    """Scans blocks for the patterns of some packs; `calm` tells which weight updates need no evidence."""

    def __init__(self, packs: Sequence[Pack], calm: Calm = NEVER) -> None:
        self.packs = tuple(packs)
        self.calm = calm
        self.patterns: list[CompiledPattern] = compile_patterns(self.packs)
        self.pattern_names = [compiled.pattern.name for compiled in self.patterns]
        """`pack/pattern` by a record's pattern index."""
        needles, self.asked = needle_index(self.patterns)
        self.headers = HeaderReader(self.packs)
        self.shapes = Shapes()
        self.legs = frozenset(
            at for at, compiled in enumerate(self.patterns) if any(e.kind == "leg" for e in compiled.pattern.emit)
        )
        self.leg_pattern = min(self.legs, default=-1)
        self.leg_needle = self.patterns[self.leg_pattern].pattern.needles[0].encode() if self.legs else b""
        leg = needles.index(self.leg_needle) if self.legs else -1
        self.finder = finder(needles, leg, Heads(self.headers))
        """Lines of known shapes are found by the first needle of the leg pattern."""

    def learn(self, tail: bytes, trace: str, leg: str) -> None:
        """Remembers the shape of a leg line: `tail` from the needle on, without its newline."""
        if tail.startswith(self.leg_needle) and self.shapes.learn(tail, trace, leg):
            self.finder.know(self.shapes)

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
        self.records: list[Record] = []
        self.problems: list[tuple[int, str]] = []
        self.recognised: dict[int, int] = {}
        self.legs: list[HeldLeg] = []
        self.lines = Lines(data, scanner.headers)
        self.told: set[int] = set()
        """Where the lines begin that ended a silence."""
        self.known: Stamp | None = None
        self.known_until = 0
        self.known_mono: float | None = None
        self.ticks: list[tuple[int, int, float, str]] = []
        """First and last line that only `t=` dates: number, offset, monotonic seconds, text."""
        self.furthest: tuple[int, float, str] | None = None
        """The one among the last of these that is the latest: number, monotonic seconds, text."""
        self.found = scanner.finder.find(data)
        self.dated: list[Dated] = self.found.dated
        self.count = LineCount(data, self.found.newlines)

    def scan(self) -> Scanned:
        scanner, found = self.scanner, self.found
        asked, patterns, first_line = scanner.asked, scanner.patterns, self.line
        if found.taken:
            self.recognised[scanner.leg_pattern] = found.taken
        end = 0
        matched = True
        text = ""
        stamp: Stamp | None = None
        tried: set[int] = set()
        for at, to, needle, begin, stop, before, told, known_until, known in found.hits:
            if at >= end:
                self.line = first_line + before
                if told is None or begin < end:  # it may be a frame of a progress bar: those share a line
                    begin, end = self._between_returns(max(begin, end), stop, at, to)  # noqa: PLW2901
                    text, stamp = self._record(begin, end, at)
                else:
                    end, text = stop, told
                    stamp = scanner.headers.read(text)
                if known_until > self.known_until:  # a line of a known shape stands before this one
                    self.known_until, self.known = known_until, known
                matched = False
                tried.clear()
            elif matched or needle in tried:
                continue
            tried.add(needle)
            for index in asked[needle]:
                if self._match(patterns[index], text, stamp, begin, end, at):
                    matched = True
                    break
        self.line = first_line
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
            bare = _COLOURS.sub(b"", raw)
            raw = raw if b"\x1b" in bare else bare  # a colour may be what ends another sequence
        text = raw.decode("utf-8", "replace")
        if "\x1b" in text:
            text = ESCAPES.sub("", text)
        if "\x00" in text:
            text = text.replace("\x00", "")
        text = text.removeprefix(BOM)
        return text, self.scanner.headers.read(text)

    def _match(self, compiled: CompiledPattern, text: str, stamp: Stamp | None, begin: int, end: int, at: int) -> bool:
        """Reads the line with one pattern; False when it is not of this kind."""
        inner = text
        pattern = compiled.pattern
        own = stamp
        if "{" in text and (opening := json_begin(text)) >= 0:
            inner, own = text[opening:], None
            stamp = record_stamp(text, opening, self.scanner.headers)
            opened = opened_envelope(inner)
            if opened is not None and (pattern.style != "json" or opened[0].startswith("{")):
                inner = opened[0]
        elif stamp is None:
            stamp = self.scanner.headers.field(text)
        values = compiled.fields(inner)
        if values is None:
            return False
        index = compiled.index
        self.recognised[index] = self.recognised.get(index, 0) + 1
        problems: list[str] = []
        observations = compiled.observe(values, problems)
        if problems:
            self.problems.extend((self.line, problem) for problem in problems)
        if stamp is None and pattern.clock:
            stamp = compiled.clock(values)
        mono = compiled.mono(values) if pattern.mono else None
        inherits = stamp is None
        stamp = self._dated(begin, stamp)
        mono = self._ticked(begin, stamp, mono, text)
        self.known_until = end
        if index in self.scanner.legs:
            self._leg(index, observations, mono, stamp, begin, end, at, own, inherits)
            observations = [told for told in observations if told[0] != LEG]
        if observations or index not in self.scanner.legs:
            self.records.append((index, self.line, self.offset + begin, stamp, mono, observations, text))
        return True

    def _leg(
        self, index: int, observations: list[tuple[object, ...]], mono: float | None, stamp: Stamp | None,
        begin: int, end: int, at: int, own: Stamp | None, inherits: bool,
    ) -> None:  # fmt: skip
        """Keeps a leg until the block's are joined, and learns the shape and the head of its line."""
        for _, trace, leg, fields in (told for told in observations if told[0] == LEG):
            trace = trace or f"byte {self.offset + begin}"  # noqa: PLW2901 - the same line of a copied log has the same
            told: Cells = cells(leg, fields, mono)  # type: ignore[arg-type]  # LEG observations
            held = (*stamp, True) if inherits and stamp is not None and str(leg).startswith("client.") else stamp
            self.legs.append((begin, end, self.line, held, str(trace), told, index))
            if own is not None and stamp is own and index == self.scanner.leg_pattern:
                self.scanner.learn(self.data[at:end], str(trace), str(leg))

    def _dated(self, begin: int, stamp: Stamp | None) -> Stamp | None:
        """The stamp of a line, or that of the last dated line before it; None when that stands in an earlier block."""
        if stamp is None:
            found = self.lines.before(self.known_until, begin)
            if found is not None:
                self.dated.append(found)
                self.known = found[1]
        else:
            self.known = stamp
            self.dated.append((begin, stamp))
        return self.known

    def _ticked(self, begin: int, stamp: Stamp | None, mono: float | None, text: str) -> float | None:
        """Monotonic seconds of a line; in a log without dates those of the last line that has them count on."""
        if mono is None:
            return self.known_mono if stamp is None else None
        self.known_mono = mono
        if stamp is None:
            self.ticks[1:] = [(self.line, begin, mono, text[:_SHOWN])]
            if self.furthest is not None:
                line, latest, last = self.furthest
                if 0 < latest - mono < _RESTARTED_S and self.line - line <= LATE_LINES:
                    return mono  # it came late
                if mono - latest >= QUIET_S:
                    told: list[tuple[object, ...]] = [(None, latest), (self.line,)]
                    self.records.append((SILENCE, line, self.offset + begin, None, mono, told, last))
            self.furthest = (self.line, mono, text[:_SHOWN])
        return mono

    def _finish(self) -> Scanned:
        data = self.data
        size = len(data)
        self._tell_silences()
        self.records += self._updates()
        self.records.sort(key=_offset_of)
        return Scanned(self.records, self.count.lines, size, self.recognised, self.problems)

    def _updates(self) -> list[Record]:
        found, scanner = self.found, self.scanner
        if not self.legs:
            return found.join(self.line, self.offset, scanner.leg_pattern, scanner.calm)
        legs = [*found.legs(self.line, scanner.leg_pattern), *self.legs]
        return joined(legs, self.data, self.offset, scanner.calm)

    def _tell_silences(self) -> None:
        """Adds records for the first and last dated line and for each silence between."""
        anchors = [next(same) for _, same in groupby(sorted(self.dated), key=itemgetter(1))]
        tail = self.lines.before(anchors[-1][0] if anchors else 0, len(self.data))
        if tail is not None:
            anchors.append(tail)
        first = (self.lines.after(0, anchors[0][0]) or anchors[0]) if anchors else None
        if first is None:
            for kind, (line, begin, mono, text) in zip((HEAD, TAIL), (self.ticks[:1] + self.ticks[-1:]), strict=False):
                self.records.append((kind, line, self.offset + begin, None, mono, [], text))
            return
        self._tell(HEAD, first, [])
        if first[0] < anchors[0][0]:
            anchors.insert(0, first)
        before = last = first
        for anchor in anchors:
            if anchor is not tail and anchor[1][0] == before[1][0] and 0.0 <= anchor[1][1] - before[1][1] < QUIET_S:
                before = last = anchor  # nearly all
                continue
            last = until = anchor
            if is_behind(anchor[1], before[1]):
                if self.lines.is_late(anchor, before):
                    # Or the clock was set back, and has caught up: who compares it with others must hear of it.
                    self._tell(SILENCE, anchor, [(anchor[1], None)])
                    continue
                until = self.lines.latest(anchor, LATE_LINES)
            elif anchor is tail:
                until = self.lines.latest(anchor, _LOOKED_BACK)
            near = until[1][0] == before[1][0] and 0.0 <= until[1][1] - before[1][1] < QUIET_S
            for low, high in () if near else self._silences(anchors, before, until):
                if low[1][0] != high[1][0]:  # the clock must know both neighbours to say how they lie to each other
                    self._tell(SILENCE, low, [(low[1], None)])
                self._tell(SILENCE, high, [(low[1], None), (self._line_at(high[0]),)], low[0])
            before = until if is_behind(anchor[1], until[1]) and anchor is tail else anchor
        further: list[tuple[object, ...]] = []
        if is_behind(last[1], before[1]):
            further.append((before[1], self._line_at(before[0]), self._line_text(before[0])))
        self._tell(TAIL, last, further)

    def _silences(self, anchors: Sequence[Dated], before: Dated, until: Dated) -> list[tuple[Dated, Dated]]:
        """The silences between two dated lines, and those before them that the first one hid: it came late, behind a
        line that nobody had looked at."""
        found = self.lines.silences(before, until)
        if elapsed(before[1], until[1]) >= QUIET_S:
            ahead = self.lines.latest(before, LATE_LINES)
            at = bisect_left(anchors, ahead[0], key=itemgetter(0))
            if is_behind(before[1], ahead[1]) and at:
                found = self.lines.silences(anchors[at - 1], ahead) + found
        found = [silence for silence in found if silence[1][0] not in self.told]
        self.told.update(high[0] for _, high in found)
        return found

    def _tell(self, kind: int, dated: Dated, told: list[tuple[object, ...]], line_at: int | None = None) -> None:
        """A record that says when a line was printed; with the number and text of the line at `line_at`."""
        position = dated[0] if line_at is None else line_at
        self.records.append(
            (kind, self._line_at(position), self.offset + dated[0], dated[1], None, told, self._line_text(position))
        )

    def _line_at(self, position: int) -> int:
        """Line number of a position."""
        return self.line + self.count.before(position)

    def _line_text(self, position: int) -> str:
        """Of a progress bar its last frame."""
        begin, end = self.data.rfind(b"\n", 0, position) + 1, self.data.find(b"\n", position)
        raw = self.data[begin : len(self.data) if end < 0 else end].rstrip(b"\r")
        begin = raw.rfind(b"\r") + 1
        return ESCAPES.sub("", raw[begin : begin + _SHOWN].decode("utf-8", "replace"))
