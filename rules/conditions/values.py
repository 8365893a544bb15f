"""A value is beyond a limit: that of the item, or of a window that ends with it."""

from __future__ import annotations

import re
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from math import ceil, inf
from typing import ClassVar, Self

from perfmon.core import Table, format_value, metric_unit, percentile, short_duration

from .base import Item, Level, Limits, Metric, Single, View

_Stat = Callable[[Sequence[float]], float]

_STATS: dict[str, _Stat] = {
    "mean": lambda values: sum(values) / len(values),
    "p50": lambda values: percentile(sorted(values), 0.50),
    "p95": lambda values: percentile(sorted(values), 0.95),
    "max": max,
    "min": min,
    "sum": sum,
    "count": lambda values: float(len(values)),
    "growth": lambda values: values[-1] / values[0] if values[0] > 0 else 0.0,
}
_OF_GROUPS = ("all", "largest", "smallest", "excess", "onward")
AMONG_VALUES = ("mean", "p50", "p95", "max", "min")
"""Statistics that lie between the least and the largest value."""
_PERCENTAGES = ("of_max", "at_max", "of_usual", "share_above", "share_below", "time_share")
_IN_WORDS = {
    "sum": "{metric} {value} in all within {over} ({bound})",
    "count": "{value} {metric} within {over} ({bound})",
    "growth": "{metric} {value} times as large as {over} before ({bound})",
    "of_max": "{metric} at {value} of the maximum within {over} ({bound})",
    "at_max": "{metric} at its maximum in {value} of the samples of {over} ({bound})",
    "of_usual": "{metric} at {value} of the usual value within {over} ({bound})",
    "share_above": "{metric} above {limit:g} in {value} of the samples of {over} ({bound})",
    "share_below": "{metric} below {limit:g} in {value} of the samples of {over} ({bound})",
    "time_share": "{metric} takes {value} of the time of {over} ({bound})",
    "times_above": "{metric} went above {limit:g} {value} times within {over} ({bound})",
    "age": "{metric} above {limit:g} since {value} ({bound})",
}
"""Statistics; the others are a kind of mean."""
_NEWEST, _TOGETHER, _ITEMS = 3, 10, 30
_INTERVALS = 16
_LONG_S = 86400.0
"""Any age above it is as good."""


