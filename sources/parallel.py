"""Big plain files scanned by several processes: byte ranges, each cut at its lines, in order."""

from __future__ import annotations

import marshal
import os
import select
import signal
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from io import FileIO
from pathlib import Path
from typing import IO, Any

from .blocks import MAX_LINE
from .scan.block_scanner import ScanResult
from .scan.scanner import Scanner
from .scan.tables import Heading
from .spec import HEAD, bundle_in, compression_in, is_binary, utf16_in

# --- What processes that scan hand to the one that takes what they found ---

Values = tuple[Any, ...]
"""What `Scanned(*values)` is made of: plain values, which marshal takes."""


def values(scanned: ScanResult) -> Values:
    """What a block holds, to be handed over."""
    return scanned.records, scanned.lines, scanned.size, scanned.recognised, scanned.problems


def packed(what: Any) -> bytes:
    """Plain values, for a pipe between processes of one perfmon."""
    return marshal.dumps(what)


def unpacked(told: bytes) -> Any:
    """What was packed; only for bytes of a process that this one started."""
    return marshal.loads(told)  # noqa: S302


def write_all(pipe: IO[bytes], data: bytes) -> None:
    """Writes to a pipe without a buffer, however little it takes at once."""
    left = memoryview(data)
    while left:
        left = left[pipe.write(left) :]


# --- A big plain file in ranges of bytes, each cut at its lines ---

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
        self.heading.take(head, 0, self.scanner.message)
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


# --- Scans a big plain file with several processes: byte ranges, each cut at its lines, in order ---
#
# Scanning a block depends on its bytes alone, and on whether the file begins as a table, which is seen before (see
# `perfmon.sources.scan.scanner` and `columns`), so ranges give what the whole file gives. Whoever has nothing else to
# do takes the next range, the process that takes what was found too: what it scans itself need not go through a pipe,
# and there is no more to do at once than there are cores.

RANGE = 1 << 22
"""Bytes a task: small enough for a progress bar, for little memory and for cores that end together."""
LEAST = 1 << 25
"""Smaller files are quicker to scan at once."""
_MOST_RANGES = 1 << 13
"""Their numbers are in a pipe from the start, which holds 64 KiB."""
_AHEAD = 1 << 20
"""Bytes that a worker may be ahead of what is taken from it."""
_MOST_MINE = 2
"""Ranges that were scanned here and wait for those before them."""
_NUMBER, _HEAD = struct.Struct("=I"), struct.Struct("=IQ")
"""A range's number; and before what it holds its number and how many bytes that takes."""
_ODD = (1 << 64) - 1
"""In place of the size of a range's result: a line of it is too long."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What a block of one range holds; line numbers count from the range's first line, which is 0."""

    scanned: ScanResult
    line_base: int
    """What to add to the line numbers."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The file was truncated while it was read: no piece comes after this one."""

    size: int
    """Bytes of it that were read."""


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


class _Todo:
    """The numbers of the ranges that nobody has taken yet, the lowest first: all processes read them from one pipe."""

    def __init__(self, count: int) -> None:
        self._left, numbers = os.pipe()
        os.write(numbers, b"".join(map(_NUMBER.pack, range(count))))
        os.close(numbers)

    def take(self) -> int | None:
        """The next one; None when there is none."""
        told = os.read(self._left, _NUMBER.size)
        return int(_NUMBER.unpack(told)[0]) if told else None

    def close(self) -> None:
        """Lets go of it, in this process."""
        os.close(self._left)


class _Worker:
    """A forked process that scans ranges, and the pipe on which its results come by their numbers."""

    def __init__(self, work: Callable[[int], None], others: list[_Worker]) -> None:
        ours, theirs = os.pipe()
        self.last = -1
        """The number of the range that came last from it."""
        self.pid = os.fork()
        if self.pid == 0:
            for end in (ours, *(other.results.fileno() for other in others)):
                os.close(end)  # else nobody tells this one, or an earlier one, when the reader is gone
            _do(work, theirs)
        os.close(theirs)
        self.results: FileIO = os.fdopen(ours, "rb", 0)

    def result(self) -> bytes | None:
        """What the next of its ranges holds, marshalled; None when there is none, or the worker died."""
        head = self._read(_HEAD.size)
        if head is None:
            return None
        number, size = _HEAD.unpack(head)
        if size == _ODD:
            raise OddLineError
        told = self._read(size)
        self.last = self.last if told is None else number
        return told

    def _read(self, size: int) -> bytes | None:
        held = bytearray(size)
        left = memoryview(held)
        while left:
            got = self.results.readinto(left)
            if not got:
                return None
            left = left[got:]
        return bytes(held)

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
        work(results)
    finally:
        os._exit(0)


