"""Finds the lines that mean something in a block of a log, and reads them.

One search finds the needles of all patterns; only the lines around a hit are decoded, dated and matched. Scanning a
block depends on nothing but its bytes, so blocks of one file can be scanned in any process and in any order; dates and
clocks that need the lines before are inferred afterwards (`perfmon.sources.timeline`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, repeat
from operator import itemgetter

from perfmon.model import HEAD, J_LINES, LEG, SILENCE, TAIL, Record, Stamp
from perfmon.text import ESCAPES

from .envelope import opened_envelope
from .formats.compiled import CompiledPattern, compile_patterns, needle_index
from .formats.headers import HeaderReader
from .formats.schema import Pack
from .heads import Heads
from .joining import Calm, Leg, cells, join
from .needles import Hit, NeedleSearch
from .numbering import Numbering
from .shapes import Cells, Shapes
from .silence import QUIET_S, Dated, Lines

_MAX_TEXT = 65536
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

    def __init__(self, packs: Sequence[Pack], calm: Calm | None = None) -> None:
        self.packs = tuple(packs)
        self.calm = calm
        self.patterns: list[CompiledPattern] = compile_patterns(self.packs)
        needles, self.asked = needle_index(self.patterns)
        self.headers = HeaderReader(self.packs)
        self.heads = Heads(self.headers)
        self.shapes = Shapes()
        self.legs = frozenset(
            at for at, compiled in enumerate(self.patterns) if any(e.kind == "leg" for e in compiled.pattern.emit)
        )
        self.leg_pattern = min(self.legs, default=-1)
        self.needle = self.patterns[self.leg_pattern].pattern.needles[0].encode() if self.legs else b""
        """The one by which lines of known shapes are found."""
        self.leg_needle = needles.index(self.needle) if self.legs else -1
        self.needles = NeedleSearch(needles, self.leg_needle)

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
        self.records: list[Record] = []
        self.problems: list[tuple[int, str]] = []
        self.recognised: dict[int, int] = {}
        self.legs: list[Leg] = []
        self.lines = Lines(data, scanner.headers)
        self.numbering = Numbering(b"", ())
        self.read: list[Leg] = []
        self.read_begins: list[int] = []
        self.known: Stamp | None = None
        self.known_until = 0
        self.known_mono: float | None = None
        self.dated: list[Dated] = []

    def scan(self) -> Scanned:
        data, scanner = self.data, self.scanner
        asked, patterns, first_line = scanner.asked, scanner.patterns, self.line
        returns = b"\r" in data
        end = 0
        matched = True
        text = ""
        stamp: Stamp | None = None
        tried: set[int] = set()
        for (at, to, needle), begin in self._hits():
            if at >= end:
                self.line = first_line + self.numbering.before[begin]
                begin = max(begin, end)  # noqa: PLW2901 - a frame of a progress bar ended in this line
                end = data.find(b"\n", to)
                if end < 0:
                    end = len(data)
                if returns:
                    begin, end = self._between_returns(begin, end, at, to)  # noqa: PLW2901
                text, stamp = self._record(begin, end, at)
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

    def _hits(self) -> list[tuple[Hit, int]]:
        """Hits with the begins of their lines, by position, after the lines of known shapes were read and left out."""
        scanner = self.scanner
        alone, hits = scanner.needles.find(self.data)
        begins, leg_begins = self._begins([hit[0] for hit in hits]), self._begins(alone)
        self.numbering = Numbering(self.data, {*begins, *leg_begins})
        read = self._read_legs(alone, leg_begins)
        hidden = [begin for hit, begin in zip(hits, begins, strict=True) if begin in read and hit[0] < read[begin][0]]
        for begin in hidden:  # what stands first in a line is asked first
            read.pop(begin, None)
        self._took({begin: leg for begin, (_, leg) in read.items()})
        left = [pair for pair in zip(hits, begins, strict=True) if pair[1] not in read]
        if len(read) < len(alone):
            size, number = len(scanner.needle), scanner.leg_needle
            left += [
                ((at, at + size, number), begin)
                for at, begin in zip(alone, leg_begins, strict=True)
                if begin not in read
            ]
            left.sort()
        return left

    def _begins(self, positions: Sequence[int]) -> list[int]:
        """Where the lines of these positions begin."""
        return [at + 1 for at in map(self.data.rfind, repeat(b"\n"), repeat(0), positions)]

    def _read_legs(self, needles: Sequence[int], begins: Sequence[int]) -> dict[int, tuple[int, Leg]]:
        """Lines of known shapes with the positions of their needles, by where they begin."""
        scanner, data = self.scanner, self.data
        if not scanner.shapes:
            return {}
        stamps = scanner.heads.stamps(data, begins, needles)
        found = [
            (begin, at, stamp) for begin, at, stamp in zip(begins, needles, stamps, strict=True) if stamp is not None
        ]
        ends = list(map(data.find, repeat(b"\n"), [at for _, at, _ in found]))
        if ends and ends[-1] < 0:
            found.pop()
            ends.pop()
        traces, told = scanner.shapes.read(
            map(data.__getitem__, map(slice, [at for _, at, _ in found], [end + 1 for end in ends]))
        )
        pattern, line, before = scanner.leg_pattern, self.line, self.numbering.before
        return {
            begin: (at, (begin, end, line + before[begin], stamp, trace, values, pattern))
            for (begin, at, stamp), end, trace, values in zip(found, ends, traces, told, strict=True)
            if values is not None
        }

    def _took(self, legs: dict[int, Leg]) -> None:
        """Counts the lines of known shapes; they date those that follow."""
        self.read = list(legs.values())
        self.read_begins = list(legs)
        self.legs += self.read
        before: Stamp | None = None
        last = 0
        for begin, _, _, stamp, *_ in self.read:
            if stamp is not before and stamp is not None:
                if before is not None:
                    self.dated.append((last, before))
                self.dated.append((begin, stamp))
                before = stamp
            last = begin
        if before is not None:
            self.dated.append((last, before))
        if legs:
            self.recognised[self.scanner.leg_pattern] = len(legs)

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
        return text, self.scanner.headers.read(text)

    def _match(self, compiled: CompiledPattern, text: str, stamp: Stamp | None, begin: int, end: int, at: int) -> bool:
        """Reads the line with one pattern; False when it is not of this kind."""
        inner = text
        pattern = compiled.pattern
        own = stamp
        if text.startswith("{") and pattern.style != "json":
            opened = opened_envelope(text)
            if opened is not None:
                inner, stamp = opened
        values = compiled.fields(inner)
        if values is None:
            return False
        index = compiled.index
        self.recognised[index] = self.recognised.get(index, 0) + 1
        problems: list[str] = []
        observations = compiled.observe(values, problems)
        if problems:
            self.problems.extend((self.line, problem) for problem in problems)
        if pattern.clock:
            stamp = compiled.clock(values) or stamp
        mono = compiled.mono(values) if pattern.mono else None
        stamp = self._dated(begin, stamp)
        mono = self._ticked(begin, stamp, mono)
        self.known_until = end
        if index in self.scanner.legs:
            self._leg(index, observations, mono, stamp, begin, end, at, own)
            observations = [told for told in observations if told[0] != LEG]
        if observations or index not in self.scanner.legs:
            self.records.append((index, self.line, self.offset + begin, stamp, mono, observations, text))
        return True

    def _leg(
        self, index: int, observations: list[tuple[object, ...]], mono: float | None, stamp: Stamp | None,
        begin: int, end: int, at: int, own: Stamp | None,
    ) -> None:  # fmt: skip
        """Keeps a leg until the block's are joined, and learns the shape and the head of its line."""
        for _, trace, leg, fields in (told for told in observations if told[0] == LEG):
            trace = trace or f"byte {self.offset + begin}"  # noqa: PLW2901 - the same line of a copied log has the same
            told: Cells = cells(leg, fields, mono)  # type: ignore[arg-type]  # LEG observations
            self.legs.append((begin, end, self.line, stamp, str(trace), told, index))
            if own is not None and stamp is own and index == self.scanner.leg_pattern:
                self.scanner.shapes.learn(self.data[at:end], str(trace), str(leg))

    def _dated(self, begin: int, stamp: Stamp | None) -> Stamp | None:
        """The stamp of a line, or that of the last dated line before it; None when that stands in an earlier block."""
        self._catch_up(begin)
        if stamp is None:
            found = self.lines.before(self.known_until, begin)
            if found is not None:
                self.dated.append(found)
                self.known = found[1]
        else:
            self.known = stamp
            self.dated.append((begin, stamp))
        return self.known

    def _catch_up(self, begin: int) -> None:
        """Takes note of the last line of a known shape before `begin`."""
        at = bisect_right(self.read_begins, begin) - 1
        if at >= 0 and self.read[at][1] > self.known_until:
            _, self.known_until, _, self.known, *_ = self.read[at]

    def _ticked(self, begin: int, stamp: Stamp | None, mono: float | None) -> float | None:
        """Monotonic seconds of a line; in a log without dates those of the last line that has them count on."""
        if mono is None:
            return self.known_mono if stamp is None else None
        before, self.known_mono = self.known_mono, mono
        if stamp is None and before is not None and mono - before >= QUIET_S:
            self.records.append((SILENCE, self.line, self.offset + begin, None, mono, [(None, before)], ""))
        return mono

    def _finish(self) -> Scanned:
        data = self.data
        size = len(data)
        self._tell_silences()
        for index, trace, joined in join(self.legs, data, self.offset, self.scanner.calm):
            line, offset, text = joined[J_LINES][-1]
            self.records.append((index, line, offset, None, None, [(LEG, trace, joined)], text))
        self.records.sort(key=_offset_of)
        return Scanned(self.records, self.numbering.count, size, self.recognised, self.problems)

    def _tell_silences(self) -> None:
        """Adds records for the first and last dated line and for each silence between."""
        anchors = [next(same) for _, same in groupby(sorted(self.dated), key=itemgetter(1))]
        tail = self.lines.before(anchors[-1][0] if anchors else 0, len(self.data))
        if tail is not None:
            anchors.append(tail)
        first = self.lines.after(0, anchors[0][0] if anchors else len(self.data)) or (anchors[0] if anchors else None)
        if first is None:
            return
        self._tell(HEAD, first, [])
        before = first
        for anchor in anchors:
            for low, high in self.lines.silences(before, anchor):
                self._tell(SILENCE, high, [(low[1], None)], low[0])
            before = anchor
        self._tell(TAIL, before, [])

    def _tell(self, kind: int, dated: Dated, told: list[tuple[object, ...]], line_at: int | None = None) -> None:
        """A record that says when a line was printed; with the number and text of the line at `line_at`."""
        position = dated[0] if line_at is None else line_at
        self.records.append(
            (kind, self._line_at(position), self.offset + dated[0], dated[1], None, told, self._line_text(position))
        )

    def _line_at(self, position: int) -> int:
        """Line number of a position."""
        return self.line + self.numbering.at(position)

    def _line_text(self, position: int) -> str:
        end = self.data.find(b"\n", position)
        raw = self.data[position : min(len(self.data) if end < 0 else end, position + 400)]
        return ESCAPES.sub("", raw.decode("utf-8", "replace"))
