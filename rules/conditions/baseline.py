"""The item's duration is a multiple of the median of its undisturbed peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.stats import median
from perfmon.units import format_seconds

from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View


def undisturbed_median(view: View, span: str, apart_from: str) -> float | None:
    """Median duration in seconds of the spans of a kind that overlap no span of another kind; None without any."""
    found = getattr(view, "_undisturbed", None)
    if found is None:
        found = {}
        object.__setattr__(view, "_undisturbed", found)
    key = (span, apart_from)
    if key not in found:
        alone = [item.end - item.start for item in (view.alone(span, apart_from) if apart_from else view.spans(span))]
        found[key] = median(alone) if alone else None
    value: float | None = found[key]
    return value


@dataclass(frozen=True)
class Baseline(Condition):
    """Longer than `factor` times the median of the `span`s that overlap no `apart_from`."""

    type: ClassVar[str] = "baseline"
    keys: ClassVar[tuple[str, ...]] = ("span", "apart_from", "factor")
    span: str
    apart_from: str
    factor: float
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        return cls(table.text("span"), table.text("apart_from", ""), table.number("factor", 3.0))

    def usual(self, view: View) -> float | None:
        """The median in seconds; None without undisturbed peers."""
        usual = undisturbed_median(view, self.span, self.apart_from)
        return None if usual is None or usual <= 0 else usual

    def judge(self, item: Item, view: View) -> Level:
        """Unknown without undisturbed peers."""
        usual = self.usual(view)
        if usual is None:
            return Level.UNKNOWN
        return Level.CRITICAL if item.end - item.start > self.factor * usual else Level.NO

    def describe(self, item: Item, view: View) -> str:
        """The length and how it compares."""
        usual = self.usual(view)
        if usual is None:
            return f"no undisturbed {self.span} to compare with"
        length = item.end - item.start
        return f"{format_seconds(length)}, {length / usual:.1f}x the undisturbed median"

    def explain(self) -> str:
        """In words."""
        apart = f" without a {self.apart_from}" if self.apart_from else ""
        return f"longer than {self.factor:g}x the median {self.span}{apart}"
