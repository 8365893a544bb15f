"""Samples in time order, of which stretches are asked for again and again: the windows of neighbours overlap."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

_BLOCK = 256


class Column:
    """Times and values of some samples of a metric, and where those stand in its track (None: all of it)."""

    __slots__ = ("_peaks", "places", "times", "values")

    def __init__(self, times: Sequence[float], values: Sequence[float], places: Sequence[int] | None = None) -> None:
        self.times, self.values, self.places = times, values, places
        self._peaks: list[float] | None = None

    def largest(self, start: int, stop: int) -> float:
        """The largest value of start..stop, `stop` not included, which is not empty.

        Windows of an hour, asked for at each of their samples, would take as long as the square of their number.
        """
        first, last = -(-start // _BLOCK), stop // _BLOCK
        values = self.values
        if last - first < 2:
            return max(values[start:stop])
        if self._peaks is None:
            self._peaks = [max(values[at : at + _BLOCK]) for at in range(0, len(values), _BLOCK)]
        return max(*values[start : first * _BLOCK], *self._peaks[first:last], *values[last * _BLOCK : stop])

    def place(self, time: float, value: float) -> int:
        """Where a sample of this time stands; of several of one time the last one that has the value, else the last.

        -1 where none is that old.
        """
        last = at = bisect_right(self.times, time) - 1
        while at >= 0 and self.times[at] == time:
            if self.values[at] == value:
                return at
            at -= 1
        return last

    def __len__(self) -> int:
        return len(self.values)
