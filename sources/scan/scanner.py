"""The scanner of one log: block by block, with what is kept between them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perfmon.core import HEAD, LOCAL, TAIL, Observation, Record

from ..formats.compiled import CompiledPattern, compile_patterns, needle_index
from ..formats.schema import Pack
from ..formats.timestamps import HeaderReader
from ..pollers.reading import PolledBlock
from .block_scanner import Block, ScanResult
from .search import Repeat, finder
from .tables import Heading
from .update_templates import NEVER, Calm, Heads, Shapes

# --- Finds the lines that mean something in a block of a log, and reads them ---
#
# One search finds the needles of all patterns; only the lines around a hit are decoded, dated and matched. Scanning a
# block depends on nothing but its bytes, and on the columns that the log's first lines name, so blocks of one file can
# be scanned in any process and in any order; dates and clocks that need the lines before are inferred afterwards
# (`perfmon.sources.clock`).


_ENDINGS = 64
_FIRST = (1 << 14, 1 << 18)
"""Bytes at the begin of a log from which it is learned how its lines look, one after the other."""
_ENDING_COLOURS = re.compile(rb"(?:\x1b\[[\d;]*m)+\Z")


class Scanner:
    """Scans blocks for the patterns of some packs; `calm` tells which weight updates need no evidence."""

    def __init__(self, packs: Sequence[Pack], calm: Calm = NEVER) -> None:
        self.packs = tuple(packs)
        self.calm = calm
        self.patterns: list[CompiledPattern] = compile_patterns(self.packs)
        self.pattern_names = [compiled.pattern.name for compiled in self.patterns]
        """`pack/pattern` by a record's pattern index."""
        needles, self.asked = needle_index(self.patterns)
        self.needle_numbers = {needle: number for number, needle in enumerate(needles)}
        self.groups: dict[str, int] = {}
        """Numbers of what lines say by the thousand."""
        self.said: list[list[Observation]] = []
        """What they say, by these numbers."""
        self.endings: dict[tuple[int, bool, bytes], None] = {}
        """How those end, with their needle: the last ones that were met."""
        self.headers = HeaderReader(self.packs)
        self.shapes = Shapes()
        self.legs = frozenset(
            at for at, compiled in enumerate(self.patterns) if any(e.kind == "leg" for e in compiled.pattern.emit)
        )
        self.frames = frozenset(at for at, compiled in enumerate(self.patterns) if compiled.pattern.frame)
        """Patterns of progress bars, whose frames may stand before a record on the same line."""
        self.row = next((one for one in self.patterns if one.pattern.style == "table"), None)
        """What reads the rows of logs that are tables."""
        self.leg_pattern = min(self.legs, default=-1)
        self.leg_needle = self.patterns[self.leg_pattern].pattern.needles[0].encode() if self.legs else b""
        leg = needles.index(self.leg_needle) if self.legs else -1
        self.prepared = False
        self.finder = finder(needles, leg, Heads(self.headers))
        """Lines of known shapes are found by the first needle of the leg pattern."""

    def prepare(self, data: bytes) -> None:
        """Learns how the lines of a log look from its first ones; what a block teaches is of use to those behind it."""
        self.prepared = True
        for size in _FIRST:
            self.scan(data[: data.rfind(b"\n", 0, size) + 1])

    def learn(self, tail: bytes, trace: str, leg: str) -> None:
        """Remembers the shape of a leg line: `tail` from the needle on, without its newline."""
        if tail.startswith(self.leg_needle) and self.shapes.learn(tail, trace, leg):
            self.finder.know(self.shapes)

    def repeat(
        self, compiled: CompiledPattern, text: str, data: bytes, begin: int, end: int, at: int, said: list[Observation]
    ) -> None:
        """Remembers how a line ends that says nothing but `said`, where it is sure to say it wherever it ends so."""
        needle = next((told for told in compiled.needles if data.startswith(told, at)), b"")
        number = self.needle_numbers.get(needle, -1)
        if number < 0 or b"\r" in data[begin:end] or end == len(data):
            return
        if any(index != compiled.index and self.patterns[index].may_fit(text) for index in self.asked[number]):
            return
        place, first = text.find(needle.decode()), compiled.begin_of(text)
        read = at - place + (first or 0)
        if first is None or first > place or read < begin or data[read:at] != text[first:place].encode():
            return
        start = begin + len(_ENDING_COLOURS.sub(b"", data[begin:read]))
        whole = start == begin
        start -= not whole  # whether a word begins there
        ending = (number, whole, data[start:end])
        if ending in self.endings:
            return
        if len(self.endings) >= _ENDINGS:
            self.endings.pop(next(iter(self.endings)))
        self.endings[ending] = None
        group = self.groups.setdefault(repr(said), len(self.groups))
        if group == len(self.said):
            self.said.append([*said])
        self.finder.repeat(Repeat(number, at - start, whole, data[read], data[start:end], compiled.index, group))

    def pattern_pack(self, index: int) -> str:
        """Pack id of a record's pattern index."""
        return self.patterns[index].pattern.pack

    def scan(self, data: bytes, offset: int = 0, line: int = 1, heading: Heading | None = None) -> ScanResult:
        """What `data` holds: whole lines, the first of them number `line` at byte `offset` of its file.

        `heading` is that of the log, where more than one block of it is scanned.
        """
        heading = heading or Heading()
        heading.heed(data, offset, self.message)
        if not self.prepared and len(data) > _FIRST[-1]:
            self.prepare(data)
        return Block(self, data, offset, line).scan(heading.columns)

    def message(self, text: str) -> str:
        """What a line says behind clocks and prefixes."""
        return self.headers.message(text)[0]


# --- What readings of pollers mean for a run: the patterns of format packs that name an area, asked without any text
# ---


class ReadingScanner:
    """Does for readings what a Scanner does for lines."""

    def __init__(self, patterns: Sequence[CompiledPattern]) -> None:
        self._by_area: dict[str, list[CompiledPattern]] = {}
        for compiled in patterns:
            if compiled.pattern.reading:
                self._by_area.setdefault(compiled.pattern.reading, []).append(compiled)

    def scan(self, block: PolledBlock) -> ScanResult:
        """What a block holds, as if its lines had been scanned."""
        stamp = None if block.at is None else (LOCAL, block.at)
        records: list[Record] = []
        scanned = ScanResult(records, len(block.readings), len(block.data))
        offset, number = block.offset, max(block.line, 1)
        texts = block.data.decode("utf-8", "replace").removesuffix("\n").split("\n")
        for text, reading in zip(texts, block.readings, strict=True):
            for compiled in self._by_area.get(reading.area, ()) if reading is not None else ():
                values = compiled.of_reading(block.host, reading) if reading is not None else None
                if values is not None:
                    problems: list[str] = []
                    said = compiled.observe(values, problems)
                    scanned.problems += [(number, problem) for problem in problems]
                    scanned.recognised[compiled.index] = scanned.recognised.get(compiled.index, 0) + 1
                    records.append((compiled.index, number, offset, stamp, None, said, text))
                    break
            offset, number = offset + len(text.encode()) + 1, number + 1
        if stamp is not None:
            last = number - 1, offset - len(texts[-1].encode()) - 1
            records.insert(0, (HEAD, max(block.line, 1), block.offset, stamp, None, [], texts[0]))
            records.append((TAIL, *last, stamp, None, [], texts[-1]))
        return scanned
