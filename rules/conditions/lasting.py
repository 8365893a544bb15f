"""Conditions on what is usual: the item lasts far longer, a rate is less; samples in a row are beyond limits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar, NamedTuple

from perfmon.core import Table, format_seconds, format_share, format_value, median, metric_unit, percentile

from .base import Amount, ByKind, Explained, Item, Level, Limits, Metric, Metrics, Name, Single, View

_BLOCK, _FEWEST, _LAST = 10, 5, 3
"""Samples after which what is usual is found again, that show it, and that are the present."""


@dataclass(frozen=True)
class LongerThanUsual(Explained):
    """Longer than `factor` times what is usual for the log (or for the spans that are absent), and than `least_s`."""

    factor: float = 3.0
    least_s: float = 0.0

    def _met(self, item: Item, view: View) -> tuple[Level, str]:
        usual, length = item.values.get("usual_s", 0.0), item.end - item.start
        level = Level.CRITICAL if length > max(self.factor * usual, self.least_s) else Level.NO
        return level, f"nothing for {format_seconds(length)}, usual {format_seconds(usual)}"

    def explain(self) -> str:
        return f"longer than {self.factor:g}x what is usual and than {self.least_s:g} s"


@dataclass(frozen=True)
class LongerThanRhythm(Explained):
    """Longer than `least_s` and than any pause that goes with the run's rhythm so far; not met without a rhythm."""

    least_s: float = 0.0

    def _met(self, item: Item, view: View) -> tuple[Level, str]:
        proven = item.values.get("proven_s", inf)
        level = Level.CRITICAL if item.end - item.start > max(proven, self.least_s) else Level.NO
        if proven == inf:
            return level, "no rhythm is known that it breaks"
        usual = item.values.get("usual_s", 0.0)
        pace = f"progress usually every {format_seconds(usual)}" if usual > 0 else "no progress in a start"
        return level, f"{pace} (limit: {format_seconds(proven)})"

    def explain(self) -> str:
        return f"longer than {self.least_s:g} s and than the run's usual pace allows"


@dataclass(frozen=True)
class LongerThanEarlier(Explained):
    """Longer than `factor` times the median of those of its kind that ended before it, and than `least_s`.

    Where fewer than `known` have ended: longer than `built_in` of its kind, in seconds; without an entry it is unknown.
    With `own` only those of the item's own log count.
    """

    slots: ClassVar[tuple[str, ...]] = ("usual",)
    factor: float = 3.0
    least_s: Amount = 0.0
    known: int = 3
    own: bool = False
    built_in: ByKind = ()

    def _usual(self, item: Item, view: View) -> tuple[float, float] | None:
        """(what is usual, what is too long), in seconds."""
        kind = item.span.kind if item.span is not None else ""
        ended = [
            other.end - other.start
            for other in view.spans(kind)
            if other.end <= item.start and other is not item and (other.source == item.source or not self.own)
        ]
        if len(ended) >= self.known:
            usual = median(ended)
            return usual, max(self.factor * usual, self.least_s)
        bound = dict(self.built_in).get(kind)
        return None if bound is None else (bound, bound)

    def _met(self, item: Item, view: View) -> tuple[Level, str]:
        usual, length = self._usual(item, view), item.end - item.start
        if usual is None:
            return Level.UNKNOWN, f"lasted {format_seconds(length)}, usual is not known"
        level = Level.CRITICAL if length > usual[1] else Level.NO
        return level, f"lasted {format_seconds(length)}, usual {format_seconds(usual[0])}"

    def short(self, item: Item, view: View) -> float | None:
        usual, length = self._usual(item, view), item.end - item.start
        return None if usual is None or length <= 0 else max(0.0, 1.0 - usual[0] / length)

    def figures(self, item: Item, view: View) -> dict[str, str]:
        usual = self._usual(item, view)
        return {} if usual is None else {"usual": format_seconds(usual[0])}

    def explain(self) -> str:
        bounds = ", ".join(f"{kind} {format_seconds(seconds)}" for kind, seconds in self.built_in)
        least = f" and than {format_seconds(self.least_s)}" if self.least_s else ""
        text = f"longer than {self.factor:g}x the median of those before it{least}"
        return f"{text}; where fewer than {self.known} came before it, than {bounds}" if bounds else text

    def other_names(self) -> tuple[str, ...]:
        return tuple(kind for kind, _ in self.built_in)


