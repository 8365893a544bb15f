"""A value of the item, or the latest sample of another metric, is beyond a limit."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.units import format_value, metric_unit

from .base import Condition, Level, Limits

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View


@dataclass(frozen=True)
class Threshold(Condition):
    """`metric` of the item itself, else its latest sample that is not older than `within_s` (0: only its own).

    With `part` it is a part of the time in %, and what of it is beyond the limit is lost.

    Where the item's group (an engine) has samples of the metric those of other groups do not count.
    """

    type: ClassVar[str] = "threshold"
    keys: ClassVar[tuple[str, ...]] = ("metric", "within_s", "part", *Limits.KEYS)
    metric: str
    limits: Limits
    within_s: float
    part: bool = False
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From `metric`, the limits and `within_s`."""
        return cls(table.text("metric"), Limits.read(table), table.number("within_s", 600.0), table.flag("part"))

    def value(self, item: Item, view: View) -> float | None:
        """The value that is judged."""
        own = item.values.get(self.metric)
        if own is not None or self.within_s <= 0:
            return own
        apart = item.group and view.tells_apart(self.metric, item.group)
        column = view.track(self.metric).column(item.group if apart else "")
        at = bisect_right(column.times, item.end) - 1
        return None if at < 0 or column.times[at] < item.start - self.within_s else column.values[at]

    def judge(self, item: Item, view: View) -> Level:
        """Unknown when there is no value."""
        value = self.value(item, view)
        return Level.UNKNOWN if value is None else self.limits.level(self.metric, value, view)

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """No own value is beyond the limit; the largest and the least one tell where it is one limit."""
        if name != self.metric or not self.limits.one_sided:
            return False
        values = view.track(name).stream(source, group).values
        return not values or self.limits.level(name, self.limits.extreme(values), view) is Level.NO

    def short(self, item: Item, view: View) -> float | None:
        """The part beyond the limit."""
        value = self.value(item, view) if self.part else None
        if value is None or self.limits.above is None or value <= self.limits.above:
            return None
        return min(1.0, (value - self.limits.above) / 100.0)

    def describe(self, item: Item, view: View) -> str:
        """The value."""
        value = self.value(item, view)
        return f"{self.metric} " + ("not logged" if value is None else format_value(value, metric_unit(self.metric)))

    def explain(self) -> str:
        """In words."""
        return self.limits.words(self.metric, metric_unit(self.metric))
