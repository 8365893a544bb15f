"""Chunks of the ring: whole lines of one log, with what is known of them without reading any."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from operator import itemgetter
from typing import NamedTuple

from perfmon.core import Block
from perfmon.sources import newlines

_CHUNK_BYTES = 500
_MARK_BYTES = 120
"""Bytes that Python needs for a mark in addition to the text; the size of the ring includes them."""
_at = itemgetter(0)
NEVER = -inf
"""The time of lines before the first clock of any log."""


class Bookmark(NamedTuple):
    """Line numbers and arrival of the lines of a chunk from one line on."""

    at: int
    """Lines of the chunk before it."""
    line: int
    """Number of the line in its file, from 1; 0 when lines are not counted."""
    arrival: int
    """Grows with everything that is appended to the buffer."""
    time: float
    """Time of arrival, if nothing else dates them; NEVER otherwise."""
    offset: int
    """Bytes of the file before it."""


@dataclass(slots=True, eq=False)
class Chunk:
    """Consecutive lines of one log. Times are seconds on that log's own axis, unless `free`.

    One that the buffer holds is never changed, as views of other threads hold it, too: another one takes its place.
    """

    serial: int
    """Different for every chunk, also for one that only grew."""
    data: bytes
    first: int
    """Ordinal of its first line: lines of this log that were appended before it, ever."""
    count: int
    """Lines that it holds."""
    marks: tuple[Bookmark, ...]
    base: float
    """No line of it is before this time in the merged order."""
    end: float
    """Nor after this one: the time of its last dated line, or of one after it, whichever is earlier."""
    near: float
    """The log's clock at its end: it resolves stamps without a date."""
    kind: int | None
    """Kind of the log's stamps."""
    mono: float | None
    """Seconds to add to a `t=`; None if that is unknown."""
    free: bool
    """No line of the log had a clock yet: its times are those of other logs when it arrived, on the run's axis."""
    arrived: int
    """Arrival of the last that was added to it."""

    @property
    def stop(self) -> int:
        """Ordinal after its last line."""
        return self.first + self.count

    @property
    def cost(self) -> int:
        """Bytes that it takes of the ring."""
        return len(self.data) + _CHUNK_BYTES + _MARK_BYTES * len(self.marks)

    def mark(self, at: int) -> Bookmark:
        """Return the bookmark that holds for its line `at`."""
        marks = self.marks
        return marks[0] if len(marks) == 1 else marks[bisect_right(marks, at, key=_at) - 1]

    def number(self, at: int) -> int:
        """Number of its line `at` in the file; 0 when lines are not counted."""
        mark = self.mark(at)
        return mark.line and mark.line + at - mark.at

    def lines_numbered(self, number: int) -> Iterator[int]:
        """Lines with this number in their file, the newest first: numbers start again after a rotation."""
        stop = self.count
        for mark in reversed(self.marks):
            if mark.line and mark.line <= number < mark.line + stop - mark.at:
                yield mark.at + number - mark.line
            stop = mark.at


def blocks(chunk: Chunk) -> Iterator[Block]:
    """Split a chunk into the blocks it was appended as; those that followed each other stay together."""
    rest = chunk.data
    stops = [*(mark.at for mark in chunk.marks[1:]), chunk.count]
    for mark, stop in zip(chunk.marks, stops, strict=True):
        *_, left = rest.split(b"\n", stop - mark.at) if stop < chunk.count else (b"",)
        yield Block(rest[: len(rest) - len(left)], mark.offset, mark.line)
        rest = left


def line_count(data: bytes) -> int:
    """Lines of `data`, an unfinished last one included."""
    return newlines(data) + (not data.endswith(b"\n"))


def pieces(data: bytes, size: int) -> list[bytes]:
    """Cut `data` at line ends into pieces of about `size` bytes; a longer line stays whole."""
    if len(data) <= size:
        return [data]
    cut: list[bytes] = []
    begin = 0
    while len(data) - begin > size:
        end = data.rfind(b"\n", begin, begin + size) + 1 or data.find(b"\n", begin + size) + 1 or len(data)
        cut.append(data[begin:end])
        begin = end
    if begin < len(data):
        cut.append(data[begin:])
    return cut
