"""A value jumps far out of what it was, and does not come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.stats import median
from perfmon.units import format_value, metric_unit

from ..shifts import checkpoint_before, in_blocks, since_restart, split, spread, step_at, steps_fall_back
from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View

_BASE = 64
"""So many blocks before the jump tell what was usual."""
_LEAST = 10
_BACK = 0.5
"""Of the jump: what has come back by so much is on its way."""


@dataclass(frozen=True, slots=True)
class Jumped:
    """What a stream jumped from."""

    base: float
    """Since when."""
    time: float
    before: float
    after: float


@dataclass(frozen=True)
class Jump(Condition):
    """The item's sample lies behind a jump of `metric` beyond `deviations` robust deviations above what it was.

    All samples from there to the end of the stream, ten or more, lie beyond half of that, and their medians beyond all
    of it and beyond `times` the earlier median; they are not on their way back. A deviation is at least `floor` (a
    share) of the earlier median: loss that hardly varies varies by its digits.
    """

    type: ClassVar[str] = "jump"
    costly: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("metric", "deviations", "times", "floor")
    tells: ClassVar[tuple[str, ...]] = ("before", "after", "step", "checkpoint")
    metric: str
    deviations: float
    times: float
    floor: float
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        numbers = (table.number("deviations", 10.0), table.number("times", 1.0), table.number("floor", 0.03))
        return cls(table.text("metric"), *numbers)

    def _found(self, source: int, group: str, view: View) -> Jumped | None:
        key = (self, source, group)
        if key not in view.worked_out:
            column = view.track(self.metric).stream(source, group)
            first = since_restart(column, view)
            samples = zip(column.times[first:], column.values[first:], strict=True)
            finite = [(time, value) for time, value in samples if isfinite(value)]
            times, values = [time for time, _ in finite], [value for _, value in finite]
            jumped = self._jumped(times, values)
            if jumped is not None and steps_fall_back(source, jumped.base, times[-1], view):
                jumped = None
            view.worked_out[key] = jumped
        found = view.worked_out[key]
        return found if isinstance(found, Jumped) else None

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """Nothing of the kind is found."""
        return name != self.metric or self._found(source, group, view) is None

    def _jumped(self, times: Sequence[float], values: Sequence[float]) -> Jumped | None:
        blocks, size = in_blocks(values)
        at = split([-value for value in blocks], max(3, -(-_LEAST // size)))
        if at is None:
            return None
        base, after = blocks[max(0, at - _BASE) : at], blocks[at:]
        usual = median(base)
        deviation = max(spread(base), self.floor * abs(usual), 1e-9)
        limit, level = usual + self.deviations * deviation, median(after)
        if level <= limit or level < self.times * usual or min(after) <= usual + (limit - usual) / 2:
            return None
        third = max(1, len(after) // 3)
        if median(after[-third:]) - usual < _BACK * (median(after[:third]) - usual):
            return None
        return Jumped(times[max(0, at - _BASE) * size], times[at * size], usual, level)

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where the item does not tell the metric."""
        if self.metric not in item.values:
            return Level.UNKNOWN
        found = self._found(item.source, item.group, view)
        return Level.CRITICAL if found is not None and item.end >= found.time else Level.NO

    def figures(self, item: Item, view: View) -> dict[str, str]:
        """From what to what, at which step, and the last checkpoint before."""
        found, unit = self._found(item.source, item.group, view), metric_unit(self.metric)
        if found is None:
            return {}
        values = {"before": format_value(found.before, unit), "after": format_value(found.after, unit)}
        return values | {"step": step_at(found.time, view), "checkpoint": checkpoint_before(found.time, view)}

    def describe(self, item: Item, view: View) -> str:
        """From what to what."""
        figures = self.figures(item, view)
        return (
            f"{self.metric} from {figures['before']} to {figures['after']}"
            if figures
            else f"{self.metric} has not jumped"
        )

    def explain(self) -> str:
        """In words."""
        return f"{self.metric} has jumped by more than {self.deviations:g} robust deviations and does not come back"
