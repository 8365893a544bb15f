"""The course of a metric: a rate that falls, a level that grows towards its limit."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise
from math import inf, isfinite, sqrt
from typing import ClassVar, Generic, TypeVar

from perfmon.core import (
    format_seconds,
    format_share,
    format_value,
    median,
    metric_unit,
    percentile,
    slope,
)

from ..interruptions import restarts_of
from ..runs import boundaries
from .base import Amount, Column, Item, Level, Metric, Metrics, RunView, Single, View

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
_MOST = 1024
"""Samples that are looked at of a long history."""
_EARLIER = 200
"""Samples that are looked at of what came before the part that is judged."""
_RISES = 6
"""Of the seven steps between parts."""
_GOES_ON = 0.5
"""Of the mean slope: so steep its last quarter still is."""
_SOON_S = 1.0
"""Nearer than that the level is at its limit."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Trend(Single, Generic[_T]):
    """Something that one look at all samples of a metric of the item's log and group finds, or does not."""

    costly: ClassVar[bool] = True
    absent: ClassVar[str]
    """The text for a metric in which it is not found."""
    metric: Metric

    @abstractmethod
    def _look(self, source: int, group: str, view: View) -> _T | None:
        """The finding in the samples of a log and group."""

    @abstractmethod
    def _figures_of(self, found: _T, view: View) -> dict[str, str]:
        """Its figures, by the names in `slots`."""

    def _in_words(self, figures: Mapping[str, str]) -> str:
        """Its figures in words: those of a change, if a subclass has no other ones."""
        return f"{self.metric} from {figures['before']} to {figures['after']}"

    @abstractmethod
    def _holds(self, item: Item, found: _T) -> bool:
        """It is found in the item's own sample."""

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where the item has no value of the metric."""
        if self.metric not in item.values:
            return Level.UNKNOWN
        found = self._found(item.source, item.group, view)
        return Level.CRITICAL if found is not None and self._holds(item, found) else Level.NO

    def _found(self, source: int, group: str, view: View) -> _T | None:
        return view.once((self, source, group), lambda: self._look(source, group, view))

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """Nothing of the kind is found."""
        return name != self.metric or self._found(source, group, view) is None

    def figures(self, item: Item, view: View) -> dict[str, str]:
        """Those of what is found."""
        found = self._found(item.source, item.group, view)
        return {} if found is None else self._figures_of(found, view)

    def describe(self, item: Item, view: View) -> str:
        figures = self.figures(item, view)
        return self._in_words(figures) if figures else f"{self.metric} {self.absent}"


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
class Fall(Trend[Fallen]):
    """`metric` has fallen by `least` % or more and stays there; with `rising` its inverse has: of the time of a step.

    A change between two medians: the upper quarter of what came later lies below the lower quarter of what came
    before, the fall is more than three times what neighbours differ by, and most of it is left at the end. Or a
    decline from one eighth of the samples to the next. The start is left out. It is none where the medians of one of
    `same` (what a step is given to do) differ by more than a tenth between before and after.
    """

    absent: ClassVar[str] = "has not fallen"
    slots: ClassVar[tuple[str, ...]] = ("before", "after", "drop", "since", "how")
    least: float = 10.0
    least_s: Amount = 60.0
    rising: bool = False
    same: Metrics = ()

    def _look(self, source: int, group: str, view: View) -> Fallen | None:
        """In the part that is looked at; in a watched run where all of that is slow, with what came before it."""
        column = view.track(self.metric).stream(source, group)
        found = self._fallen(column, source, group, view)
        if found is None and view.present is not None and column.times:
            found = self._fallen(_with_history(column, self.metric, source, group, view), source, group, view)
        return found

    def _fallen(self, column: Column, source: int, group: str, view: View) -> Fallen | None:
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
                return Fallen(change, *self._as_printed(before, after), 1.0 - after / before, steady)
        return None

    def _as_printed(self, before: float, after: float) -> tuple[float, float]:
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
            if begin < view.window[0]:
                column = _with_history(column, metric, source, group, view)
            first, at = bisect_left(column.times, begin), bisect_left(column.times, change)
            before, after = column.values[first:at], column.values[at:]
            if not before or not after:
                continue
            low, high = sorted((median(before), median(after)))
            if high > 0 and high - low > 0.1 * high:
                return False
        return True

    def _holds(self, item: Item, found: Fallen) -> bool:
        """Every sample since the fall that has not recovered."""
        value, middle = item.values[self.metric], (found.before + found.after) / 2
        return item.end >= found.time and (value > middle if self.rising else value < middle)

    def short(self, item: Item, view: View) -> float | None:
        """Share of the item's time that would not have been needed at the earlier rate."""
        found, value = self._found(item.source, item.group, view), item.values.get(self.metric)
        if found is None or value is None or value <= 0:
            return None
        return max(0.0, 1.0 - (found.before / value if self.rising else value / found.before))

    def _figures_of(self, found: Fallen, view: View) -> dict[str, str]:
        unit = metric_unit(self.metric)
        return {
            "before": format_value(found.before, unit),
            "after": format_value(found.after, unit),
            "drop": format_share(found.share),
            "since": step_at(found.time, view),
            "how": "declined steadily" if found.steady else "stepped down",
        }

    def explain(self) -> str:
        what = f"1 / {self.metric}" if self.rising else self.metric
        same = f" while {' and '.join(self.same)} stays as it is" if self.same else ""
        return f"{what} has fallen by {self.least:g} % or more, and stays there{same}"


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of a level."""

    since: float
    until: float
    first: float
    last: float
    per_h: float
    full_in_s: float
    """0 where it would be full by now: it grows more slowly than it did."""


@dataclass(frozen=True)
class Grows(Trend[Growth]):
    """`metric` of the item's log and group has grown by `least` or more over `least_s` or more, and will reach `limit`
    within `within_s` (within `critical_s` it is critical, else a warning). Without a limit it must
    have grown by `least_share` % of what it was, too, and is a warning. With `ahead` the limit is at most so many times
    as far ahead as the history reaches back.

    Of eight parts of its history, medians of each, six or more of the seven steps rise, none loses a quarter of all
    growth, and the last quarter rises at least half as fast as all: what fills and stays full is none. All the history
    counts that is kept, whatever part of the run is looked at.

    With `everywhere` it is the one of the run that reaches its limit first, instead of the item's; of its figures only
    when that is.
    """

    absent: ClassVar[str] = "does not grow steadily"
    slots: ClassVar[tuple[str, ...]] = ("from", "to", "per_hour", "over", "full_in")
    limit: float = 0.0
    least: float = 5.0
    least_share: float = 0.0
    least_s: Amount = 1800.0
    within_s: Amount = 6 * 3600.0
    critical_s: Amount = 3600.0
    ahead: Amount = 0.0
    everywhere: bool = False

    def _found(self, source: int, group: str, view: View) -> Growth | None:
        if not self.everywhere:
            return super()._found(source, group, view)
        return view.once((self,), lambda: self._first_to_be_full(view))

    def _first_to_be_full(self, view: View) -> Growth | None:
        grown = [
            found
            for (metric, group), series in view.store.series.items()
            if metric == self.metric
            for source in sorted(set(series.sources))
            if (found := self._look(source, group, view)) is not None
        ]
        return min(grown, key=lambda one: one.full_in_s, default=None)

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """It depends on others where it counts everywhere."""
        return not self.everywhere and super().barren(name, source, group, view)

    def _look(self, source: int, group: str, view: View) -> Growth | None:
        points = _kept(self.metric, source, group, view, _MOST)
        points = points[: bisect_left(points, (view.window[1] + 1e-6,))]
        if len(points) < 4 * _PARTS or points[-1][0] - points[0][0] < self.least_s:
            return None
        size = len(points) / _PARTS
        parts = [points[round(at * size) : round((at + 1) * size)] for at in range(_PARTS)]
        levels = [median([value for _, value in part]) for part in parts]
        steps = [after - before for before, after in pairwise(levels)]
        growth = levels[-1] - levels[0]
        if (
            growth < max(self.least, self.least_share / 100.0 * levels[0])
            or sum(step > 0 for step in steps) < _RISES
            or min(steps) < -growth / 4
        ):
            return None
        per_s = slope(points)
        if per_s <= 0 or slope([point for part in parts[-2:] for point in part]) < _GOES_ON * per_s:
            return None
        since_last_s = points[-1][0] - median([time for time, _ in parts[-1]])
        full_in_s = max(0.0, (self.limit - levels[-1]) / per_s - since_last_s) if self.limit else inf
        return Growth(points[0][0], points[-1][0], levels[0], levels[-1], per_s * 3600.0, full_in_s)

    def _holds(self, item: Item, found: Growth) -> bool:
        """For all of its samples: it lasts as long as the level has grown."""
        farthest = min(self.within_s, self.ahead * (found.until - found.since) if self.ahead else inf)
        since = self.everywhere or item.end >= found.since
        return since and not (self.limit and found.full_in_s > farthest)

    def judge(self, item: Item, view: View) -> Level:
        found = self._found(item.source, item.group, view)
        if found is None and self.everywhere and not len(view.track(self.metric)):
            return Level.UNKNOWN
        if found is None or not self._holds(item, found):
            return Level.NO
        return Level.CRITICAL if found.full_in_s <= self.critical_s else Level.WARNING

    def _figures_of(self, found: Growth, view: View) -> dict[str, str]:
        unit = metric_unit(self.metric)
        if self.everywhere:
            return {"full_in": self._when(found)} if self.limit else {}
        return {
            "from": format_value(found.first, unit),
            "to": format_value(found.last, unit),
            "per_hour": format_value(found.per_h, unit),
            "over": format_seconds(view.window[1] - found.since),
            "full_in": self._when(found),
        }

    def _when(self, found: Growth) -> str:
        return format_seconds(found.full_in_s) if self.limit and found.full_in_s >= _SOON_S else ""

    def _in_words(self, figures: Mapping[str, str]) -> str:
        speed = f" by {figures['per_hour']} an hour" if "per_hour" in figures else ""
        full = f", full in {figures['full_in']}" if figures.get("full_in") else ", nearly full" if self.limit else ""
        return f"{self.metric} grows{speed}{full}"

    def explain(self) -> str:
        least, limit = (format_value(value, metric_unit(self.metric)) for value in (self.least, self.limit))
        when = f", and reaches {limit} within {format_seconds(self.within_s)}" if self.limit else ""
        share = f" and {self.least_share:g} %" if self.least_share else ""
        return f"{self.metric} grows steadily, by {least}{share} or more{when}"


def _kept(metric: str, source: int, group: str, view: RunView, most: int) -> list[tuple[float, float]]:
    """(time, value) of a metric of one log and group in all the history that is kept: at most so many, evenly taken."""
    series = view.store.series.get((metric, group))
    if series is None:
        return []
    stride, shift = -(-len(series) // most) or 1, view.shift(source)
    return sorted(
        (series.times[at] + shift, series.values[at])
        for at in range((len(series) - 1) % stride, len(series), stride)
        if series.sources[at] == source
    )


def _with_history(column: Column, metric: str, source: int, group: str, view: RunView) -> Column:
    """The samples of the part that is looked at, after some of what came before it."""
    points = _kept(metric, source, group, view, _EARLIER)
    before = points[: bisect_left(points, (view.window[0],))]
    return Column(
        [*(time for time, _ in before), *column.times],
        [*(value for _, value in before), *column.values],
    )


# --- Changes of the level of a series: one split in two, found with sums and checked with medians ---

_BLOCKS = 200
"""A longer series is looked at in so many blocks of neighbours."""
_MAD = 1.4826
"""Times the median deviation is the standard deviation of normal noise."""


def in_blocks(values: Sequence[float]) -> tuple[list[float], int]:
    """(medians of blocks of neighbours, samples in a block): the values themselves where there are few."""
    size = -(-len(values) // _BLOCKS) or 1
    if size == 1:
        return list(values), 1
    return [median(values[at : at + size]) for at in range(0, len(values), size)], size


def split(values: Sequence[float], least: int) -> int | None:
    """The index that best splits values into larger and later smaller ones; None where there are too few.

    Both sides have at least `least` values. Noise moves the split a little; its significance is checked elsewhere.
    """
    count = len(values)
    if count < 2 * least:
        return None
    sums = list(accumulate(values, initial=0.0))

    def gain(at: int) -> float:
        fall = sums[at] / at - (sums[count] - sums[at]) / (count - at)
        return fall * sqrt(at * (count - at))

    return max(range(least, count - least + 1), key=gain)


def spread(values: Sequence[float]) -> float:
    """Standard deviation of values, without minding those that stand out."""
    middle = median(values)
    return _MAD * median([abs(value - middle) for value in values])


def noise(values: Sequence[float]) -> float:
    """Standard deviation of the differences of neighbours: a trend does not count."""
    steps = [abs(after - before) for before, after in pairwise(values)]
    return _MAD * median(steps) / sqrt(2) if steps else 0.0


def since_restart(column: Column, view: RunView) -> int:
    """The first sample of the latest run in the logs: what another one did is no measure."""
    begins = [restart.between[1] for restart in view.fact(restarts_of)]
    begins += [one.time for one in view.fact(boundaries) if one.from_start]
    return bisect_right(column.times, max(begins)) if begins else 0


def steps_fall_back(source: int, start: float, end: float, view: RunView) -> bool:
    """True where the step numbers of a log restart in a range: another phase need not be like the last one."""
    for track in view.steps.values():
        first, stop = track.between(start, end)
        numbers = [track.values[at] for at in range(max(0, first - 1), stop) if track.source(at) == source]
        if any(after < before for before, after in pairwise(numbers)):
            return True
    return False


def step_at(time: float, view: RunView) -> str:
    """The number of the last step that was printed by then; "" where none was, or no line has a time."""
    number = ""
    newest = float("-inf")
    for track in view.steps.values() if view.timed else ():
        at = bisect_right(track.times, time) - 1
        if at >= 0 and track.times[at] > newest:
            newest, number = track.times[at], f"{track.values[at]:.0f}"
    return number
