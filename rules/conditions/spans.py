"""Conditions on the time of spans: what an item overlaps, what was over before its end, what its parts add up to; and
on metrics in proportion to others.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import inf
from typing import ClassVar

from perfmon.core import Table, format_seconds, format_share, format_value, length, metric_unit, percentile, union

from ..open_spans import LONGEST_S
from .base import Column, Item, Level, Limits, Metric, Metrics, Name, Single, Track, View
from .values import Limited


@dataclass(frozen=True)
class Overlap(Single):
    """Overlaps a span of kind `span`, one whose `metric` is beyond the limits where a metric is given.

    It must share `least_share` of the item's time. With `none` the condition holds where there is no such span, nor,
    without a share, one that has started and may still continue; it is true of a run without any.
    """

    span: Name
    metric: Metric = ""
    limits: Limits | None = None
    least_share: float = 0.0
    none: bool = False

    def _begun(self, item: Item, view: View) -> bool:
        """One started before, without an end: it may share time with the item."""
        starts = () if self.least_share else view.begun.get(self.span, ())
        return any(start < item.end and item.start - start < LONGEST_S for start in starts)

    def _best(self, item: Item, view: View) -> tuple[Level, str]:
        if self.span not in view.span_kinds:
            return Level.UNKNOWN, f"no {self.span} logged"
        best, text = Level.NO, f"no such {self.span}"
        length = max(item.end - item.start, 1e-9)
        floor = -inf if self.limits is None else self.limits.floor(self.metric, view)
        for other in view.overlapping(self.span, item.start, item.end):
            value = other.values.get(self.metric)
            if self.limits is not None and (value is None or value <= floor):  # nearly all
                continue
            shared = min(item.end, other.end) - max(item.start, other.start)
            if shared / length < self.least_share:
                continue
            level = Level.CRITICAL
            if self.limits is not None and value is not None:
                level = self.limits.level(self.metric, value, view)
            if level > best:
                what = "" if value is None else f" with {self.metric} {format_value(value, metric_unit(self.metric))}"
                best, text = level, f"overlaps {self.span} {other.key}".rstrip() + what
        return best, text

    def judge(self, item: Item, view: View) -> Level:
        """Unknown when the run has no such spans at all, unless there should be none."""
        level = self._best(item, view)[0]
        if self.none:
            return Level.NO if level.holds or self._begun(item, view) else Level.CRITICAL
        return level

    def describe(self, item: Item, view: View) -> str:
        return self._best(item, view)[1]

    def explain(self) -> str:
        share = f" for {format_share(self.least_share)} of its time" if self.least_share else ""
        limits = f" with {self.limits.words(self.metric, metric_unit(self.metric))}" if self.limits else ""
        return f"overlaps {'no' if self.none else 'a'} {self.span}{limits}{share}"


@dataclass(frozen=True)
class EndedBefore(Single):
    """The span of kind `span` with the item's key ended before the last `ended_before` (a share) of the item's time.

    With `none` the condition holds where that is not so, or not known.
    """

    span: Name
    ended_before: float
    none: bool = False

    def _early_s(self, item: Item, view: View) -> float | None:
        """Seconds by which it was there before the item ended; None when that is unknown."""
        ends = [other.end for other in view.spans(self.span) if other.key == item.key] if item.key else []
        return item.end - max(ends) if ends else None

    def judge(self, item: Item, view: View) -> Level:
        """Unknown without such a span, unless there should be none."""
        early_s = self._early_s(item, view)
        was = early_s is not None and early_s >= self.ended_before * (item.end - item.start) > 0.0
        if self.none:
            return Level.NO if was else Level.CRITICAL
        return Level.UNKNOWN if early_s is None else Level.CRITICAL if was else Level.NO

    def describe(self, item: Item, view: View) -> str:
        early_s = self._early_s(item, view)
        if early_s is None:
            return f"no {self.span} of it logged"
        return f"{self.span} {item.key} over {format_seconds(max(0.0, early_s))} before"

    def explain(self) -> str:
        was = "was not" if self.none else "was"
        return f"the {self.span} of the same key {was} over for {format_share(self.ended_before)} of the time"


_LEAST_SAMPLES = 3
_FULL, _EMPTY = 0.75, 0.1
"""Of its usual level, and of the one at the start: so full an engine is that works, so little is left at the end."""
_INSTANT_S = 1e-3


def _usual(column: Column) -> float:
    """The usual level while there is one."""
    working = sorted(value for value in column.values if value > 0)
    return percentile(working, 0.75) if working else 0.0


def _is_of_a_step(item: Item, view: View) -> bool:
    """True for a span of a line that is the line of a step, too."""
    lines = {ref for ref, _ in item.refs}
    for track in view.steps.values():
        first, stop = track.between(item.end - _INSTANT_S, item.end + _INSTANT_S)
        if any(track.ref(at)[0] in lines for at in range(first, stop)):
            return True
    return False


@dataclass(frozen=True)
class Drained(Single):
    """`drains` (requests that run) of an engine falls sample by sample while the item lasts, from `least` or more to a
    tenth of that or less, for `least_share` of the item's time or more.

    An engine that is sent requests keeps its level, one that is stopped loses it at once. The level has to be near its
    usual one before the item, or it fell for another reason; and the item must not be one of the durations that the
    line of a step lists: when in the step it was is not known. The time counts from the start of the item to the last
    sample that is not 0: it is no longer than what was waited.
    """

    slots: ClassVar[tuple[str, ...]] = ("drained", "drain_share", "at_start")
    drains: Metric
    least: float = 4.0
    least_share: float = 0.5

    def _longest(self, item: Item, view: View) -> tuple[float, float]:
        """(seconds that the slowest engine took, what all that did held at the start); zeros where none did."""
        return view.once((self, item.start, item.end), lambda: self._looked_up(item, view))

    def _looked_up(self, item: Item, view: View) -> tuple[float, float]:
        took, held = 0.0, 0.0
        if _is_of_a_step(item, view):
            return took, held
        for key, column in view.track(self.drains).streams.items():
            first, stop = bisect_right(column.times, item.start), bisect_right(column.times, item.end)
            while stop > first and not column.values[stop - 1]:
                stop -= 1
            if stop - first < _LEAST_SAMPLES:
                continue
            levels = column.values[max(0, first - 1) : stop]
            inside = column.values[first:stop]
            falls = all(after < before for before, after in pairwise(inside)) and levels[0] >= inside[0]
            full = max(self.least, _FULL * view.once((type(self), self.drains, key), partial(_usual, column)))
            if falls and levels[0] >= full and inside[-1] <= _EMPTY * levels[0]:
                took, held = max(took, column.times[stop - 1] - item.start), held + levels[0]
        return took, held

    def judge(self, item: Item, view: View) -> Level:
        """Unknown without samples."""
        if not len(view.track(self.drains)):
            return Level.UNKNOWN
        took, _ = self._longest(item, view)
        return Level.CRITICAL if took > 0 and took >= self.least_share * (item.end - item.start) else Level.NO

    def short(self, item: Item, view: View) -> float | None:
        """The share of the item's time that it took."""
        return min(1.0, self._longest(item, view)[0] / max(item.end - item.start, 1e-9))

    def figures(self, item: Item, view: View) -> dict[str, str]:
        """The time that it took, of how much, and the level at its start."""
        took, held = self._longest(item, view)
        share = format_share(took / max(item.end - item.start, 1e-9))
        return {"drained": format_seconds(took), "drain_share": share, "at_start": f"{held:.0f}"} if took else {}

    def describe(self, item: Item, view: View) -> str:
        took, held = self._longest(item, view)
        if not took:
            return "no engine runs empty"
        lasted = format_seconds(item.end - item.start)
        return f"{self.drains} falls from {held:.0f} for {format_seconds(took)} of its {lasted}"

    def explain(self) -> str:
        share = format_share(self.least_share)
        return f"{self.drains} falls from {self.least:g} or more to a tenth for {share} of its time"


def overlap(table: Table) -> type[Single]:
    """With `ended_before` it must not overlap the end of the item; with `drains` engines run empty during it."""
    return Drained if "drains" in table.data else EndedBefore if "ended_before" in table.data else Overlap


# --- The parts of a duration, and the share of time that spans take ---

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
