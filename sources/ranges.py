"""A big plain file in ranges of bytes, each cut at its lines."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from .blocks import MAX_LINE
from .columns import Heading
from .passing import Values, values
from .scan import Scanner

_READ = 1 << 20
"""Bytes a block: it stays in the cache of a core while it is searched."""
_PREPARED = 1 << 18
_LOOK = 1024
Found = tuple[list[Values], bool]
"""Of a range what each of its blocks holds, and whether the file ended before it."""


class OddLineError(Exception):
    """A line too long for this way of reading: the caller reads the file the careful way."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """A file in ranges."""

    scanner: Scanner
    path: Path
    starts: range
    size: int
    heading: Heading = field(default_factory=Heading)

    def prepare(self) -> None:
        """Lets the scanner learn from the first lines."""
        with open(self.path, "rb", buffering=0) as file:
            head = file.read(_PREPARED)
        self.heading.heed(head, 0, self.scanner.message)
        self.scanner.prepare(head)

    def scan(self, number: int) -> Found:
        """What one holds."""
        start = self.starts[number]
        return _scanned(self.scanner, self.heading, self.path, start, min(self.size, start + self.starts.step))


def _scanned(scanner: Scanner, heading: Heading, path: Path, start: int, end: int) -> Found:
    """(records, lines, size, recognised, problems) of the lines that begin in start..end, block by block.

    With whether the file ended before what `end` promises.
    """
    blocks: list[Values] = []
    cut = False
    with open(path, "rb", buffering=0) as file:
        descriptor = file.fileno()
        position = _line_start(descriptor, start)
        line = 0
        while position < end:
            stop = _line_start(descriptor, min(position + _READ, end))
            data = os.pread(descriptor, stop - position, position)
            cut = len(data) < stop - position or not data
            if not data:
                break
            scanned = scanner.scan(data, position, line, heading)
            blocks.append(values(scanned))
            position += len(data)
            line += scanned.lines
            del data, scanned  # the next block takes its place in memory, and in the cache
            if cut:
                break
    return blocks, cut


def _line_start(descriptor: int, start: int) -> int:
    """The first line's begin at or after `start`; end of file when there is none."""
    if start == 0:
        return 0
    position = start - 1
    size = _LOOK
    while True:
        chunk = os.pread(descriptor, size, position)
        found = chunk.find(b"\n")
        if found >= 0:
            return position + found + 1
        if not chunk:
            return position
        position += len(chunk)
        size = 1 << 16
        if position - start > MAX_LINE:
            raise OddLineError
