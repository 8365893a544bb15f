"""Very many bars of one kind: of each column of a fixed grid the worst one, kept up to date span by span."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor

from perfmon.model import Span
from perfmon.picture import Bar, Viewport


class DenseBars:
    """The worst bar, by level and length, of those that begin in the same column of an absolute grid.

    Columns are those of `Buckets`: they stay what they are while a view moves over them.
    """

    def __init__(self, width_s: float, start: float, stamp: int) -> None:
        self.width_s, self.start, self.stamp = width_s, start, stamp
        self._spans: Sequence[Span] = ()
        self._read = 0
        self._seen: set[int] = set()
        self._worst: dict[int, Bar] = {}

    def holds(self, port: Viewport, stamp: int) -> bool:
        """Whether it goes on being right for that view."""
        return self.width_s == port.column_s and self.start <= port.start and self.stamp == stamp

    def read(self, spans: Sequence[Span], bar_of: Callable[[Span], Bar | None]) -> None:
        """Takes in the spans that are new; bars stay when their spans are let go of."""
        if spans is self._spans:
            fresh = spans[self._read :]
            self._seen.update([span.seq for span in fresh])
        else:
            fresh = [span for span in spans if span.seq not in self._seen]
            self._spans, self._seen = spans, {span.seq for span in spans}
        self._read = len(spans)
        worst, width = self._worst, self.width_s
        for span in fresh:
            bar = bar_of(span)
            if bar is None or bar.end < self.start:
                continue
            column = floor(bar.start / width)
            held = worst.get(column)
            if held is None or (bar.level, bar.end - bar.start) > (held.level, held.end - held.start):
                worst[column] = bar

    def bars(self, port: Viewport) -> list[Bar]:
        """Those that reach into the view; what ended before it is forgotten, as views move on."""
        self.start = port.start
        self._worst = {column: bar for column, bar in self._worst.items() if bar.end >= port.start}
        return [bar for bar in self._worst.values() if bar.start <= port.end]
