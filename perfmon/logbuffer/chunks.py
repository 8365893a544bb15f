"""Chunks of the ring: whole lines of one log, what is known of them without reading any, and the times of lines."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import islice
from math import inf
from operator import itemgetter
from typing import NamedTuple

from perfmon.core import DAYTIME, EPOCH, ESCAPES, LOCAL, UPTIME, YEARLESS, Block, Stamp
from perfmon.sources import newlines
from perfmon.sources.formats import Pack

from .lines import RAW_CAP, last_frame, ticks

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


# --- The time of each line of a chunk, and its place in the merged order; computed page by page, from the end ---

_PAGE = 16
"""Lines of a page: few are read to place one line, and of many pages only the last line of each."""
_HEAD_BYTES = 400
_DAY = 86400.0
_SAME_DAY_S = 3600.0
"""Clocks that are no further apart date the lines before them alike."""
_PERIODS = {DAYTIME: _DAY, YEARLESS: 366 * _DAY}


class LineTimer:
    """Reads the times of lines; used by one thread."""

    def __init__(self, packs: Sequence[Pack]) -> None:
        # Imported late: a screen without any line starts without what reads headers.
        from perfmon.sources.formats import HeaderReader
        from perfmon.sources.scan import read_line

        self._headers, self._read_line = HeaderReader(packs), read_line

    def time(self, chunk: Chunk, text: str) -> float | None:
        """Return seconds on the log's own axis; None for a line without a clock."""
        if chunk.kind is not None:
            stamp = self._read_line(text, self._headers)
            if stamp is not None:
                return _placed(stamp, chunk.kind, chunk.near)
        elif chunk.mono is not None:
            stamp = self._read_line(text, self._headers)
            if stamp is not None and stamp[0] == UPTIME:
                return stamp[1] + chunk.mono
        if chunk.mono is None:
            return None
        mono = ticks(text)
        return None if mono is None else mono + chunk.mono


def _placed(stamp: Stamp, kind: int, near: float) -> float | None:
    """Put a stamp on the axis of a log whose stamps are of `kind`, at most half a period from `near`."""
    own, seconds = stamp
    if own in (EPOCH, LOCAL):
        return seconds if kind in (EPOCH, LOCAL) else None
    if own not in (kind, DAYTIME) or own == UPTIME:
        return None
    period = _PERIODS[own]
    return seconds + round((near - seconds) / period) * period


