"""Parts of a step come sequentially: together they are no longer than the step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.units import format_seconds

from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View

_SPARE = 1.05
"""Times are rounded, and steps have gaps."""
_TOGETHER = 2
"""Of one part alone nobody knows beside what it was done."""


@dataclass(frozen=True)
class Fits(Condition):
    """The seconds of `metrics` that the item's line tells add up to no more than those of `whole`, which it tells, too.

    What is done beside something else is hidden by it: then the parts are longer than the whole.
    """

    type: ClassVar[str] = "fits"
    keys: ClassVar[tuple[str, ...]] = ("metrics", "whole")
    metrics: tuple[str, ...]
    whole: str
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        return cls(table.texts("metrics", required=True), table.text("whole"))

    def _at(self, metric: str, item: Item, view: View) -> float | None:
        own = item.values.get(metric)
        if own is not None:
            return own
        column = view.track(metric).stream(item.source, item.group)
        at = column.place(item.end, float("nan"))
        return column.values[at] if at >= 0 and column.times[at] >= item.start else None

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where the line does not tell the whole and two of its parts."""
        whole = self._at(self.whole, item, view)
        if whole is None:
            return Level.UNKNOWN
        if sum(self._at(metric, item, view) is not None for metric in self.metrics) < _TOGETHER:
            return Level.UNKNOWN
        return Level.CRITICAL if self._sum(item, view) <= _SPARE * whole else Level.NO

    def _sum(self, item: Item, view: View) -> float:
        return sum(self._at(metric, item, view) or 0.0 for metric in self.metrics)

    def describe(self, item: Item, view: View) -> str:
        """Both."""
        whole = self._at(self.whole, item, view)
        if whole is None:
            return f"{self.whole} not logged"
        return f"{format_seconds(self._sum(item, view))} of {format_seconds(whole)} sequentially"

    def explain(self) -> str:
        """In words."""
        return f"{' + '.join(self.metrics)} add up to no more than {self.whole}: they run sequentially"
