"""Finds the silences of a block: neighbouring dated lines that lie far apart in time."""

from __future__ import annotations

from math import inf

from perfmon.model import DAYTIME, YEARLESS, Stamp
from perfmon.text import ESCAPES

from .envelope import opened_envelope
from .formats.headers import HeaderReader

QUIET_S = 10.0
"""Silences are told from this length on."""

BOM = "\ufeff"
"""Some programs begin their files with this mark: it is no part of the first line."""
_HEAD = 400
_MAX_TEXT = 65536
_PERIODS = {DAYTIME: 86400.0, YEARLESS: 366 * 86400.0}

Dated = tuple[int, Stamp]
"""Where a dated line begins, and its stamp."""


def elapsed(before: Stamp, after: Stamp) -> float:
    """Seconds from one stamp to the next, over midnight or New Year where no date or year is known.

    Endless across kinds: only the log's clock can tell.
    """
    if before[0] != after[0]:
        return inf
    seconds = after[1] - before[1]
    period = _PERIODS.get(before[0])
    return seconds + period if period is not None and seconds < -period / 2 else seconds


class Lines:
    """The dated lines of a block."""

    def __init__(self, data: bytes, headers: HeaderReader) -> None:
        self._data, self._headers = data, headers

    def before(self, low: int, high: int) -> Dated | None:
        """The last dated line that begins in low..high, searched from the end."""
        end = high
        while end > low:
            begin = self._data.rfind(b"\n", low, end - 1) + 1 or low
            stamp = self._stamp_of(begin, end)
            if stamp is not None:
                return begin, stamp
            end = begin
        return None

    def after(self, low: int, high: int) -> Dated | None:
        """The first dated line that begins in low..high."""
        begin = low
        while begin < high:
            end = self._data.find(b"\n", begin, high)
            end = high if end < 0 else end
            stamp = self._stamp_of(begin, end)
            if stamp is not None:
                return begin, stamp
            begin = end + 1
        return None

    def silences(self, low: Dated, high: Dated) -> list[tuple[Dated, Dated]]:
        """Halves the lines between two dated lines until each silence is held by neighbouring dated lines."""
        found: list[tuple[Dated, Dated]] = []
        pending = [(low, high)]
        while pending:
            before, after = pending.pop()
            if after[0] <= before[0] or elapsed(before[1], after[1]) < QUIET_S:
                continue
            middle = self._between(before[0], after[0])
            if middle is None:
                found.append((before, after))
                continue
            pending += [(middle, after), (before, middle)]
        return found

    def _stamp_of(self, begin: int, end: int) -> Stamp | None:
        head = self._data[begin : min(end, begin + _HEAD)]
        if not head:
            return None
        if head[:1] == b"{":
            opened = opened_envelope(self._data[begin : min(end, begin + _MAX_TEXT)].decode("utf-8", "replace"))
            return opened[1] if opened is not None else None
        text = head.decode("utf-8", "replace").removeprefix(BOM)
        return self._headers.read(ESCAPES.sub("", text) if "\x1b" in text else text)

    def _between(self, low: int, high: int) -> Dated | None:
        """A dated line between two lines, near the middle."""
        begin = self._data.find(b"\n", (low + high) // 2, high) + 1
        found = self.after(begin, high) if begin else None
        if found is not None:
            return found
        first = self._data.find(b"\n", low) + 1
        return self.before(first, begin or high) if 0 < first < high else None
