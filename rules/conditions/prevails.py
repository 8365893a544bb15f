"""It is the same one again and again: one rank among many, one host among several."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table

from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View


@dataclass(frozen=True)
class Prevails(Condition):
    """Of the last `window_n` samples of `metric`, `least` at least, more than `share` are of the item's group.

    For a metric whose group says who it was this time, such as the slowest rank: who is last by chance changes.
    """

    type: ClassVar[str] = "prevails"
    costly: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("metric", "window_n", "least", "share")
    metric: str
    window_n: int
    least: int
    share: float
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        share = table.number("share", 0.5)
        if not 0 < share < 1:
            raise table.wrong("share", "expected a share between 0 and 1")
        return cls(table.text("metric"), int(table.number("window_n", 10)), int(table.number("least", 4)), share)

    def _counts(self, item: Item, view: View) -> tuple[int, int]:
        """(samples of the item's group, all samples) of the window."""
        track = view.track(self.metric)
        stop = bisect_right(track.times, item.end)
        first = max(0, stop - self.window_n)
        return sum(track.group(at) == item.group for at in range(first, stop)), stop - first

    def judge(self, item: Item, view: View) -> Level:
        """Unknown before there are enough samples."""
        own, number = self._counts(item, view)
        if number < self.least:
            return Level.UNKNOWN
        return Level.CRITICAL if own > self.share * number else Level.NO

    def describe(self, item: Item, view: View) -> str:
        """How often it was this one."""
        own, number = self._counts(item, view)
        return f"{self.metric} of {item.group or 'one'} in {own} of the last {number} samples"

    def explain(self) -> str:
        """In words."""
        return f"more than {100 * self.share:g} % of the last {self.window_n} samples of {self.metric} are of one group"
