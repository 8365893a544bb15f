"""Where the lines of a chunk begin, and where they stand in the merged order; found out page by page."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate
from math import isqrt
from typing import TYPE_CHECKING

from perfmon.text import ESCAPES

from .chunks import NEVER, Chunk
from .cleaning import RAW_CAP, last_frame

if TYPE_CHECKING:
    from .dating import Dater

_SMALL = 64
"""Lines of a chunk that needs no pages: its places are found out from its end, as far as they are asked for."""
_HEAD_BYTES = 400


class Index:
    """The lines of one chunk.

    Within a chunk the order of the lines is never changed: a line stands no later than any that follows it, and a
    line without a clock stands where the one before it does.
    """

    def __init__(self, chunk: Chunk, dater: Dater) -> None:
        self.chunk = chunk
        self._dater = dater
        self._starts = array(
            "L", accumulate(map(len, chunk.data.split(b"\n")), lambda at, size: at + size + 1, initial=0)
        )
        # To read one line's place, the last line of every page and all lines of one are read: so that is least.
        self._page_size = isqrt(chunk.count) if chunk.count > _SMALL else max(1, chunk.count)
        self._last_keys: list[float] = []
        self._told: dict[int, float | None] = {}
        self._bounds: list[float] | None = None
        self._pages: dict[int, list[float]] = {}
        self._arrived = {mark.at: mark.time for mark in chunk.marks if mark.time > NEVER}

    def raw(self, at: int) -> bytes:
        """Line `at` without its newline, at most RAW_CAP bytes of it."""
        begin = self._starts[at]
        return self.chunk.data[begin : min(self._starts[at + 1] - 1, begin + RAW_CAP)]

    def told(self, at: int) -> float | None:
        """Seconds on the log's axis that line `at` tells; None when it has no clock."""
        if at not in self._told:
            self._told[at] = self._read(at)
        return self._told[at]

    def _read(self, at: int) -> float | None:
        raw = self.raw(at)
        if b"\r" in raw:
            raw = last_frame(raw)
        text = (raw if raw[:1] == b"{" else raw[:_HEAD_BYTES]).decode("utf-8", "replace")
        return self._dater.time(self.chunk, ESCAPES.sub("", text) if "\x1b" in text else text)

    def key(self, at: int) -> float:
        """Where line `at` stands, in seconds on the log's axis; never less than for the line before it."""
        if self.chunk.count <= _SMALL:
            return self._key_from_end(at)
        number, rest = divmod(at, self._page_size)
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = self._page(number)
        return page[rest]

    def _key_from_end(self, at: int) -> float:
        low, high = self.chunk.base, self.chunk.end
        keys, count = self._last_keys, self.chunk.count
        if low == high:
            return low
        while len(keys) < count - at:
            told = self._last_told(0, count - len(keys))
            key = low if told is None else min(max(told, low), high)
            keys.append(min(key, keys[-1]) if keys else key)
        return keys[count - 1 - at]

    def lines_before(self, key: float, arrival: float) -> int:
        """Lines that stand before `key`, or with it and arrived before `arrival`."""
        bounds, count, page = self._page_bounds(), self.chunk.count, self._page_size
        low = min(max(0, bisect_left(bounds, key) - 1) * page, count)
        high = min(bisect_right(bounds, key) * page, count)
        wanted = (key, arrival)
        while low < high:
            middle = (low + high) // 2
            if (self.key(middle), self.chunk.mark(middle).arrival) < wanted:
                low = middle + 1
            else:
                high = middle
        return low

    def _page_bounds(self) -> list[float]:
        """Before which time no line of each page stands; after the last page the chunk's end."""
        if self._bounds is None:
            chunk, page = self.chunk, self._page_size
            bounds = [chunk.base]
            if chunk.base < chunk.end:
                for stop in range(page, chunk.count, page):
                    told = self._last_told(stop - page, stop)
                    bounds.append(bounds[-1] if told is None else min(max(told, bounds[-1]), chunk.end))
            else:
                bounds *= -(-chunk.count // page)
            self._bounds = [*bounds, chunk.end]
        return self._bounds

    def _last_told(self, begin: int, stop: int) -> float | None:
        for at in range(stop - 1, begin - 1, -1):
            told = self._arrived.get(at) if at in self._arrived else self.told(at)
            if told is not None:
                return told
        return None

    def _page(self, number: int) -> list[float]:
        bounds = self._page_bounds()
        low, high = bounds[number], bounds[number + 1]
        begin = number * self._page_size
        stop = min(begin + self._page_size, self.chunk.count)
        if low == high:
            return [low] * (stop - begin)
        known, keys = low, []
        for at in range(begin, stop):
            told = self._arrived.get(at)
            told = self.told(at) if told is None else told
            if told is not None:
                known = min(max(told, low), high)
            keys.append(known)
        keys.reverse()
        keys = list(accumulate(keys, min))
        keys.reverse()
        return keys