@dataclass(frozen=True)
class Limited(Single):
    """A value that is beyond its limits."""

    metric: Metric
    limits: Limits
    say: str = field(default="", kw_only=True)
    """The meaning of it where it holds, with the slots {value} and {limit}."""

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        return (*super().keys(), "say")

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table; raises DataFileError."""
        text = table.text("say", "")
        if set(re.findall(r"{([^}]*)}", text)) - {"value", "limit"}:
            raise table.wrong("say", "expected no other slots than {value} and {limit}")
        return replace(super().read(table), say=text)

    @abstractmethod
    def value(self, item: Item, view: View) -> float | None:
        """The value to compare; None where the run has none."""

    @abstractmethod
    def _shown(self, value: float) -> str:
        """The value with its unit."""

    def _name(self) -> str:
        return self.metric

    def _unit(self) -> str:
        return metric_unit(self.metric)

    def judge(self, item: Item, view: View) -> Level:
        """Unknown when there is no value."""
        value = self.value(item, view)
        return Level.UNKNOWN if value is None else self.limits.level(self.metric, value, view)

    def describe(self, item: Item, view: View) -> str:
        value = self.value(item, view)
        return f"{self._name()} {'not observed' if value is None else self._shown(value)}"

    def explain(self) -> str:
        return self.limits.words(self._name(), self._unit())

    @property
    def trivial(self) -> bool:
        return self.limits.above == 0.0 and self.limits.below is None and not self.limits.band

    def bound(self, item: Item, view: View) -> str:
        value = self.value(item, view)
        return "" if value is None else self.limits.of_value(self.metric, value, self._unit(), view)

    def words(self, item: Item, view: View) -> str:
        """In the words of its file where it holds."""
        value = self.value(item, view)
        if not self.say or value is None or not self.judge(item, view).holds:
            return super().words(item, view)
        return self.say.format(value=self._shown(value), limit=self._limit_alone(value, view))

    def _limit_alone(self, value: float, view: View) -> str:
        return self.limits.number(self.metric, value, self._unit(), view)


@dataclass(frozen=True)
class Threshold(Limited):
    """`metric` of the item itself, else its latest sample that is not older than `within_s` (0: only its own).

    With `part` it is a part of the time in %, and what of it is beyond the limit is lost. With `later_s` it is the
    largest of that one and those of so many seconds after the item: what paused continued. With `fresh` it is not older
    than so many of its usual intervals, or a second of them: what is dead reports nothing.

    Where the item's group (an engine) has samples of the metric those of other groups do not count.
    """

    within_s: float = 600.0
    part: bool = False
    later_s: float = 0.0
    fresh: float = 0.0

    def value(self, item: Item, view: View) -> float | None:
        """Its own, or the latest one."""
        own = item.values.get(self.metric)
        if own is not None or self.within_s <= 0:
            return own
        apart = item.group and view.has_group(self.metric, item.group)
        column = view.track(self.metric).column(item.group if apart else "")
        at = bisect_right(column.times, item.end) - 1
        within_s = self._fresh_s(column.times[max(0, at - _INTERVALS) : at + 1]) if self.fresh else self.within_s
        latest = None if at < 0 or column.times[at] < item.start - within_s else column.values[at]
        if not self.later_s:
            return latest
        later = column.values[at + 1 : bisect_right(column.times, item.end + self.later_s)]
        return max((value for value in (latest, *later) if value is not None), default=None)

    def _fresh_s(self, times: Sequence[float]) -> float:
        usual = percentile(sorted(after - before for before, after in pairwise(times)), 0.5) if len(times) > 1 else 0.0
        return min(self.within_s, self.fresh * max(1.0, usual))

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """No own value is beyond the limit; by the largest or the least one, where it is one limit."""
        if name != self.metric or not self.limits.one_sided:
            return False
        values = view.track(name).stream(source, group).values
        return not values or self.limits.level(name, self.limits.extreme(values), view) is Level.NO

    def short(self, item: Item, view: View) -> float | None:
        """The part beyond the limit."""
        value = self.value(item, view) if self.part else None
        if value is None or self.limits.above is None or value <= self.limits.above:
            return None
        return min(1.0, (value - self.limits.above) / 100.0)

    def _shown(self, value: float) -> str:
        return format_value(value, self._unit())


@dataclass(frozen=True)
class Aggregate(Limited):
    """`stat` of the samples in the last `window_s` seconds, or the last `window_n` samples, or both.

    `share_above`, `share_below` (of `limit`) are percentages; `growth` is the last
    value over the first, `of_max` the last one in % of the largest, `at_max` the % of the samples that are as large as
    that, `of_usual` the median of the last three in % of what three quarters of those above 0 are below. `time_share`
    is the sum of durations (`_s`, `_ms`) in % of the time: of each log and group with two of them in the window, their
    mean. `times_above` is how often it rose above `limit`, `age` the number of seconds since it was above `limit` for
    the first time, in any log and group.
    `of = "mark"` counts marks instead. The window does not reach behind samples that the signature skips.

    `groups`: `all` samples of the metric count, not only those of the item's group; or those of the one group for which
    the statistic is `largest`, or `smallest`; `excess` is that of the item's group beyond the smallest one, `onward`
    the largest of other groups in logs that have samples of `via` of the item's group alone: what comes next in a
    pipeline. `during` is another metric (of the same group, if it has one): samples at
    which it is not above `during_above`, or not below `during_below` (0: no limit), count as 0.
    """

    costly: ClassVar[bool] = True
    stat: str
    of: str = "metric"
    window_s: float = 0.0
    window_n: int = 0
    least: int = 1
    limit: float = 0.0
    groups: str = ""
    via: Metric = ""
    during: Metric = ""
    during_above: float = 0.0
    during_below: float = 0.0

    def check(self, table: Table) -> None:
        """The statistic must be known, and the window not empty."""
        if self.stat not in (known := (*_STATS, *_PERCENTAGES, "times_above", "age")):
            raise table.wrong("stat", f"expected one of {', '.join(known)}")
        if bool(self.during) != bool(self.during_above or self.during_below):
            raise table.wrong("during", "expected together with during_above or during_below")
        if self.groups not in ("", *_OF_GROUPS):
            raise table.wrong("groups", f"expected one of {', '.join(_OF_GROUPS)}")
        if (self.groups == "onward") != bool(self.via):
            raise table.wrong("via", 'expected together with groups = "onward"')
        if self.of not in ("metric", "mark"):
            raise table.wrong("of", "expected metric or mark")
        bounded = self.window_s > 0 or (self.window_n > 0 and self.stat != "time_share")
        if not bounded and self.stat != "age":
            raise table.wrong("window_s", "expected window_s or window_n, above 0")

    @property
    def of_marks(self) -> bool:
        """It counts marks."""
        return self.of == "mark"

    def value(self, item: Item, view: View) -> float | None:
        """The statistic; None with fewer than `least` samples. A mark that never came counts as none."""
        if self.of_marks:
            return self._count(item, view)
        if self.stat == "time_share":
            return self._time_share(item, view)
        if self.stat == "age":
            first = view.track(self.metric).first_above(self.limit)
            return None if first is None or first > item.end else min(item.end - first, _LONG_S)
        if not self.groups:
            return self._of(item, view)
        if self.groups == "onward":
            return self._onward(item, view)
        track = view.track(self.metric)
        names = {""} if self.groups == "all" else {group for _, group in track.streams}
        values = (self._of(replace(item, group=group, floor=-inf), view) for group in names)
        best = min if self.groups in ("smallest", "excess") else max
        found = best((value for value in values if value is not None), default=None)
        if self.groups != "excess":
            return found
        own = self._of(item, view)
        return None if own is None or found is None else own - found

    def _onward(self, item: Item, view: View) -> float | None:
        """Of a log with several groups of `via` it is not known which of them is before which."""
        of_log: dict[int, set[str]] = {}
        for source, group in view.track(self.via).streams:
            of_log.setdefault(source, set()).add(group)
        found = []
        for (source, group), column in view.track(self.metric).streams.items():
            if group != item.group and of_log.get(source) == {item.group}:
                stop = bisect_right(column.times, item.end)
                values = column.values[bisect_right(column.times, item.end - self.window_s, 0, stop) : stop]
                if len(values) >= max(1, self.least):
                    found.append(_STATS[self.stat](values))
        return max(found, default=None)

    def _of(self, item: Item, view: View) -> float | None:
        column, start, stop = view.track(self.metric).window(item, self.window_n, self.window_s)
        if stop - start < max(1, self.least):
            return None
        if self.stat == "of_max":
            most = column.largest(start, stop)
            return 100.0 * column.values[stop - 1] / most if most > 0 else 100.0
        times, values = column.times[start:stop], column.values[start:stop]
        if self.stat == "at_max":
            most = max(values)
            return 100.0 * sum(value == most for value in values) / len(values)
        if self.during:
            values = self._then(times, values, item.group, view)
        if self.stat == "of_usual":
            newest, usual = self._usual(values)
            return 100.0 * newest / usual if usual else 100.0
        if self.stat == "times_above":
            return float(sum(before <= self.limit < value for before, value in pairwise((0.0, *values))))
        if self.stat in ("share_above", "share_below"):
            sign = 1.0 if self.stat == "share_above" else -1.0
            return 100.0 * sum(sign * value > sign * self.limit for value in values) / len(values)
        return _STATS[self.stat](values)

    def _then(self, times: Sequence[float], values: Sequence[float], group: str, view: View) -> list[float]:
        """The values, 0 for those at which the other metric was not beyond its limits."""
        other, found = view.track(self.during).column(group if view.has_group(self.during, group) else ""), []
        for time, value in zip(times, values, strict=True):
            at = bisect_right(other.times, time) - 1
            than = other.values[at] if at >= 0 else 0.0
            found.append(0.0 if than < self.during_above or 0.0 < self.during_below < than or at < 0 else value)
        return found

    def _time_share(self, item: Item, view: View) -> float | None:
        """Share that the durations of each log and group take of the time from the first of them to the item, in %."""
        per_s = 1000.0 if self.metric.endswith("_ms") else 1.0
        shares = []
        for (_, group), column in view.track(self.metric).streams.items():
            stop = bisect_right(column.times, item.end)
            start = bisect_right(column.times, item.end - self.window_s, 0, stop)
            if stop - start < max(2, self.least):
                continue
            # The first one began before it was reported: its time and its duration are not of the window.
            values = column.values[start + 1 : stop]
            if self.during:
                values = self._then(column.times[start + 1 : stop], values, group, view)
            took = sum(values) / per_s
            shares.append(100.0 * took / max(item.end - column.times[start], 1e-9))
        return min(100.0, sum(shares) / len(shares)) if shares else None

    @staticmethod
    def _usual(values: Sequence[float]) -> tuple[float, float]:
        """The newest value of a stream, and the usual one while it works, without peaks; of a few items a second, which
        are counted as whole numbers, the means of as many values as have some items."""
        working = [value for value in values if value > 0]
        each = ceil(_ITEMS * len(working) / sum(working)) if working else 0
        if each <= _NEWEST:
            return percentile(sorted(values[-_NEWEST:]), 0.5), percentile(sorted(working), 0.75) if working else 0.0
        sums = [0.0, *accumulate(values)]
        each = min(each, _TOGETHER, len(values))
        means = [(high - low) / each for low, high in zip(sums, sums[each:], strict=False)]
        return means[-1], percentile(sorted(mean for mean in means if mean > 0), 0.75)

    def _count(self, item: Item, view: View) -> float:
        track = view.marks.get(self.metric)
        if track is None:
            return 0.0
        column, start, stop = track.window(item, self.window_n, self.window_s)
        return float(sum(column.values[start:stop]))

    def short(self, item: Item, view: View) -> float | None:
        """The share by which the mean of the last values is below the usual one."""
        if self.stat != "of_usual" or self.groups not in ("", "all") or self.value(item, view) is None:
            return None
        of = replace(item, group="", floor=-inf) if self.groups else item
        column, start, stop = view.track(self.metric).window(of, self.window_n, self.window_s)
        usual, last = self._usual(column.values[start:stop])[1], column.values[max(start, stop - _NEWEST) : stop]
        return max(0.0, 1.0 - sum(last) / len(last) / usual) if usual else 0.0

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """A mark that never came; or no value beyond the limit, of a statistic that lies among the values."""
        if self.of_marks:
            above = self.limits.clear if self.limits.clear is not None else self.limits.above
            return self.metric not in view.marks and not self.limits.band and above is not None and above >= 0
        if name != self.metric or self.stat not in AMONG_VALUES or self.groups:
            return False
        column = view.track(name).column(group)
        if not len(column):
            return True
        if self.limits.one_sided:
            return self.limits.level(name, self.limits.extreme(column.values), view) is Level.NO
        worst = (max(column.values), min(column.values))
        return self.limits.band == "critical" and all(self.limits.level(name, v, view) is Level.NO for v in worst)

    def describe(self, item: Item, view: View) -> str:
        value = self.value(item, view)
        return f"{self.metric} not observed" if value is None else f"{self._name()} {self._shown(value)}"

    def words(self, item: Item, view: View) -> str:
        """In the words of its file where it holds; else what the statistic means."""
        value = self.value(item, view)
        if value is None or (self.say and self.judge(item, view).holds):
            return super().words(item, view)
        over = f"{self.window_n} samples" if self.window_n else short_duration(self.window_s)
        template = _IN_WORDS.get(self.stat, "{metric} {value} ({stat} of {over}, {bound})")
        bound, shown = self.limits.of_value(self.metric, value, self._unit(), view), self._shown(value)
        return template.format(
            metric=self.metric, value=shown, stat=self.stat, over=over, bound=bound, limit=self.limit
        )

    def _name(self) -> str:
        over = f"{self.window_n} samples" if self.window_n else f"{self.window_s:g} s"
        if self.during:
            bound = f"above {self.during_above:g}" if self.during_above else f"below {self.during_below:g}"
            over += f" (while {self.during} is {bound})"
        if self.stat == "time_share":
            return f"share of the time in {self.metric} over {over}"
        if self.stat == "age":
            return f"time since {self.metric} was first above {self.limit:g}"
        names = {
            "of_max": "last in % of the most",
            "at_max": "samples at the most, in %,",
            "of_usual": "last in % of the usual",
        }
        stat = names.get(self.stat, self.stat.replace("_", " "))
        if self.groups == "excess":
            return f"{stat} of {self.metric} over {over}, beyond the smallest of all groups,"
        if self.groups == "onward":
            return f"{stat} of {self.metric} over {over}, of what comes next in the pipeline,"
        return f"{stat} of {self.metric} over {over}"

    @property
    def _plain(self) -> bool:
        return self.of_marks or self.stat in ("count", "growth", "times_above")

    def _unit(self) -> str:
        if self.stat == "age":
            return "s"
        return "" if self._plain else "%" if self.stat in _PERCENTAGES else metric_unit(self.metric)

    def _shown(self, value: float) -> str:
        if self.stat in _PERCENTAGES:
            return f"{value:.0f} %"
        return f"{value:.3g}" if self._plain else format_value(value, self._unit())

    def metric_names(self) -> tuple[str, ...]:
        return () if self.of_marks else (self.metric, self.during) if self.during else (self.metric,)

    def other_names(self) -> tuple[str, ...]:
        return (self.metric,) if self.of_marks else ()
