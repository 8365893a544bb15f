"""Where the lines of a chunk begin, and where they stand in the merged order; found out page by page, from the end."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from perfmon.core import ESCAPES

from .chunks import NEVER, Chunk
from .lines import RAW_CAP, last_frame

if TYPE_CHECKING:
    from .line_times import LineTimer

_PAGE = 16
"""Lines of a page: few are read to find out the place of one, and of many pages only the last line of each."""
_HEAD_BYTES = 400


class Index:
    """The lines of one chunk.

    Within a chunk the order of the lines is never changed: a line stands no later than any that follows it, and a
    line without a clock stands where the one before it does. Mostly the newest lines are asked for: no line is read
    that stands before the page of those.
    """

    def __init__(self, chunk: Chunk, dater: LineTimer) -> None:
        self.chunk = chunk
        self._dater = dater
        self._stops = array("q", [len(chunk.data) - chunk.data.endswith(b"\n")])
        """Where lines stop, the last one first, as far as was asked for."""
        self._told: dict[int, float | None] = {}
        self._ends: list[float] = []
        """Where pages end, the last page first, as far as was asked for."""
        self._said_by: dict[int, float] = {}
        """What was told last by the end of a page."""
        self._pages: dict[int, tuple[float, list[float]]] = {}
        """Where pages begin and end, and after that where their lines stand, the last one first, as far as was asked
        for."""
        self._arrived = {mark.at: mark.time for mark in chunk.marks if mark.time > NEVER}

    def raw(self, at: int) -> bytes:
        """Line `at` without its newline, at most RAW_CAP bytes of it."""
        data, stops, back = self.chunk.data, self._stops, self.chunk.count - 1 - at
        while len(stops) <= back + 1:  # where the line before it stops; -1 for what would be before the first one
            stops.append(data.rfind(b"\n", 0, stops[-1]))
        begin = stops[back + 1] + 1
        return data[begin : min(stops[back], begin + RAW_CAP)]

    def told(self, at: int) -> float | None:
        """Seconds on the log's axis that line `at` tells; None when it has no clock."""
        if at in self._told:
            return self._told[at]
        raw = self.raw(at)
        if b"\r" in raw:
            raw = last_frame(raw)
        text = (raw if raw[:1] == b"{" else raw[:_HEAD_BYTES]).decode("utf-8", "replace")
        told = self._told[at] = self._dater.time(self.chunk, ESCAPES.sub("", text) if "\x1b" in text else text)
        return told

    def key(self, at: int) -> float:
        """Where line `at` stands, in seconds on the log's axis; never less than for the line before it."""
        chunk, number = self.chunk, at // _PAGE
        if chunk.base == chunk.end:
            return chunk.base
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = self._end(number - 1), [self._end(number)]
        low, keys = page
        stop = min((number + 1) * _PAGE, chunk.count)
        while len(keys) <= stop - at:
            last = stop - len(keys)
            told = self.told(last) if last not in self._arrived else self._arrived[last]
            if told is None:
                told = self._last_told(number * _PAGE, last)
            keys.append(low if told is None else min(max(told, low), keys[-1]))
        return keys[stop - at]

    def lines_before(self, key: float, arrival: float) -> int:
        """Lines that stand before `key`, or with it and arrived before `arrival`."""
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
        """Where page `number` ends: no line of it stands later, and none of the next page earlier."""
        chunk, ends = self.chunk, self._ends
        if number < 0:
            return chunk.base
        last = (chunk.count - 1) // _PAGE
        while len(ends) <= last - number:
            page = last - len(ends)
            told = self._said(page) if ends and chunk.base < chunk.end else chunk.end
            ends.append(min(max(told, chunk.base), ends[-1]) if ends else chunk.end)
        return ends[last - number]

    def _said(self, number: int) -> float:
        """What page `number` tells last, or a page before it."""
        known, page = self._said_by, number
        while page >= 0 and page not in known:
            told = self._last_told(page * _PAGE, min((page + 1) * _PAGE, self.chunk.count))
            if told is not None:
                known[page] = told
                break
            page -= 1
        said = known[page] if page >= 0 else self.chunk.base
        known.update(dict.fromkeys(range(page + 1, number + 1), said))
        return said

    def _last_told(self, begin: int, stop: int) -> float | None:
        for at in range(stop - 1, begin - 1, -1):
            told = self._arrived[at] if at in self._arrived else self.told(at)
            if told is not None:
                return told
        return None
