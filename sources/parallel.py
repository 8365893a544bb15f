"""Big plain files scanned by several processes: byte ranges, each cut at its lines, in order."""

from __future__ import annotations

import marshal
import os
import select
import signal
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any

from .blocks import MAX_LINE
from .scan import Heading, Scanner, ScanResult
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


def usable_cores() -> int:
    """Processor cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


class UnsplittableError(Exception):
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
                    counts = scanned.lines, scanned.size, scanned.recognised
                    blocks.append((scanned.records, *counts, scanned.problems, scanned.slow))
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
            raise UnsplittableError


# --- Several processes, each with ranges of its own ---
#
# Scanning a block depends on its bytes alone, and on whether the file begins as a table, which is read before (see
# `perfmon.sources.scan.scanner` and `tables`), so ranges give the same as the whole file. A free process takes the
# next range, this process too: it needs no pipe, and no more processes are at work than there are cores. A pool of
# the standard library takes 1.4 times as long: it adds a process that only waits, threads, and its own start.

RANGE = 1 << 22
"""Bytes a task: small enough for a progress bar, for little memory and for cores that end together."""
LEAST = 1 << 25
"""Smaller files are quicker to scan at once."""
_MOST_RANGES = 1 << 13
"""Their numbers are in a pipe from the start, which holds 64 KiB."""
_AHEAD = 1 << 20
"""Bytes of results that a worker may be ahead of what is taken from it."""
_MOST_OWN = 2
"""Ranges that were scanned in this process and wait for earlier ones."""
_NUMBER, _HEAD = struct.Struct("=I"), struct.Struct("=IQ")
"""The number of a range; and the head of its result: number, size in bytes."""
_TOO_LONG = (1 << 64) - 1
"""In place of the size of a result: a line of the range is too long."""


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


class _Pending:
    """The numbers of the ranges that are not taken yet, the lowest first: all processes read them from one pipe."""

    def __init__(self, count: int) -> None:
        self._left, numbers = os.pipe()
        os.write(numbers, b"".join(map(_NUMBER.pack, range(count))))
        os.close(numbers)

    def take(self) -> int | None:
        """Return the next one; None if there is none."""
        number = os.read(self._left, _NUMBER.size)
        return int(_NUMBER.unpack(number)[0]) if number else None

    def close(self) -> None:
        """Close the pipe in this process."""
        os.close(self._left)


class _Worker:
    """A forked process that scans ranges, and the pipe on which their results come in the order of their numbers."""

    def __init__(self, ranges: Ranges, pending: _Pending, others: list[_Worker]) -> None:
        reader, writer = os.pipe()
        self.last = -1
        """The number of the last range that came."""
        self.pid = os.fork()
        if self.pid == 0:
            for end in (reader, *(other.results.fileno() for other in others)):
                os.close(end)  # else an earlier one does not notice that the reader is gone
            _run_worker(ranges, pending, writer)
        os.close(writer)
        self.results: FileIO = os.fdopen(reader, "rb", 0)

    def result(self) -> bytes | None:
        """Return the next result, marshalled; None if there is none or the process died. Raises UnsplittableError."""
        head = self._read(_HEAD.size)
        if head is None:
            return None
        number, size = _HEAD.unpack(head)
        if size == _TOO_LONG:
            raise UnsplittableError
        result = self._read(size)
        self.last = self.last if result is None else number
        return result

    def _read(self, size: int) -> bytes | None:
        read = bytearray(size)
        left = memoryview(read)
        while left:
            got = self.results.readinto(left)
            if not got:
                return None
            left = left[got:]
        return bytes(read)

    def end(self) -> None:
        """Stop the process."""
        self.results.close()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _run_worker(ranges: Ranges, pending: _Pending, writer: int) -> None:
    """Scan ranges and end the process, whatever happens: what it shares with its parent is the parent's."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        with suppress(ImportError, AttributeError, OSError):
            import fcntl

            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _AHEAD)
        while (number := pending.take()) is not None:
            try:
                result = marshal.dumps(ranges.scan(number))
            except UnsplittableError:
                os.write(writer, _HEAD.pack(number, _TOO_LONG))
                break
            for data in (_HEAD.pack(number, len(result)), result):
                left = memoryview(data)
                while left:
                    left = left[os.write(writer, left) :]
    finally:
        os._exit(0)


class BulkScanner:
    """Scans files in ranges with `jobs` processes, of which this is one; use it as a context manager."""

    def __init__(self, scanner: Scanner, jobs: int) -> None:
        self._scanner, self._jobs = scanner, jobs
        self._workers: list[_Worker] = []
        self._pending: _Pending | None = None

    def __enter__(self) -> BulkScanner:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def scan(self, path: Path) -> Iterator[Piece | Cut]:
        """Return the file's pieces in order; work on the first starts now. Raises UnsplittableError (line too long)."""
        size = path.stat().st_size
        starts = range(0, size, max(RANGE, -(-size // _MOST_RANGES)))
        self._end()
        ranges = Ranges(self._scanner, path, starts, size)
        ranges.prepare()  # what is learned now no process learns again
        self._pending = pending = _Pending(len(starts))
        for _ in range(1, min(self._jobs, len(starts))):
            self._workers.append(_Worker(ranges, pending, self._workers))
        return self._pieces(_InOrder(ranges, pending, self._workers), len(starts))

    def _pieces(self, ranges: _InOrder, count: int) -> Iterator[Piece | Cut]:
        base, read = 1, 0
        for number in range(count):
            blocks, cut = ranges.result(number)
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
        for worker in self._workers:
            worker.end()
        self._workers = []
        if self._pending is not None:
            self._pending.close()
            self._pending = None


class _InOrder:
    """The results of all ranges in order, whichever process scans them."""

    def __init__(self, ranges: Ranges, pending: _Pending, workers: list[_Worker]) -> None:
        self._ranges, self._pending = ranges, pending
        self._workers = {worker.results.fileno(): worker for worker in workers}
        self._own: dict[int, RangeResult] = {}
        self._theirs: dict[int, bytes] = {}

    def result(self, number: int) -> RangeResult:
        """Return the result of a range; to be called with one number after the other."""
        while True:
            self._collect(0)
            if number in self._own:
                return self._own.pop(number)
            if number in self._theirs:
                blocks, cut = marshal.loads(self._theirs.pop(number))  # noqa: S302 - of a process of this one
                return blocks, cut
            free = self._pending.take() if len(self._own) < _MOST_OWN else None
            if free is not None and free != number:
                self._own[free] = self._ranges.scan(free)
            elif free is not None or all(worker.last > number for worker in self._workers.values()):
                return self._ranges.scan(number)  # it is free, or was taken by a process that was killed
            else:
                self._collect(None)

    def _collect(self, timeout_ms: int | None) -> None:
        """Take the results that have come; wait for one at most so long (None: for ever)."""
        poll = select.poll()
        for end in self._workers:
            poll.register(end, select.POLLIN)
        for end, _ in poll.poll(timeout_ms) if self._workers else ():
            result = self._workers[end].result()
            if result is None:
                del self._workers[end]
            else:
                self._theirs[self._workers[end].last] = result