class Index:
    """The lines of one chunk.

    Within a chunk the order of the lines is never changed: a line is placed no later than any that follows it, and a
    line without a clock where the one before it is. Mostly the newest lines are requested: no line is read before
    their page.
    """

    def __init__(self, chunk: Chunk, timer: LineTimer, before: Index | None = None) -> None:
        """`before` is the index of what may be the same chunk before it grew: the times of its lines are kept."""
        self.chunk = chunk
        grown = before if before is not None and _grew(before.chunk, chunk) else None
        self._timer = timer
        self._stops = array("q", [len(chunk.data) - chunk.data.endswith(b"\n")])
        """Ends of lines, the last one first, as far as requested."""
        self._times: dict[int, float | None] = {} if grown is None else grown._times
        self._ends: list[float] = []
        """Ends of pages, the last page first, as far as requested."""
        self._last_by_page: dict[int, float] = {}
        """The last time in or before a page."""
        self._old_pages: dict[int, tuple[float, list[float]]] = {}
        """Those of the chunk before it grew: of a page between the same times they hold on."""
        if grown is not None and grown.chunk.base == chunk.base:
            full = grown.chunk.count // _PAGE
            self._last_by_page = {page: time for page, time in grown._last_by_page.items() if page < full}
            self._old_pages = {page: keys for page, keys in grown._pages.items() if page < full}
        self._pages: dict[int, tuple[float, list[float]]] = {}
        """Starts and ends of pages, then the places of their lines, the last one first, as far as requested."""
        self._arrived = {mark.at: mark.time for mark in chunk.marks if mark.time > NEVER}

    def raw(self, at: int) -> bytes:
        """Return line `at` without its newline, at most RAW_CAP bytes of it; of the frames of a longer one the last."""
        data, stops, back = self.chunk.data, self._stops, self.chunk.count - 1 - at
        while len(stops) <= back + 1:  # where the line before it stops; -1 for what would be before the first one
            stops.append(data.rfind(b"\n", 0, stops[-1]))
        begin, stop = stops[back + 1] + 1, stops[back]
        if stop - begin > RAW_CAP:
            while stop > begin and data[stop - 1 : stop] == b"\r":
                stop -= 1
            begin = max(begin, data.rfind(b"\r", begin, stop) + 1)
        return data[begin : min(stop, begin + RAW_CAP)]

    def time(self, at: int) -> float | None:
        """Return the time of line `at` in seconds on the log's axis; None when it has no clock."""
        if at in self._times:
            return self._times[at]
        raw = self.raw(at)
        if b"\r" in raw:
            raw = last_frame(raw)
        text = (raw if raw[:1] == b"{" else raw[:_HEAD_BYTES]).decode("utf-8", "replace")
        time = self._times[at] = self._timer.time(self.chunk, ESCAPES.sub("", text) if "\x1b" in text else text)
        return time

    def key(self, at: int) -> float:
        """Place of line `at` in seconds on the log's axis; never less than that of the line before it."""
        chunk, number = self.chunk, at // _PAGE
        if chunk.base == chunk.end:
            return chunk.base
        page = self._pages.get(number)
        if page is None:
            fresh, old = (self._end(number - 1), [self._end(number)]), self._old_pages.get(number)
            page = fresh if old is None or (old[0], old[1][:1]) != fresh else old
            self._pages[number] = page
        low, keys = page
        stop = min((number + 1) * _PAGE, chunk.count)
        while len(keys) <= stop - at:
            last = stop - len(keys)
            time = self._last_time(number * _PAGE, last + 1)
            keys.append(low if time is None else min(max(time, low), keys[-1]))
        return keys[stop - at]

    def lines_before(self, key: float, arrival: float) -> int:
        """Count the lines before `key`, or at it and arrived before `arrival`."""
        self._end(0)
        ends, count = self._ends[::-1], self.chunk.count
        low = min(bisect_left(ends, key) * _PAGE, count)
        high = min((bisect_right(ends, key) + 1) * _PAGE, count)
        wanted = (key, arrival)
        while low < high:
            middle = (low + high) // 2
            if (self.key(middle), self.chunk.mark(middle).arrival) < wanted:
                low = middle + 1
            else:
                high = middle
        return low

    def _end(self, number: int) -> float:
        """End of page `number`: no line of it is later, and none of the next page earlier."""
        chunk, ends = self.chunk, self._ends
        if number < 0:
            return chunk.base
        last = (chunk.count - 1) // _PAGE
        while len(ends) <= last - number:
            page = last - len(ends)
            time = self._last_of_page(page) if ends and chunk.base < chunk.end else chunk.end
            ends.append(min(max(time, chunk.base), ends[-1]) if ends else chunk.end)
        return ends[last - number]

    def _last_of_page(self, number: int) -> float:
        """The last time in page `number`, or in a page before it."""
        known, page = self._last_by_page, number
        while page >= 0 and page not in known:
            time = self._last_time(page * _PAGE, min((page + 1) * _PAGE, self.chunk.count))
            if time is not None:
                known[page] = time
                break
            page -= 1
        last = known[page] if page >= 0 else self.chunk.base
        known.update(dict.fromkeys(range(page + 1, number + 1), last))
        return last

    def _last_time(self, begin: int, stop: int) -> float | None:
        for at in range(stop - 1, begin - 1, -1):
            time = self._arrived[at] if at in self._arrived else self.time(at)
            if time is not None:
                return time
        return None


def _grew(before: Chunk, chunk: Chunk) -> bool:
    """Return true if the lines of a chunk begin with those of another, at the same times."""
    same = before.kind == chunk.kind and before.mono == chunk.mono and abs(chunk.near - before.near) < _SAME_DAY_S
    return same and before.data.endswith(b"\n") and chunk.data.startswith(before.data)


# --- Lines of several logs, the last one first ---

Ranked = tuple[float, float, int, int, Chunk]
"""Seconds on the run's axis, arrival, source, ordinal, and the chunk that holds the line: never compared, as the rest
is unique."""


def merged_back(runs: Iterable[tuple[float, int, Iterator[Ranked]]]) -> Iterator[Ranked]:
    """Merge runs of lines, each from its last one back, and begin none before its turn.

    A run comes with a time that none of its lines is later than, and the number of its log.
    """
    heap: list[tuple[float, bool, float, int, int, Ranked | None, Iterator[Ranked]]] = [
        (-end, False, 0.0, -source, 0, None, run) for end, source, run in runs
    ]
    heapify(heap)
    while heap:
        *_, ranked, run = heappop(heap)
        if ranked is not None:
            yield ranked
        for one in islice(run, 1):
            heappush(heap, (-one[0], True, -one[1], -one[2], -one[3], one, run))
