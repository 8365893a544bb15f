"""Big plain files scanned by several processes: byte ranges, each cut at its lines, in order."""

from __future__ import annotations

import marshal
import os
import signal
import sys
from collections import deque
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from .blocks import MAX_LINE
from .scan.block_scanner import ScanResult
from .scan.scanner import Scanner
from .scan.tables import Heading
from .spec import HEAD, bundle_in, compression_in, is_binary, utf16_in

# --- A big plain file in ranges of bytes, each cut at its lines ---

_READ = 1 << 20
"""Bytes a block: it stays in the cache of a core while it is searched."""
_PREPARED = 1 << 18
_LOOK = 1024
Values = tuple[Any, ...]
"""Arguments of a `ScanResult`: plain values, which marshal takes."""
RangeResult = tuple[list[Values], bool]
"""The values of each block of a range, and whether the file ended before the end of the range."""


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
        """Let the scanner learn from the first lines."""
        with open(self.path, "rb", buffering=0) as file:
            head = file.read(_PREPARED)
        self.heading.take(head, 0, self.scanner.message)
        self.scanner.prepare(head)

    def scan(self, number: int) -> RangeResult:
        """Scan the lines that start in one range, block by block."""
        blocks: list[Values] = []
        position, line, cut = self.starts[number], 0, False
        end = min(self.size, position + self.starts.step)
        with open(self.path, "rb", buffering=0) as file:
            descriptor = file.fileno()
            position = _line_start(descriptor, position)
            while position < end and not cut:
                stop = _line_start(descriptor, min(position + _READ, end))
                data = os.pread(descriptor, stop - position, position)
                cut = len(data) < stop - position or not data
                if data:
                    scanned = self.scanner.scan(data, position, line, self.heading)
                    blocks.append((scanned.records, scanned.lines, scanned.size, scanned.recognised, scanned.problems))
                    position += len(data)
                    line += scanned.lines
                    del data, scanned  # the next block takes its place in memory, and in the cache
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


# --- Several processes, each with ranges of its own ---
#
# Scanning a block depends on its bytes alone, and on whether the file begins as a table, which is read before (see
# `perfmon.sources.scan.scanner` and `tables`), so ranges give the same as the whole file.

RANGE = 1 << 22
"""Bytes a task: small enough for a progress bar, for little memory and for cores that end together."""
LEAST = 1 << 25
"""Smaller files are quicker to scan at once."""
_AHEAD = 2
"""Ranges that each process may be ahead of what is taken."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The result of a block; line numbers count from the first line of its range, which is 0."""

    scanned: ScanResult
    line_base: int
    """Number to add to the line numbers."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The file was truncated while it was read: no piece comes after this one."""

    size: int
    """Bytes of it that were read."""


def splittable(path: Path) -> bool:
    """True if a file is plain text and big enough for several processes, and these can be forked safely."""
    if sys.platform != "linux":
        return False
    try:
        if not path.is_file() or path.stat().st_size < 2 * LEAST:
            return False
        with path.open("rb") as file:
            head = file.read(max(HEAD, 1 << 16))
    except OSError:
        return False
    return not (compression_in(head) or bundle_in(head) or is_binary(head) or utf16_in(head) or head[:1] == b"\xff")


class BulkScanner:
    """Scans files in ranges with `jobs` processes; use it as a context manager."""

    def __init__(self, scanner: Scanner, jobs: int) -> None:
        self._scanner, self._jobs = scanner, jobs
        self._pool: futures.ProcessPoolExecutor | None = None

    def __enter__(self) -> BulkScanner:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def scan(self, path: Path) -> Iterator[Piece | Cut]:
        """Return the file's pieces in order; work on the first starts now. Raises OddLineError for a line too long."""
        import multiprocessing

        size = path.stat().st_size
        ranges = Ranges(self._scanner, path, range(0, size, RANGE), size)
        self._end()
        ranges.prepare()  # what is learned now no process learns again
        fork = multiprocessing.get_context("fork")
        self._pool = futures.ProcessPoolExecutor(self._jobs, fork, _start_worker, (ranges,))
        todo = iter(range(len(ranges.starts)))
        first = deque(self._submitted(number) for number in islice(todo, _AHEAD * self._jobs))
        return self._pieces(ranges, first, todo)

    def _submitted(self, number: int) -> tuple[int, futures.Future[bytes] | None]:
        """A range in work; None where the processes have died."""
        try:
            return number, None if self._pool is None else self._pool.submit(_scan_range, number)
        except futures.BrokenExecutor:
            return number, None

    def _pieces(
        self, ranges: Ranges, window: deque[tuple[int, futures.Future[bytes] | None]], todo: Iterator[int]
    ) -> Iterator[Piece | Cut]:
        base, read = 1, 0
        while window:
            number, future = window.popleft()
            window.extend(self._submitted(number) for number in islice(todo, 1))
            try:
                blocks, cut = ranges.scan(number) if future is None else marshal.loads(future.result())  # noqa: S302
            except futures.BrokenExecutor:  # one was killed, for want of memory perhaps
                blocks, cut = ranges.scan(number)
            begin = base
            for block in blocks:
                scanned = ScanResult(*block)
                base += scanned.lines
                read += scanned.size
                yield Piece(scanned, begin)
            if cut:  # lines behind the hole have no numbers
                yield Cut(read)
                break
        self._end()

    def _end(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


_work: list[Ranges] = []
"""The ranges of a worker's file."""


def _start_worker(ranges: Ranges) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _work[:] = [ranges]


def _scan_range(number: int) -> bytes:
    return marshal.dumps(_work[0].scan(number))