@dataclass(frozen=True)
class LongerThanUndisturbed(Single):
    """Longer than `factor` times the median of the `span`s that overlap no `apart_from`."""

    span: Name
    apart_from: Name = ""
    factor: float = 3.0

    def median(self, view: View) -> float | None:
        """The median of the undisturbed ones in seconds; None where there are none."""

        def undisturbed() -> float | None:
            spans = view.alone(self.span, self.apart_from) if self.apart_from else view.spans(self.span)
            return median([item.end - item.start for item in spans]) if spans else None

        return view.once((type(self), self.span, self.apart_from), undisturbed)

    def _usual(self, view: View) -> float | None:
        usual = self.median(view)
        return None if usual is None or usual <= 0 else usual

    def judge(self, item: Item, view: View) -> Level:
        """Unknown without undisturbed peers."""
        usual = self._usual(view)
        if usual is None:
            return Level.UNKNOWN
        return Level.CRITICAL if item.end - item.start > self.factor * usual else Level.NO

    def describe(self, item: Item, view: View) -> str:
        usual = self._usual(view)
        if usual is None:
            return f"no undisturbed {self.span} to compare with"
        length = item.end - item.start
        return f"{format_seconds(length)}, {length / usual:.1f}x the undisturbed median"

    def explain(self) -> str:
        apart = f" without a {self.apart_from}" if self.apart_from else ""
        return f"longer than {self.factor:g}x the median {self.span}{apart}"


THAN: Mapping[str, type[Single]] = {
    "usual": LongerThanUsual,
    "rhythm": LongerThanRhythm,
    "earlier": LongerThanEarlier,
    "undisturbed": LongerThanUndisturbed,
}
"""By what it is longer `than`."""


# --- Samples in a row: a value that stays beyond a limit, or that does not move ---

_SO_FAR = 0.25
"""Of the time that it must last: a shorter row does not count yet."""


class Streak(NamedTuple):
    """Samples in a row that are beyond the limit."""

    samples: int = 0
    seconds: float = 0.0
    """From the first to the last one."""
    goes_on: bool = False
    """It reaches to the newest sample of a log that is watched."""


