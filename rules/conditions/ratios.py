"""A metric in proportion to another; and the condition that compares whatever its fields name."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from perfmon.core import Table

from .base import Metric, Single
from .spans import AtLeast, SumAtMost, TimeShare
from .values import Aggregate, Limited, Threshold

if TYPE_CHECKING:
    from ..run_facts import View
    from ..tracks import Item, Track


@dataclass(frozen=True)
class Ratio(Limited):
    """Mean of the last `window_n` samples of `metric` / mean of the last `window_n` of `over`.

    Neither window reaches behind samples that the signature skips. With `part` the one is a part of the time of the
    other, and what of it is beyond the limit is lost. With `groups = "sum"` both are sums over all logs and groups.
    """

    costly: ClassVar[bool] = True
    over: Metric
    window_n: int = 3
    window_s: float = 3600.0
    part: bool = False
    groups: str = ""

    def check(self, table: Table) -> None:
        """There are no bands of ratios."""
        if self.groups not in ("", "sum"):
            raise table.wrong("groups", "expected sum")
        if self.limits.band:
            raise table.wrong("band", "a ratio has no thresholds, expected above or below")
        if self.window_n < 1:
            raise table.wrong("window_n", "expected 1 or more")

    def _mean(self, track: Track, item: Item) -> float | None:
        if self.groups:
            return self._sum(track, item.end)
        column, start, stop = track.window(item, self.window_n, self.window_s)
        return sum(column.values[start:stop]) / (stop - start) if stop > start else None

    def _sum(self, track: Track, end: float) -> float | None:
        """The mean of each log and group that has recent samples, added up; else of its next one, which tells of the
        time before it."""
        means = []
        for column in track.streams.values():
            stop = bisect_right(column.times, end)
            start = max(bisect_right(column.times, end - self.window_s, 0, stop), stop - self.window_n)
            values = (
                column.values[start:stop] or column.values[stop : bisect_right(column.times, end + self.window_s)][:1]
            )
            if values:
                means.append(sum(values) / len(values))
        return sum(means) if means else None

    def value(self, item: Item, view: View) -> float | None:
        """The ratio; None when one of the two has no recent sample or the divisor is not positive."""
        part = self._mean(view.track(self.metric), item)
        whole = self._mean(view.track(self.over), item)
        return None if part is None or whole is None or whole <= 0 else part / whole

    def short(self, item: Item, view: View) -> float | None:
        """The share beyond the limit, where the one is a part of the other."""
        ratio = self.value(item, view) if self.part else None
        if ratio is None or self.limits.above is None or not self.limits.above < ratio <= 1.0:
            return None
        return ratio - self.limits.above

    def _name(self) -> str:
        return f"{self.metric} / {self.over}"

    def _unit(self) -> str:
        return ""

    def _shown(self, value: float) -> str:
        return f"{value:.2f}"

    def words(self, item: Item, view: View) -> str:
        """As a percentage, where its file says it."""
        value, edge = self.value(item, view), self.limits.above if self.limits.below is None else self.limits.below
        if not self.say or value is None or edge is None or not self.judge(item, view).holds:
            return super().words(item, view)
        return self.say.format(value=f"{100 * value:.0f} %", limit=f"{100 * edge:g} %")


def compare(table: Table) -> type[Single]:
    """By what is compared: with a `stat`, another metric, several, or the time of spans."""
    if "metrics" in table.data:
        return SumAtMost
    if "at_least" in table.data:
        return AtLeast
    if "span" in table.data:
        return TimeShare
    if "over" in table.data:
        return Ratio
    return Aggregate if "stat" in table.data else Threshold
