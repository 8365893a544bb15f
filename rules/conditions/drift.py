"""A rate falls: it steps down and stays there, or declines steadily."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isfinite
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.stats import median, percentile
from perfmon.units import format_value, metric_unit

from ..shifts import in_blocks, noise, since_restart, split, step_at, steps_fall_back
from ..wording import format_share
from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View

_LEAST = 10
"""Samples on each side of a change."""
_WARM_UP, _MOST_WARM_UP, _LEAST_WARM_UP = 0.1, 50, 3
"""Share of the samples that is not looked at: compilation, caches, the first epoch's files."""
_NOISES = 3.0
_STAYS = 0.7
"""Of the fall: so much of it is left at the end."""
_PARTS = 8
_STEADY = 0.8
"""Of the pairs of parts: so many more fall than rise."""


@dataclass(frozen=True, slots=True)
class Fallen:
    """A rate before and after, as it is printed, and since when."""

    time: float
    before: float
    after: float
    share: float
    """Of the rate, that is gone."""
    steady: bool


@dataclass(frozen=True)
class Drift(Condition):
    """`metric` has fallen by `least` % or more and stays there; with `rising` its inverse has: of the time of a step.

    A change between two medians: the upper quarter of what came later lies below the lower quarter of what came
    before, the fall is more than three times what neighbours differ by, and most of it is left at the end. Or a
    decline from one eighth of the samples to the next. The start is left out. It is none where the medians of one of
    `same` (what a step is given to do) differ by more than a tenth between before and after.
    """

    type: ClassVar[str] = "drift"
    costly: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("metric", "least", "least_s", "rising", "same")
    tells: ClassVar[tuple[str, ...]] = ("before", "after", "drop", "since", "how")
    metric: str
    least: float
    least_s: float
    rising: bool
    same: tuple[str, ...]
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        least, least_s = table.number("least", 10.0), table.amount("least_s", 60.0)
        return cls(table.text("metric"), least, least_s, table.flag("rising"), table.texts("same"))

    def _found(self, source: int, group: str, view: View) -> Fallen | None:
        key = (self, source, group)
        if key not in view.worked_out:
            view.worked_out[key] = self._fallen(source, group, view)
        found = view.worked_out[key]
        return found if isinstance(found, Fallen) else None

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """Nothing of the kind is found."""
        return name != self.metric or self._found(source, group, view) is None

    def _fallen(self, source: int, group: str, view: View) -> Fallen | None:
        column = view.track(self.metric).stream(source, group)
        first = since_restart(column, view)
        pairs = zip(column.times[first:], column.values[first:], strict=True)
        samples = [(time, value) for time, value in pairs if isfinite(value) and value > 0]
        skipped = max(_LEAST_WARM_UP, min(_MOST_WARM_UP, round(_WARM_UP * len(samples))))
        times = [time for time, _ in samples[skipped:]]
        rates = [1.0 / value if self.rising else value for _, value in samples[skipped:]]
        if len(rates) < 2 * _LEAST:
            return None
        blocks, size = in_blocks(rates)
        for fall in (self._step(blocks, size), self._decline(blocks)):
            if fall is None:
                continue
            at, before, after, steady = fall
            change = times[at * size]
            at_change = times[max(0, (at - 2) * size)], times[min(len(times) - 1, (at + 2) * size)]
            if not steady and steps_fall_back(source, *at_change, view):
                continue
            long = change - times[0] >= self.least_s and times[-1] - change >= self.least_s
            if long and self._alike(source, group, view, times[0], change):
                return Fallen(change, *self._as_told(before, after), 1.0 - after / before, steady)
        return None

    def _as_told(self, before: float, after: float) -> tuple[float, float]:
        return (1.0 / before, 1.0 / after) if self.rising else (before, after)

    def _step(self, blocks: Sequence[float], size: int) -> tuple[int, float, float, bool] | None:
        at = split(blocks, max(4, -(-_LEAST // size)))
        if at is None:
            return None
        left, right = blocks[:at], blocks[at:]
        before, after = median(left), median(right)
        fall = before - after
        apart = percentile(sorted(right), 0.75) < percentile(sorted(left), 0.25)
        ended = median(right[-max(3, len(right) // 4) :])
        stays = before - ended >= _STAYS * fall
        enough = fall >= self.least / 100.0 * before and fall >= _NOISES * noise(blocks)
        return (at, before, after, False) if apart and stays and enough else None

    def _decline(self, blocks: Sequence[float]) -> tuple[int, float, float, bool] | None:
        if len(blocks) < 4 * _PARTS:
            return None
        size = len(blocks) / _PARTS
        parts = [median(blocks[round(at * size) : round((at + 1) * size)]) for at in range(_PARTS)]
        falls = sum((later < earlier) - (later > earlier) for earlier, later in combinations(parts, 2))
        pairs = _PARTS * (_PARTS - 1) / 2
        before, after = parts[0], parts[-1]
        enough = before - after >= max(self.least / 100.0 * before, _NOISES * noise(blocks))
        if falls < _STEADY * pairs or not enough:
            return None
        at = next(n for n, part in enumerate(parts) if before - part >= 0.25 * (before - after))
        return round(at * size), before, after, True

    def _alike(self, source: int, group: str, view: View, begin: float, change: float) -> bool:
        for metric in self.same:
            column = view.track(metric).stream(source, group)
            first, at = bisect_left(column.times, begin), bisect_left(column.times, change)
            before, after = column.values[first:at], column.values[at:]
            if not before or not after:
                continue
            low, high = sorted((median(before), median(after)))
            if high > 0 and high - low > 0.1 * high:
                return False
        return True

    def judge(self, item: Item, view: View) -> Level:
        """Every sample since the fall that has not recovered."""
        value = item.values.get(self.metric)
        if value is None:
            return Level.UNKNOWN
        found = self._found(item.source, item.group, view)
        if found is None or item.end < found.time:
            return Level.NO
        middle = (found.before + found.after) / 2
        return Level.CRITICAL if (value > middle if self.rising else value < middle) else Level.NO

    def short(self, item: Item, view: View) -> float | None:
        """Share of the item's time that would not have been needed at the earlier rate."""
        found, value = self._found(item.source, item.group, view), item.values.get(self.metric)
        if found is None or value is None or value <= 0:
            return None
        return max(0.0, 1.0 - (found.before / value if self.rising else value / found.before))

    def figures(self, item: Item, view: View) -> dict[str, str]:
        """From what to what, by how much, since which step, and how."""
        found, unit = self._found(item.source, item.group, view), metric_unit(self.metric)
        if found is None:
            return {}
        return {
            "before": format_value(found.before, unit),
            "after": format_value(found.after, unit),
            "drop": format_share(found.share),
            "since": step_at(found.time, view),
            "how": "declined steadily" if found.steady else "stepped down",
        }

    def describe(self, item: Item, view: View) -> str:
        """From what to what."""
        figures = self.figures(item, view)
        return (
            f"{self.metric} from {figures['before']} to {figures['after']}"
            if figures
            else f"{self.metric} has not fallen"
        )

    def explain(self) -> str:
        """In words."""
        what = f"1 / {self.metric}" if self.rising else self.metric
        same = f" while {' and '.join(self.same)} is unchanged" if self.same else ""
        return f"{what} has fallen by {self.least:g} % or more and stays low{same}"
