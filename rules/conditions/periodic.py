"""One step in so many is slow, again and again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.stats import median
from perfmon.units import format_value, metric_unit

from ..shifts import since_restart, spread
from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View

_LEAST = 4
"""Slow ones in a rhythm."""
_REGULAR = 0.8
"""Share of the distances between them that are the usual one, or one more or less."""
_DEVIATIONS = 6.0
_LOOKED_AT = 4096
"""Samples at the end of a stream."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Which samples are slow (by their times), and how often."""

    slow: frozenset[float]
    period: int
    usual: float
    length: float
    """Median of the slow ones."""


@dataclass(frozen=True)
class Periodic(Condition):
    """The item is one of the slow samples of `metric` (a time) that come once in so many, at least three.

    Of a run whose lines tell of each single step: of one that prints some of them nobody knows how the others are.
    Slow is longer than the median by `more` (a share of it) and by six robust deviations; together they cost `least` %
    of the time. Those that share their time with a span of the kinds `apart_from` do not count: what they are is known.
    """

    type: ClassVar[str] = "periodic"
    costly: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("metric", "more", "least", "apart_from")
    tells: ClassVar[tuple[str, ...]] = ("period", "usual", "length")
    metric: str
    more: float
    least: float
    apart_from: tuple[str, ...]
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        more, least = table.number("more", 0.25), table.number("least", 2.0)
        return cls(table.text("metric"), more, least, table.texts("apart_from"))

    def _found(self, source: int, group: str, view: View) -> Rhythm | None:
        key = (self, source, group)
        if key not in view.worked_out:
            view.worked_out[key] = self._rhythm(source, group, view)
        found = view.worked_out[key]
        return found if isinstance(found, Rhythm) else None

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """Nothing of the kind is found."""
        return name != self.metric or self._found(source, group, view) is None

    def _rhythm(self, source: int, group: str, view: View) -> Rhythm | None:
        column = view.track(self.metric).stream(source, group)
        first = max(since_restart(column, view), len(column) - _LOOKED_AT)
        times, values = column.times[first:], column.values[first:]
        enough = len(values) >= 3 * _LEAST and all(map(isfinite, values))
        if not enough or not _every_step(source, view):
            return None
        usual = median(values)
        limit = usual + max(self.more * usual, _DEVIATIONS * spread(values))
        slow = [at for at, value in enumerate(values) if value > limit]
        gaps = [after - before for before, after in pairwise(slow)]
        if len(slow) < _LEAST or not gaps:
            return None
        period = Counter(gaps).most_common(1)[0][0]
        near = sum(abs(gap - period) <= (1 if period > 4 else 0) for gap in gaps)
        cost = sum(values[at] - usual for at in slow)
        known = sum(self._is_known(times[at], values[at], view) for at in slow)
        enough = cost >= self.least / 100.0 * sum(values) and known < len(slow) / 2
        if period < 3 or near < _REGULAR * len(gaps) or not enough:
            return None
        return Rhythm(frozenset(times[at] for at in slow), period, usual, median([values[at] for at in slow]))

    def _is_known(self, time: float, length: float, view: View) -> bool:
        return any(view.overlapping(kind, time - length, time + length, 1) for kind in self.apart_from)

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where the item does not tell the metric."""
        if self.metric not in item.values:
            return Level.UNKNOWN
        found = self._found(item.source, item.group, view)
        return Level.CRITICAL if found is not None and item.end in found.slow else Level.NO

    def short(self, item: Item, view: View) -> float | None:
        """Share of the item's time beyond the usual one."""
        found, value = self._found(item.source, item.group, view), item.values.get(self.metric, 0.0)
        return max(0.0, 1.0 - found.usual / value) if found is not None and value > 0 else None

    def figures(self, item: Item, view: View) -> dict[str, str]:
        """The period and both lengths."""
        found, unit = self._found(item.source, item.group, view), metric_unit(self.metric)
        if found is None:
            return {}
        usual, length = format_value(found.usual, unit), format_value(found.length, unit)
        return {"period": str(found.period), "usual": usual, "length": length}

    def describe(self, item: Item, view: View) -> str:
        """The rhythm."""
        figures = self.figures(item, view)
        if not figures:
            return f"{self.metric} has no periodic slow samples"
        return f"one {self.metric} in {figures['period']} is {figures['length']} instead of {figures['usual']}"

    def explain(self) -> str:
        """In words."""
        return f"one {self.metric} in a regular period is longer than the median by {self.more:.0%} or more"


def _every_step(source: int, view: View) -> bool:
    """Whether a log tells of each step: their numbers follow one another."""
    for track in view.steps.values():
        numbers = [track.values[at] for at in range(len(track)) if track.source(at) == source]
        distances = [after - before for before, after in pairwise(numbers) if after != before]
        if distances and median(distances) == 1:
            return True
    return False