class BulkScanner:
    """Scans files in ranges with `jobs` processes, of which this is one; use it as a context manager."""

    def __init__(self, scanner: Scanner, jobs: int) -> None:
        self._scanner, self._jobs = scanner, jobs
        self._workers: list[_Worker] = []
        self._todo: _Todo | None = None

    def __enter__(self) -> BulkScanner:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def scan(self, path: Path) -> Iterator[Piece | Cut]:
        """The file's pieces in order, the first in work already. Raises OddLineError where a line is too long."""
        size = path.stat().st_size
        starts = range(0, size, max(RANGE, -(-size // _MOST_RANGES)))
        self._end()
        ranges = Ranges(self._scanner, path, starts, size)
        ranges.prepare()  # what is learned now no process learns again
        self._todo = todo = _Todo(len(starts))
        for _ in range(1, min(self._jobs, len(starts))):
            self._workers.append(_Worker(partial(_work, ranges, todo), self._workers))
        return self._pieces(_InOrder(ranges, todo, self._workers), len(starts))

    def _pieces(self, ranges: _InOrder, count: int) -> Iterator[Piece | Cut]:
        base, read = 1, 0
        for number in range(count):
            blocks, cut = ranges.found(number)
            begin = base
            for block in blocks:
                scanned = ScanResult(*block)
                base += scanned.lines
                read += scanned.size
                yield Piece(scanned, begin)
            if cut:  # what was read behind the hole has no line numbers
                yield Cut(read)
                break
        self._end()

    def _end(self) -> None:
        for worker in self._workers:
            worker.end()
        self._workers = []
        if self._todo is not None:
            self._todo.close()
            self._todo = None


def _work(ranges: Ranges, todo: _Todo, results: int) -> None:
    """What a worker does."""
    with os.fdopen(results, "wb", 0) as out:
        while (number := todo.take()) is not None:
            try:
                told = packed(ranges.scan(number))
            except OddLineError:
                write_all(out, _HEAD.pack(number, _ODD))
                return
            write_all(out, _HEAD.pack(number, len(told)))
            write_all(out, told)


class _InOrder:
    """What the ranges of a file hold, in their order, whoever scans them."""

    def __init__(self, ranges: Ranges, todo: _Todo, workers: Sequence[_Worker]) -> None:
        self._ranges, self._todo = ranges, todo
        self._living = {worker.results.fileno(): worker for worker in workers}
        self._mine: dict[int, Found] = {}
        self._theirs: dict[int, bytes] = {}

    def found(self, number: int) -> Found:
        """What the range of this number holds; they are asked for one after the other."""
        while True:
            self._collect(0)
            if number in self._mine:
                return self._mine.pop(number)
            if number in self._theirs:
                told: Found = unpacked(self._theirs.pop(number))
                return told
            next_one = self._todo.take() if len(self._mine) < _MOST_MINE else None
            if next_one is not None and next_one != number:
                self._mine[next_one] = self._ranges.scan(next_one)
            elif next_one is not None or all(worker.last > number for worker in self._living.values()):
                return self._ranges.scan(
                    number
                )  # if it was taken, then by one that was killed, for want of memory perhaps
            else:
                self._collect(None)

    def _collect(self, patience_ms: int | None) -> None:
        """Takes what workers have found; waits for some of it at most so long (None: as long as it takes)."""
        poll = select.poll()
        for end in self._living:
            poll.register(end, select.POLLIN)
        for end, _ in poll.poll(patience_ms) if self._living else ():
            told = self._living[end].result()
            if told is None:
                del self._living[end]
            else:
                self._theirs[self._living[end].last] = told
