"""What readings of pollers mean for a run: the patterns of format packs that name an area, asked without any text."""

from __future__ import annotations

from collections.abc import Sequence

from perfmon.model import HEAD, LOCAL, TAIL, Record

from .formats.compiled import CompiledPattern
from .polls.reading import PolledBlock
from .scan import Scanned


class ReadingScanner:
    """Does for readings what a Scanner does for lines."""

    def __init__(self, patterns: Sequence[CompiledPattern]) -> None:
        self._by_area: dict[str, list[CompiledPattern]] = {}
        for compiled in patterns:
            if compiled.pattern.reading:
                self._by_area.setdefault(compiled.pattern.reading, []).append(compiled)

    def scan(self, block: PolledBlock) -> Scanned:
        """What a block holds, as if its lines had been scanned."""
        stamp = None if block.at is None else (LOCAL, block.at)
        records: list[Record] = []
        scanned = Scanned(records, len(block.readings), len(block.data))
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
