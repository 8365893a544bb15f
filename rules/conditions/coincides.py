"""The item shares time with a span of another kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.units import format_value, metric_unit

from ..begun import LONGEST_S
from ..wording import format_share
from .base import Condition, Level, Limits

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View


@dataclass(frozen=True)
class Coincides(Condition):
    """Overlaps a span of kind `span`, one whose `metric` is beyond the limits where a metric is given.

    It must share `least_share` of the item's time. With `none` the condition holds where there is no such span, nor,
    without a share, one that has begun and may still go on; of a run that tells of none at all that is true.
    """

    type: ClassVar[str] = "coincides"
    keys: ClassVar[tuple[str, ...]] = ("span", "metric", "least_share", "none", *Limits.KEYS)
    span: str
    metric: str
    limits: Limits | None
    least_share: float
    none: bool = False
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        metric = table.text("metric", "")
        limits = Limits.read(table) if metric else None
        return cls(table.text("span"), metric, limits, table.number("least_share", 0.0), table.flag("none"))

    def _begun(self, item: Item, view: View) -> bool:
        """One began before, and was not told to end: what it shares with the item is not known, but that it may."""
        starts = () if self.least_share else view.begun.get(self.span, ())
        return any(start < item.end and item.start - start < LONGEST_S for start in starts)

    def _best(self, item: Item, view: View) -> tuple[Level, str]:
        if self.span not in view.span_kinds:
            return Level.UNKNOWN, f"no {self.span} logged"
        best, text = Level.NO, f"no such {self.span}"
        length = max(item.end - item.start, 1e-9)
        for other in view.overlapping(self.span, item.start, item.end):
            shared = min(item.end, other.end) - max(item.start, other.start)
            if shared / length < self.least_share:
                continue
            level = Level.CRITICAL
            value = other.values.get(self.metric)
            if self.limits is not None:
                level = Level.NO if value is None else self.limits.level(self.metric, value, view)
            if level > best:
                what = "" if value is None else f" with {self.metric} {format_value(value, metric_unit(self.metric))}"
                best, text = level, f"{self.span} {other.key}".rstrip() + what
        return best, text

    def judge(self, item: Item, view: View) -> Level:
        """Unknown when the run has no such spans at all, unless there should be none."""
        level = self._best(item, view)[0]
        if self.none:
            return Level.NO if level.holds or self._begun(item, view) else Level.CRITICAL
        return level

    def describe(self, item: Item, view: View) -> str:
        """The span that it overlaps."""
        return self._best(item, view)[1]

    def explain(self) -> str:
        """In words."""
        share = f" for {format_share(self.least_share)} of its time" if self.least_share else ""
        limits = f" with {self.limits.words(self.metric, metric_unit(self.metric))}" if self.limits else ""
        return f"overlaps {'no' if self.none else 'a'} {self.span}{limits}{share}"
