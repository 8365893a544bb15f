"""Scans a big plain file with several processes: byte ranges, each cut at its lines, in order.

Scanning a block depends on its bytes alone (`perfmon.sources.scan`), so ranges give what the whole file gives.
"""

from __future__ import annotations

import gc
import marshal
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from .blocks import MAX_LINE
from .kinds import HEAD, bundle_in, compression_in, is_binary, utf16_in
from .scan import Scanned, Scanner

RANGE = 1 << 23
"""Bytes a task: small enough for a progress bar, for little memory and for cores that end together."""
LEAST = 1 << 25
"""Smaller files are quicker to scan at once."""
_READ = 1 << 20
"""Bytes a block: it stays in the cache of a core while it is searched."""
_LOOK = 1024
_AHEAD = 1 << 20
"""Bytes that a worker may be ahead of what is taken from it."""
_SIZE = 8
_ODD = (1 << 63).to_bytes(_SIZE, "big")
"""In place of the size of a range's result: a line of it is too long."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What a block of one range holds; line numbers count from the range's first line, which is 0."""

    scanned: Scanned
    line_base: int
    """What to add to the line numbers."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The file was truncated while it was read: no piece comes after this one."""

    size: int
    """Bytes of it that were read."""


class OddLineError(Exception):
    """A line too long for this way of reading: the caller reads the file the careful way."""


def splittable(path: Path) -> bool:
    """Whether a file is plain text and big enough to be worth several processes, where these can be forked safely."""
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


def _scan_range(scanner: Scanner, path: Path, start: int, end: int) -> bytes:
    """Marshalled (records, lines, size, recognised, problems) of the lines that begin in start..end, block by block.

    With whether the file ended before what `end` promises.
    """
    blocks = []
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
            scanned = scanner.scan(data, position, line)
            blocks.append((scanned.records, scanned.lines, len(data), scanned.recognised, scanned.problems))
            position += len(data)
            line += scanned.lines
            del data, scanned  # the next block takes its place in memory, and in the cache
            if cut:
                break
    return marshal.dumps((blocks, cut))


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


class _Worker:
    """A forked process that scans every so manieth range, and the pipe on which its results come in order."""

    def __init__(self, work: Callable[[int], None], others: list[_Worker]) -> None:
        ours, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for end in (ours, *(other.results.fileno() for other in others)):
                os.close(end)  # else nobody tells this one, or an earlier one, when the reader is gone
            _do(work, theirs)
        os.close(theirs)
        self.results: BinaryIO = os.fdopen(ours, "rb", 1 << 16)

    def result(self) -> bytes | None:
        """What the next range holds; None when the worker died."""
        head = self.results.read(_SIZE)
        if head == _ODD:
            raise OddLineError
        size = int.from_bytes(head, "big")
        told = self.results.read(size) if len(head) == _SIZE else b""
        return told if told and len(told) == size else None

    def end(self) -> None:
        """Stops it, wherever it is."""
        self.results.close()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _do(work: Callable[[int], None], results: int) -> None:
    """Does the work of a worker and ends its process, whatever happens: what it shares with its parent is not its."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        with suppress(ImportError, AttributeError, OSError):
            import fcntl

            fcntl.fcntl(results, fcntl.F_SETPIPE_SZ, _AHEAD)
        gc.disable()  # records have no cycles, and looking for them costs more than scanning
        work(results)
    finally:
        os._exit(0)


class BulkScanner:
    """Worker processes that scan files in ranges; use it as a context manager."""

    def __init__(self, scanner: Scanner, jobs: int) -> None:
        self._scanner, self._jobs = scanner, jobs
        self._workers: list[_Worker] = []

    def __enter__(self) -> BulkScanner:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def scan(self, path: Path) -> Iterator[Piece | Cut]:
        """The file's pieces in order, the first in work already. Raises OddLineError where a line is too long."""
        size = path.stat().st_size
        starts = range(0, size, RANGE)
        self._end()
        for first in range(min(self._jobs, len(starts))):
            mine = starts[first :: self._jobs]
            self._workers.append(_Worker(partial(self._work, path, mine, size), self._workers))
        return self._pieces(path, starts, size)

    def _pieces(self, path: Path, starts: range, size: int) -> Iterator[Piece | Cut]:
        base, read = 1, 0
        for number, start in enumerate(starts):
            told = self._workers[number % len(self._workers)].result()
            if told is None:  # killed, for want of memory perhaps
                told = self._range(path, start, size)
            blocks, cut = marshal.loads(told)  # noqa: S302 - written by our own worker a moment ago
            begin = base
            for block in blocks:
                scanned = Scanned(*block)
                base += scanned.lines
                read += scanned.size
                yield Piece(scanned, begin)
            if cut:  # what other workers may have read behind the hole has no line numbers
                yield Cut(read)
                break
        self._end()

    def _range(self, path: Path, start: int, size: int) -> bytes:
        return _scan_range(self._scanner, path, start, min(size, start + RANGE))

    def _work(self, path: Path, starts: range, size: int, results: int) -> None:
        """What a worker does."""
        with os.fdopen(results, "wb", 0) as out:
            for start in starts:
                try:
                    told = self._range(path, start, size)
                except OddLineError:
                    _write(out, _ODD)
                    return
                _write(out, len(told).to_bytes(_SIZE, "big"))
                _write(out, told)

    def _end(self) -> None:
        for worker in self._workers:
            worker.end()
        self._workers = []


def _write(out: BinaryIO, told: bytes) -> None:
    left = memoryview(told)
    while left:
        left = left[out.write(left) :]
