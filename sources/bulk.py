"""Scans a big plain file with several processes: byte ranges, each cut at its lines, in order.

Scanning a block depends on its bytes alone (`perfmon.sources.scan`), so ranges give what the whole file gives.
"""

from __future__ import annotations

import gc
import marshal
import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from multiprocessing.context import BaseContext
from pathlib import Path

from .blocks import MAX_LINE
from .formats.schema import Pack
from .kinds import HEAD, bundle_in, compression_in, is_binary, utf16_in
from .scan import Scanned, Scanner

RANGE = 1 << 24
"""Bytes a task: small enough for a progress bar, for little memory and for cores that end together."""
LEAST = 1 << 25
"""Smaller files are quicker to scan at once."""
_READ = 1 << 21
"""Bytes a block: it stays in the cache of a core while it is searched."""
_LOOK = 1024

_scanner: Scanner | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """What a block of one range holds; line numbers count from the range's first line, which is 0."""

    scanned: Scanned
    line_base: int
    """What to add to the line numbers."""


class OddLineError(Exception):
    """A line too long for this way of reading: the caller reads the file the careful way."""


def splittable(path: Path) -> bool:
    """Whether a file is plain text and big enough to be worth several processes."""
    try:
        if not path.is_file() or path.stat().st_size < 2 * LEAST:
            return False
        with path.open("rb") as file:
            head = file.read(max(HEAD, 1 << 16))
    except OSError:
        return False
    return not (compression_in(head) or bundle_in(head) or is_binary(head) or utf16_in(head) or head[:1] == b"\xff")


def _context() -> BaseContext:
    """Forked workers share what is loaded already; where forking is not safe they start afresh."""
    return multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


def _start(packs: Sequence[Pack]) -> None:
    global _scanner  # noqa: PLW0603 - a worker process has one scanner
    gc.disable()  # records have no cycles, and looking for them costs more than scanning
    if _scanner is None:
        _scanner = Scanner(packs)


def _scan_range(path: str, start: int, end: int) -> bytes:
    """Marshalled (records, lines, size, recognised, problems) of the lines that begin in start..end, block by block."""
    scanner = _scanner
    if scanner is None:
        raise RuntimeError("worker was not started")
    blocks = []
    with open(path, "rb", buffering=0) as file:
        descriptor = file.fileno()
        position = _line_start(descriptor, start)
        line = 0
        while position < end:
            stop = _line_start(descriptor, min(position + _READ, end))
            data = os.pread(descriptor, stop - position, position)
            if not data:
                break  # the file was truncated meanwhile
            scanned = scanner.scan(data, position, line)
            blocks.append((scanned.records, scanned.lines, len(data), scanned.recognised, scanned.problems))
            position += len(data)
            line += scanned.lines
            del data, scanned  # the next block takes its place in memory, and in the cache
    return marshal.dumps(blocks)


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


class BulkScanner:
    """Worker processes that scan files in ranges; use it as a context manager."""

    def __init__(self, scanner: Scanner, jobs: int) -> None:
        global _scanner  # noqa: PLW0603 - forked workers inherit it
        _scanner = scanner
        self._jobs = jobs
        self._pool = ProcessPoolExecutor(jobs, mp_context=_context(), initializer=_start, initargs=(scanner.packs,))

    def __enter__(self) -> BulkScanner:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def scan(self, path: Path) -> Iterator[Piece]:
        """The file's pieces in order, the first in work already. Raises OddLineError where a line is too long."""
        size = path.stat().st_size
        starts = iter(range(0, size, RANGE))
        futures = deque(self._submit(path, start, size) for start in islice(starts, self._jobs + 2))
        return self._pieces(path, size, starts, futures)

    def _pieces(self, path: Path, size: int, starts: Iterator[int], futures: deque[Future[bytes]]) -> Iterator[Piece]:
        base = 1
        while futures:
            blocks = futures.popleft().result()
            futures.extend(self._submit(path, start, size) for start in islice(starts, 1))
            begin = base
            for block in marshal.loads(blocks):  # noqa: S302 - written by our own worker a moment ago
                scanned = Scanned(*block)
                base += scanned.lines
                yield Piece(scanned, begin)

    def _submit(self, path: Path, start: int, size: int) -> Future[bytes]:
        return self._pool.submit(_scan_range, str(path), start, min(size, start + RANGE))