@dataclass(frozen=True)
class Lasts(Single):
    """The item's sample is one of at least `least` in a row, over `least_s` seconds, in which `metric` is beyond.

    With `so_far` a row that continues in a monitored run, for a quarter of that time already, holds so far: the finding
    is pending, and what it may explain waits for it. It may be the first of them, see `Unchanged`.
    Samples of the item's log and group; between two of a row lie `gap_s` seconds at most: what is printed only while
    there is work shows nothing about the time without a line.
    """

    costly: ClassVar[bool] = True
    metric: Metric
    limits: Limits
    least: int = 2
    least_s: Amount = 0.0
    gap_s: Amount = 0.0
    """0: however much."""
    so_far: bool = False

    def _streak(self, item: Item, view: View) -> Streak | None:
        column = view.track(self.metric).stream(item.source, item.group)
        at = column.place(item.end, item.values.get(self.metric, float("nan")))
        if at < 0 or column.times[at] < item.start:
            return None
        return self._all(item.source, item.group, view)[at]

    def _all(self, source: int, group: str, view: View) -> list[Streak]:
        column = view.track(self.metric).stream(source, group)
        return view.once((self, source, group), lambda: self._streaks(column.times, column.values, view))

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """No interval is long enough."""
        return not any(self._enough(streak) for streak in self._all(source, group, view))

    def _enough(self, streak: Streak) -> bool:
        return streak.goes_on or self._long(streak)

    def _long(self, streak: Streak) -> bool:
        return streak.samples >= self.least and streak.seconds >= self.least_s

    def unfinished(self, item: Item, view: View) -> bool:
        """The row is not as long as it must be."""
        streak = self._streak(item, view)
        return streak is not None and streak.goes_on and not self._long(streak)

    def _streaks(self, times: Sequence[float], values: Sequence[float], view: View) -> list[Streak]:
        streaks: list[Streak] = []
        begin = 0
        beyond = [self.limits.level(self.metric, value, view).holds for value in values]
        for at in range(1, len(values) + 1):
            near = at < len(values) and times[at] - times[at - 1] <= (self.gap_s or inf)
            if near and beyond[at] and beyond[at - 1]:
                continue
            goes_on = self.so_far and at == len(values) and view.present is not None
            goes_on = goes_on and times[at - 1] - times[begin] >= _SO_FAR * self.least_s
            streak = Streak(at - begin, times[at - 1] - times[begin], goes_on) if beyond[begin] else Streak()
            streaks += [streak] * (at - begin)
            begin = at
        return streaks

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where the metric has no sample at the item's time."""
        streak = self._streak(item, view)
        if streak is None:
            return Level.UNKNOWN
        return Level.CRITICAL if self._enough(streak) else Level.NO

    def describe(self, item: Item, view: View) -> str:
        streak = self._streak(item, view)
        limit = self.limits.words(self.metric, metric_unit(self.metric))
        return f"{self.metric} not observed" if streak is None else f"{limit} for {format_seconds(streak.seconds)}"

    def explain(self) -> str:
        limit = self.limits.words(self.metric, metric_unit(self.metric))
        return f"{limit} in at least {self.least} samples in a row, for {self.least_s:g} s"


@dataclass(frozen=True)
class Unchanged(Single):
    """The item's sample is one of at least `least` in a row in which each of `metrics` moves by `tolerance` at most.

    It may be the first of them: what stands still is judged from the first sample on, once the others are there. With
    `falls` values that only become smaller count as unchanged, too. Of a metric's samples those of the item's log and
    group are looked at.
    """

    costly: ClassVar[bool] = True
    metrics: Metrics
    tolerance: float = 0.0
    least: int = 3
    falls: bool = False

    def check(self, table: Table) -> None:
        """One sample is always the same."""
        if self.least < 2:
            raise table.wrong("least", "expected 2 or more")

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where one of the metrics has no sample at the item's time."""
        level = Level.CRITICAL
        for metric in self.metrics:
            column = view.track(metric).stream(item.source, item.group)
            at = column.place(item.end, item.values.get(metric, float("nan")))
            if at < 0 or column.times[at] < item.start:
                return Level.UNKNOWN
            if self._lengths(metric, item.source, item.group, view)[at] < self.least:
                level = Level.NO
        return level

    def _lengths(self, metric: str, source: int, group: str, view: View) -> Sequence[int]:
        """For each sample how many are in its row."""
        values = view.track(metric).stream(source, group).values
        return view.once((self, metric, source, group), lambda: self._rows(values))

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """One of the metrics moves all the time."""
        rows = (self._lengths(metric, source, group, view) for metric in self.metrics)
        return any(max(lengths, default=0) < self.least for lengths in rows)

    def _rows(self, values: Sequence[float]) -> list[int]:
        lengths: list[int] = []
        begin = 0
        for at in range(1, len(values) + 1):
            step = values[at] - values[at - 1] if at < len(values) else inf
            if step <= self.tolerance and (self.falls or step >= -self.tolerance):
                continue
            lengths += [at - begin] * (at - begin)
            begin = at
        return lengths

    def describe(self, item: Item, view: View) -> str:
        texts = []
        for metric in self.metrics:
            column = view.track(metric).stream(item.source, item.group)
            at = column.place(item.end, item.values.get(metric, float("nan")))
            texts.append(
                f"{metric} " + (format_value(column.values[at], metric_unit(metric)) if at >= 0 else "not observed")
            )
        return ", ".join(texts)

    def explain(self) -> str:
        how = "does not rise" if self.falls else "is the same"
        return f"{' and '.join(self.metrics)} {how} in {self.least} samples in a row"


