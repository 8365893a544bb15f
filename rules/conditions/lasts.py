"""A value has been beyond a limit for long, and still is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from perfmon.datafile import Table
from perfmon.units import format_seconds, metric_unit

from .base import Condition, Level, Limits

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View

_SO_FAR = 0.25
"""Of the time that it must last: a row that goes on for less is nothing yet."""


class Stretch(NamedTuple):
    """Samples in a row that are beyond the limit."""

    samples: int = 0
    seconds: float = 0.0
    """From the first to the last one."""
    goes_on: bool = False
    """It reaches to the newest sample of a log that is watched."""


@dataclass(frozen=True)
class Lasts(Condition):
    """The item's sample is one of at least `least` in a row, over `least_s` seconds, in which `metric` is beyond.

    With `so_far` a row that still goes on while somebody watches, for a quarter of that time already, holds as far as
    it goes: the finding is pending, and what it may explain waits for it. It may be the first of them, see `unchanged`.
    Samples of the item's log and group; between two of a row lie `gap_s` seconds at most: what is printed only while
    there is work says nothing of the time without a line.
    """

    type: ClassVar[str] = "lasts"
    costly: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("metric", "least", "least_s", "gap_s", "so_far", *Limits.KEYS)
    metric: str
    limits: Limits
    least: int
    least_s: float
    gap_s: float = inf
    open_too: bool = False
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        least, least_s = int(table.number("least", 2)), table.amount("least_s", 0.0)
        gap_s = table.amount("gap_s", 0.0) or inf
        return cls(table.text("metric"), Limits.read(table), least, least_s, gap_s, table.flag("so_far"))

    def _stretch(self, item: Item, view: View) -> Stretch | None:
        column = view.track(self.metric).stream(item.source, item.group)
        at = column.place(item.end, item.values.get(self.metric, float("nan")))
        if at < 0 or column.times[at] < item.start:
            return None
        return self._all(item.source, item.group, view)[at]

    def _all(self, source: int, group: str, view: View) -> list[Stretch]:
        key = (self, source, group)
        found = view.worked_out.get(key)
        if not isinstance(found, list):
            column = view.track(self.metric).stream(source, group)
            found = view.worked_out[key] = self._stretches(column.times, column.values, view)
        return found

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """No stretch is long enough."""
        return not any(self._enough(stretch) for stretch in self._all(source, group, view))

    def _enough(self, stretch: Stretch) -> bool:
        return stretch.goes_on or self._long(stretch)

    def _long(self, stretch: Stretch) -> bool:
        return stretch.samples >= self.least and stretch.seconds >= self.least_s

    def so_far(self, item: Item, view: View) -> bool:
        """The row is not as long as it must be."""
        stretch = self._stretch(item, view)
        return stretch is not None and stretch.goes_on and not self._long(stretch)

    def _stretches(self, times: Sequence[float], values: Sequence[float], view: View) -> list[Stretch]:
        stretches: list[Stretch] = []
        begin = 0
        beyond = [self.limits.level(self.metric, value, view).holds for value in values]
        for at in range(1, len(values) + 1):
            near = at < len(values) and times[at] - times[at - 1] <= self.gap_s
            if near and beyond[at] and beyond[at - 1]:
                continue
            goes_on = self.open_too and at == len(values) and view.present is not None
            goes_on = goes_on and times[at - 1] - times[begin] >= _SO_FAR * self.least_s
            stretch = Stretch(at - begin, times[at - 1] - times[begin], goes_on) if beyond[begin] else Stretch()
            stretches += [stretch] * (at - begin)
            begin = at
        return stretches

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where the metric has no sample at the item's time."""
        stretch = self._stretch(item, view)
        if stretch is None:
            return Level.UNKNOWN
        return Level.CRITICAL if self._enough(stretch) else Level.NO

    def describe(self, item: Item, view: View) -> str:
        """For how long."""
        stretch = self._stretch(item, view)
        limit = self.limits.words(self.metric, metric_unit(self.metric))
        return f"{self.metric} not logged" if stretch is None else f"{limit} for {format_seconds(stretch.seconds)}"

    def explain(self) -> str:
        """In words."""
        limit = self.limits.words(self.metric, metric_unit(self.metric))
        return f"{limit} in at least {self.least} samples in a row, for {self.least_s:g} s"
