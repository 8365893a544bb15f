"""The scanners of logs and of pollers' readings, block by block."""

from __future__ import annotations

from collections.abc import Sequence

from perfmon.core import HEAD, LOCAL, TAIL, Record

from ..formats.compiled import CompiledPattern
from ..pollers.reading import PolledBlock
from .block_scanner import BlockScanner, ScanResult
from .search import PatternSet
from .tables import Heading

_FIRST = (1 << 14, 1 << 18)
"""Bytes at the begin of a log from which the format of its lines is learned, one after the other."""


class Scanner(PatternSet):
    """Finds and reads the lines of a log that patterns know.

    One search finds the needles of all patterns; only the lines around a hit are decoded, dated and matched. The result
    depends on nothing but the bytes of a block and the columns that the log's first lines name, so blocks of one file
    can be scanned in any process and in any order; dates and clocks that need the lines before are inferred afterwards
    (`perfmon.sources.clock`).
    """

    prepared = False

    def prepare(self, data: bytes) -> None:
        """Learn from the first lines of a log, for the speed of the blocks behind them."""
        self.prepared = True
        for size in _FIRST:
            self.scan(data[: data.rfind(b"\n", 0, size) + 1])

    def scan(self, data: bytes, offset: int = 0, line: int = 1, heading: Heading | None = None) -> ScanResult:
        """The contents of `data`: whole lines, the first of them number `line` at byte `offset` of its file.

        `heading` is that of the log, where more than one block of it is scanned.
        """
        heading = heading or Heading()
        heading.take(data, offset, self.message)
        if not self.prepared and len(data) > _FIRST[-1]:
            self.prepare(data)
        return BlockScanner(self, data, offset, line).scan(heading.columns)


class ReadingScanner:
    """Reads readings of pollers by the patterns that name an area, without any text."""

    def __init__(self, patterns: Sequence[CompiledPattern]) -> None:
        self._by_area: dict[str, list[CompiledPattern]] = {}
        for compiled in patterns:
            if compiled.pattern.reading:
                self._by_area.setdefault(compiled.pattern.reading, []).append(compiled)

    def scan(self, block: PolledBlock) -> ScanResult:
        """The contents of a block, as if its lines had been scanned."""
        stamp = None if block.at is None else (LOCAL, block.at)
        records: list[Record] = []
        scanned = ScanResult(records, len(block.readings), len(block.data))
        offset, number = block.offset, max(block.line, 1)
        texts = block.data.decode("utf-8", "replace").removesuffix("\n").split("\n")
        for text, reading in zip(texts, block.readings, strict=True):
            for compiled in self._by_area.get(reading.area, ()) if reading is not None else ():
                values = compiled.of_reading(block.host, reading) if reading is not None else None
                if values is not None:
                    observations = scanned.observe(compiled, values, number)
                    records.append((compiled.index, number, offset, stamp, None, observations, text))
                    break
            offset, number = offset + len(text.encode()) + 1, number + 1
        if stamp is not None:
            last = number - 1, offset - len(texts[-1].encode()) - 1
            records.insert(0, (HEAD, max(block.line, 1), block.offset, stamp, None, [], texts[0]))
            records.append((TAIL, *last, stamp, None, [], texts[-1]))
        return scanned
