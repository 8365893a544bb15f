"""One of several like it has far more to do than the others, and one of them nothing."""

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
class Peers(Condition):
    """`metric` of the item is more than `factor` times the mean of its peers, of which one has none at all.

    Peers are the other logs and groups that tell of the metric. One that tells nothing for more than `within_s` counts
    only where its last word was that it has nothing: engines that are idle print no statistics.
    """

    type: ClassVar[str] = "peers"
    costly: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("metric", "factor", "within_s")
    metric: str
    factor: float
    within_s: float
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        return cls(table.text("metric"), table.number("factor", 2.0), table.number("within_s", 60.0))

    def _others(self, item: Item, view: View) -> list[float]:
        track = view.track(self.metric)
        track.stream(item.source, item.group)
        others = []
        for (source, group), column in track.streams.items():
            at = bisect_right(column.times, item.end) - 1
            if (source, group) == (item.source, item.group) or at < 0:
                continue
            if item.end - column.times[at] <= self.within_s or column.values[at] == 0:
                others.append(column.values[at])
        return others

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """None of the others ever has nothing."""
        track = view.track(self.metric)
        track.stream(source, group)
        others = (column for key, column in track.streams.items() if key != (source, group))
        return name == self.metric and not any(0 in column.values for column in others)

    def judge(self, item: Item, view: View) -> Level:
        """Unknown without peers."""
        own = item.values.get(self.metric)
        others = self._others(item, view)
        if own is None or not others:
            return Level.UNKNOWN
        more = own > self.factor * sum(others) / len(others)
        return Level.CRITICAL if more and min(others) == 0 else Level.NO

    def short(self, item: Item, view: View) -> float | None:
        """The share of the time that would be saved if all had the same to do."""
        own, others = item.values.get(self.metric, 0.0), self._others(item, view)
        if own <= 0 or not others:
            return None
        return max(0.0, 1.0 - (own + sum(others)) / (len(others) + 1) / own)

    def figures(self, item: Item, view: View) -> dict[str, str]:
        """How many peers there are, and how many of them have nothing."""
        others = self._others(item, view)
        return {"peers": str(len(others)), "idle": str(others.count(0))}

    tells: ClassVar[tuple[str, ...]] = ("peers", "idle")

    def describe(self, item: Item, view: View) -> str:
        """Its own value and theirs."""
        others = self._others(item, view)
        mean = f"{sum(others) / len(others):.3g}" if others else "not logged"
        return f"{self.metric} {item.values.get(self.metric, 0.0):g}, mean of its {len(others)} peers: {mean}"

    def explain(self) -> str:
        """In words."""
        return f"{self.metric} more than {self.factor:g}x the mean of its peers, one of which has none"