@dataclass(frozen=True)
class Less(Single):
    """The mean of the last values of `metric` is by `least` % or more less than what three quarters of those above 0
    are below, of all until then that are kept, whatever part of the run is looked at: of those at which another metric,
    `during`, was below `during_below`."""

    costly: ClassVar[bool] = True
    metric: Metric
    least: float = 5.0
    during: Metric = ""
    during_below: float = inf

    def _history(self, item: Item, view: View) -> tuple[list[float], list[float], list[float]]:
        """Times and values, and these again where they define what is usual, else 0."""
        values, others = _of_log(self.metric, item, view), _of_log(self.during, item, view)
        seen = [time for time, _ in others]
        before = [bisect_right(seen, time) - 1 for time, _ in values]
        usual = [not self.during or (at >= 0 and others[at][1] < self.during_below) for at in before]
        known = [value * counts for (_, value), counts in zip(values, usual, strict=True)]
        return [time for time, _ in values], [value for _, value in values], known

    def _share(self, item: Item, view: View) -> float | None:
        """The share that is missing; None where nothing shows what is usual."""
        stream = (type(self), self.metric, self.during, item.source, item.group)
        times, values, known = view.once(stream, lambda: self._history(item, view))
        stop = bisect_right(times, item.end)
        block = stop - stop % _BLOCK  # the usual value is not looked up for each sample
        usual = view.once((*stream, block), lambda: _upper([value for value in known[:block] if value > 0]))
        newest = values[max(0, stop - _LAST) : stop]
        return 1.0 - sum(newest) / len(newest) / usual if usual > 0 else None

    def judge(self, item: Item, view: View) -> Level:
        """Unknown with few samples until then."""
        share = self._share(item, view)
        return Level.UNKNOWN if share is None else Level.CRITICAL if share >= self.least / 100.0 else Level.NO

    def short(self, item: Item, view: View) -> float | None:
        """That share, where it holds."""
        return max(0.0, self._share(item, view) or 0.0) if self.judge(item, view).holds else 0.0

    def describe(self, item: Item, view: View) -> str:
        share = self._share(item, view)
        if share is None:
            return f"{self.metric}{f' {self._usual()}' if self.during else ''} not observed"
        return f"{self.metric} {format_share(max(0.0, share))} less than {self._usual()}"

    def explain(self) -> str:
        return f"{self.metric} is by {self.least:g} % or more less than {self._usual()}"

    def _usual(self) -> str:
        return (
            f"with {self.during} below {self.during_below:g} {metric_unit(self.during)}".rstrip()
            if self.during
            else "usual"
        )


def _of_log(metric: str, item: Item, view: View) -> list[tuple[float, float]]:
    """The samples that are kept of a metric of the item's log and group, by time."""
    series = view.store.series.get((metric, item.group if view.has_group(metric, item.group) else ""))
    kept = () if series is None else (at for at in range(len(series)) if series.sources[at] == item.source)
    shift = view.shift(item.source)
    return sorted((series.times[at] + shift, series.values[at]) for at in kept) if series is not None else []


def _upper(values: Sequence[float]) -> float:
    """0.0 for too few of them."""
    return percentile(sorted(values), 0.75) if len(values) >= _FEWEST else 0.0


def steady(table: Table) -> type[Single]:
    """Of several `metrics` none moves; of one `metric` all are beyond limits."""
    return Unchanged if "metrics" in table.data else Lasts
