"""A value as a part or a multiple of another one: of another metric, of a whole, of all time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import ClassVar

from perfmon.core import Table, format_seconds, format_share, format_value, length, metric_unit, union

from .base import Item, Level, Metric, Metrics, Name, Single, Track, View
from .values import Limited

_SPARE = 1.05
"""Times are rounded, and steps have gaps."""
_TOGETHER = 2
"""One part alone shows nothing about the others."""


@dataclass(frozen=True)
class AtLeast(Single):
    """The item's own `metric` (or one of its kinds, `rpc_ms.reload_weights`) is at least its own `at_least`."""

    metric: Metric
    at_least: Metric

    @staticmethod
    def _own(item: Item, metric: str) -> float | None:
        values = (v for name, v in item.values.items() if name == metric or name.startswith(f"{metric}."))
        return max(values, default=None)

    def judge(self, item: Item, view: View) -> Level:
        """Unknown without both parts."""
        part, other = self._own(item, self.metric), self._own(item, self.at_least)
        if part is None or other is None:
            return Level.UNKNOWN
        return Level.CRITICAL if part >= other else Level.NO

    def describe(self, item: Item, view: View) -> str:
        texts = []
        for metric in (self.metric, self.at_least):
            value = self._own(item, metric)
            texts.append(f"{metric} " + ("not observed" if value is None else format_value(value, metric_unit(metric))))
        return ", ".join(texts)

    def explain(self) -> str:
        return f"{self.metric} at least as long as {self.at_least}"


@dataclass(frozen=True)
class SumAtMost(Single):
    """The seconds of `metrics` on the item's line add up to no more than those of `at_most` there.

    Parts of a step that come in sequence do. Concurrent parts are hidden: then the parts are longer than the whole.
    """

    metrics: Metrics
    at_most: Metric

    def _at(self, metric: str, item: Item, view: View) -> float | None:
        own = item.values.get(metric)
        if own is not None:
            return own
        column = view.track(metric).stream(item.source, item.group)
        at = column.place(item.end, float("nan"))
        return column.values[at] if at >= 0 and column.times[at] >= item.start else None

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where the line does not have the whole and two of its parts."""
        whole = self._at(self.at_most, item, view)
        if whole is None:
            return Level.UNKNOWN
        if sum(self._at(metric, item, view) is not None for metric in self.metrics) < _TOGETHER:
            return Level.UNKNOWN
        return Level.CRITICAL if self._sum(item, view) <= _SPARE * whole else Level.NO

    def _sum(self, item: Item, view: View) -> float:
        return sum(self._at(metric, item, view) or 0.0 for metric in self.metrics)

    def describe(self, item: Item, view: View) -> str:
        whole = self._at(self.at_most, item, view)
        if whole is None:
            return f"{self.at_most} not observed"
        return f"{format_seconds(self._sum(item, view))} of {format_seconds(whole)} in sequence"

    def explain(self) -> str:
        return f"{' + '.join(self.metrics)} are no more than {self.at_most}: they come in sequence"


@dataclass(frozen=True)
class TimeShare(Single):
    """The spans of kind `span`, `least` of them or more, take more than `above` % of the time that is observed.

    Those that overlap, as of several ranks, count as one. Critical above `critical` %.
    """

    span: Name
    above: float
    critical: float = 0.0
    least: int = 2

    def _share(self, view: View) -> float:
        return length(self._taken(view)) / max(view.observed_s, 1e-9)

    def _taken(self, view: View) -> list[tuple[float, float]]:
        low, high = view.window
        return view.once(
            (self,), lambda: union((max(low, span.start), min(high, span.end)) for span in view.spans(self.span))
        )

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where there are no such spans."""
        count = len(self._taken(view))
        if not count:
            return Level.UNKNOWN
        percent = 100.0 * self._share(view)
        if count < self.least or percent <= self.above:
            return Level.NO
        return Level.CRITICAL if percent > max(self.above, self.critical) else Level.WARNING

    def describe(self, item: Item, view: View) -> str:
        return f"each {self.span} together took {format_share(self._share(view))} of the time"

    def explain(self) -> str:
        grave = f", critical above {self.critical:g} %" if self.critical > self.above else ""
        return f"{self.least} or more of {self.span} take more than {self.above:g} % of the time{grave}"


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
        """The mean of each log and group that has recent samples, added up; else of its next one, which covers the
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
        """As a percentage, in the words of its file."""
        value, edge = self.value(item, view), self.limits.above if self.limits.below is None else self.limits.below
        if not self.say or value is None or edge is None or not self.judge(item, view).holds:
            return super().words(item, view)
        return self.say.format(value=f"{100 * value:.0f} %", limit=f"{100 * edge:g} %")
