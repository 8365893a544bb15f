"""A log or group compared with its peers, which report the same metric: it has more to do, or produces less."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from perfmon.core import Table, format_share, median, percentile

from .base import Column, Item, Level, Metric, Single, View

_LEAST = 5
"""Samples that define what is usual."""


@dataclass(frozen=True)
class Busiest(Single):
    """`metric` of the item is more than `factor` times the mean of its peers, of which one has none at all.

    Peers are the other logs and groups with the metric. One without a sample for more than `within_s` counts only where
    its last value was 0: idle engines print no statistics.
    """

    costly: ClassVar[bool] = True
    slots: ClassVar[tuple[str, ...]] = ("peers", "idle")
    metric: Metric
    factor: float = 2.0
    within_s: float = 60.0

    def _others(self, item: Item, view: View) -> list[float]:
        track = view.track(self.metric)
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
        others = (column for key, column in view.track(self.metric).streams.items() if key != (source, group))
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
        """The number of peers, and of those that have nothing."""
        others = self._others(item, view)
        return {"peers": str(len(others)), "idle": str(others.count(0))}

    def describe(self, item: Item, view: View) -> str:
        others = self._others(item, view)
        mean = f"{sum(others) / len(others):.3g}" if others else "not logged"
        return f"{self.metric} {item.values.get(self.metric, 0.0):g}, mean of its {len(others)} peers: {mean}"

    def explain(self) -> str:
        return f"{self.metric} more than {self.factor:g}x the mean of its peers, of which one has none"


@dataclass(frozen=True)
class MostOften(Single):
    """Of the last `window_n` samples of `metric`, `least` at least, more than `share` are of the item's group.

    For a metric whose group names one each time, such as the slowest rank: chance would change it.
    """

    costly: ClassVar[bool] = True
    metric: Metric
    window_n: int = 10
    least: int = 4
    share: float = 0.5

    def check(self, table: Table) -> None:
        """A share of all or of none is meaningless."""
        if not 0 < self.share < 1:
            raise table.wrong("share", "expected a share between 0 and 1")

    def _counts(self, item: Item, view: View) -> tuple[int, int]:
        """(samples of the item's group, all samples) of the window."""
        track = view.track(self.metric)
        stop = bisect_right(track.times, item.end)
        first = max(0, stop - self.window_n)
        return sum(track.group(at) == item.group for at in range(first, stop)), stop - first

    def judge(self, item: Item, view: View) -> Level:
        """Unknown before there are enough samples."""
        own, number = self._counts(item, view)
        if number < self.least:
            return Level.UNKNOWN
        return Level.CRITICAL if own > self.share * number else Level.NO

    def describe(self, item: Item, view: View) -> str:
        own, number = self._counts(item, view)
        return f"{self.metric} of {item.group or 'one'} in {own} of the last {number} samples"

    def explain(self) -> str:
        return f"more than {100 * self.share:g} % of the last {self.window_n} samples of {self.metric} are of one group"


@dataclass(frozen=True)
class Trickle(Single):
    """`metric` for each of `per` is below `share` of what is usual, and below `below`.

    Usual is what a quarter of the stream's own samples until then stayed under (and the mean over all of them, if that
    is less: few requests at once are served faster), of those that were not below `below`; where there were too few of
    these, the median of its peers, the other logs and groups.
    """

    costly: ClassVar[bool] = True
    metric: Metric
    per: Metric
    below: float
    share: float = 5.0

    def _rates(self, source: int, group: str, view: View) -> tuple[Sequence[float], Sequence[tuple[float, float]]]:
        """Times of the samples at which something runs, with what is made and how much runs."""
        return view.once((self, source, group), lambda: self._all_rates(source, group, view))

    def _all_rates(self, source: int, group: str, view: View) -> tuple[list[float], list[tuple[float, float]]]:
        made = view.track(self.metric).stream(source, group)
        running = view.track(self.per).stream(source, group)
        pairs = [(time, _at(running, time), value) for time, value in zip(made.times, made.values, strict=True)]
        held = [(time, (value, per)) for time, per, value in pairs if per]
        return [time for time, _ in held], [pair for _, pair in held]

    def _usual(self, item: Item, view: View) -> float | None:
        times, pairs = self._rates(item.source, item.group, view)
        before = [pair for pair in pairs[: bisect_right(times, item.end)] if pair[0] >= self.below * pair[1]]
        if len(before) >= _LEAST:
            each = sorted(made / per for made, per in before)
            return min(percentile(each, 0.25), sum(made for made, _ in before) / sum(per for _, per in before))
        return self._median_of_others((item.source, item.group), view)

    def _median_of_others(self, place: tuple[int, str], view: View) -> float | None:
        """The median of the peers' medians; each is derived once: a run may have thousands of engines."""
        medians = view.once((self, "medians"), lambda: self._medians(view))
        ordered = view.once((self, "ordered"), lambda: sorted(medians.values()))
        own, left = len(ordered), len(ordered)
        if place in medians:
            own, left = bisect_left(ordered, medians[place]), left - 1
        if not left:
            return None
        low, high = ((left - 1) // 2, left // 2)
        return (ordered[low + (low >= own)] + ordered[high + (high >= own)]) / 2

    def _medians(self, view: View) -> dict[tuple[int, str], float]:
        """Median of what is made for each, by log and group with enough samples."""
        medians = {}
        for source, group in view.track(self.metric).streams:
            each = [made / per for made, per in self._rates(source, group, view)[1]]
            if len(each) >= _LEAST:
                medians[source, group] = median(each)
        return medians

    def _own(self, item: Item, view: View) -> float | None:
        times, pairs = self._rates(item.source, item.group, view)
        at = bisect_right(times, item.end) - 1
        return pairs[at][0] / pairs[at][1] if at >= 0 and times[at] >= item.start else None

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """The rate for each is never that low."""
        return all(made >= self.below * per for made, per in self._rates(source, group, view)[1])

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where nothing runs, or nothing is known to be usual."""
        own = self._own(item, view)
        if own is None:
            return Level.UNKNOWN
        if own >= self.below:
            return Level.NO
        usual = self._usual(item, view)
        if usual is None:
            return Level.UNKNOWN
        return Level.CRITICAL if own < self.share / 100.0 * usual else Level.NO

    def describe(self, item: Item, view: View) -> str:
        own, usual = self._own(item, view), self._usual(item, view)
        if own is None or usual is None:
            return f"the usual {self.metric} for each of {self.per} is not known"
        return f"{self.metric} / {self.per} {own:.3g}, {format_share(own / usual) if usual > 0 else '-'} of the usual"

    def explain(self) -> str:
        return f"{self.metric} / {self.per} < {self.share:g} % of its own usual, or of its peers', and < {self.below:g}"


def _at(column: Column, time: float) -> float | None:
    at = bisect_right(column.times, time) - 1
    return column.values[at] if at >= 0 and column.times[at] == time else None


WHAT: Mapping[str, type[Single]] = {"busiest": Busiest, "most-often": MostOften, "trickle": Trickle}
"""By what sets it apart."""
