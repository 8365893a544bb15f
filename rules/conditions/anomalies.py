"""Anomalies in the course of a metric: a jump, values that are no numbers, slow samples in a rhythm."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, log10
from typing import ClassVar

from perfmon.core import BEGINS_WITH, UNDER_WAY, format_value, median, metric_unit

from ..death_of_run import over_at
from ..run_facts import last_checkpoint
from .base import Item, Level, Metric, Names, Single, Track, View
from .trends import Trend, in_blocks, since_restart, split, spread, step_at, steps_fall_back

_BASE = 64
"""Blocks before the jump that define what was usual."""
_LEAST = 10
_BACK = 0.5
"""Of the jump: what has come back by so much is on its way."""
_DECADES = 3.0
"""Orders of magnitude: values that span more are looked at by their logarithms, and may have grown by as many."""
_HUGE = 100.0
"""What has grown by orders of magnitude and is still small was tiny at the start, as gradients are in a warm-up."""
_LEVEL, _APART = 0.3, 1.0
"""Decades: two parts of a level differ by no more; all that is no longer of it lies so far above."""
_HELD = 20
"""Samples of a level from which something grows."""
_LEAST_SLOW = 4
"""Slow ones in a rhythm."""
_REGULAR = 0.8
"""Share of the distances between them that are the usual one, or one more or less."""
_DEVIATIONS = 6.0
_LOOKED_AT = 4096
"""Samples at the end of a stream."""
_OFTEN = 2
_NEARLY_EACH, _MANY_MARKS = 0.9, 100
SUFFIX = "_not_finite"
"""Behind the name of a metric: the mark of its samples that are NaN or infinite; they are no samples."""
Tail = tuple[int, int, bool]
"""(line of the first, how many, whether a finite sample came before them): those at the end of a stream."""


@dataclass(frozen=True, slots=True)
class Jumped:
    """A jump of a stream."""

    base: float
    """Since when."""
    time: float
    before: float
    after: float


@dataclass(frozen=True)
class Jump(Trend[Jumped]):
    """The item's sample lies behind a jump of `metric` beyond `deviations` robust deviations above what it was.

    All samples from there to the end of the stream, ten or more, lie beyond half of that, and their medians beyond all
    of it and beyond `times` the earlier median, and not below `least`; they are not on their way back. A deviation is
    at least `floor` (a share) of the earlier median: loss that hardly varies varies by its digits. Or they have grown
    by three orders of magnitude from a level that was held first: not from the start, as in a warm-up.
    """

    absent: ClassVar[str] = "has not jumped"
    slots: ClassVar[tuple[str, ...]] = ("before", "after", "step", "checkpoint")
    deviations: float = 10.0
    times: float = 1.0
    floor: float = 0.03
    least: float = 0.0
    orders: bool = False
    """Only growth by orders of magnitude counts."""

    def _look(self, source: int, group: str, view: View) -> Jumped | None:
        track = view.track(self.metric)
        column = track.stream(source, group)
        first = max(since_restart(column, view), _since_epochs_restart(track, source, group, view))
        samples = zip(column.times[first:], column.values[first:], strict=True)
        finite = [(time, value) for time, value in samples if isfinite(value)]
        times, values = [time for time, _ in finite], [value for _, value in finite]
        jumped = self._grown(times, values) or (None if self.orders else self._jumped(times, values))
        if jumped is not None and steps_fall_back(source, jumped.base, times[-1], view):
            return None
        return jumped

    def _jumped(self, times: Sequence[float], values: Sequence[float]) -> Jumped | None:
        blocks, size = in_blocks(values)
        at = split([-value for value in blocks], max(3, -(-_LEAST // size)))
        if at is None:
            return None
        base, after = blocks[max(0, at - _BASE) : at], blocks[at:]
        usual = median(base)
        deviation = max(spread(base), self.floor * abs(usual), 1e-9)
        limit, level = usual + self.deviations * deviation, median(after)
        if level <= limit or level < max(self.times * usual, self.least) or min(after) <= usual + (limit - usual) / 2:
            return None
        third = max(1, len(after) // 3)
        if (
            not _was_held(base)
            or _is_climb(base)
            or median(after[-third:]) - usual < _BACK * (median(after[:third]) - usual)
        ):
            return None
        return Jumped(times[max(0, at - _BASE) * size], times[at * size], usual, level)

    def _grown(self, times: Sequence[float], values: Sequence[float]) -> Jumped | None:
        blocks, size = in_blocks(values)
        if len(values) < 2 * _LEAST or min(blocks) <= 0 or max(blocks) < 10**_DECADES * min(blocks):
            return None
        powers = [log10(value) for value in blocks]
        at = split([-power for power in powers], max(3, -(-_LEAST // size)))
        if at is None:
            return None
        quarter, third = max(1, at // 4), max(1, (len(powers) - at) // 3)
        first, after = powers[: 2 * quarter], powers[at:]
        usual, level = median(first), median(after[-third:])
        held = 2 * quarter * size >= _HELD and _was_held(blocks[:at])
        back = level < median(after[:third]) - _LEVEL
        far = usual + max(_APART, _DEVIATIONS * spread(first))
        if not held or back or level < max(usual + _DECADES, log10(max(_HUGE, self.least))) or min(after) <= far:
            return None
        since = next(begin for begin in range(at, 0, -1) if begin == 1 or powers[begin - 1] <= far)
        return Jumped(times[0], times[since * size], 10**usual, 10**level)

    def _holds(self, item: Item, found: Jumped) -> bool:
        return item.end >= found.time

    def _figures_of(self, found: Jumped, view: View) -> dict[str, str]:
        unit = metric_unit(self.metric)
        values = {"before": format_value(found.before, unit), "after": format_value(found.after, unit)}
        return values | {"step": step_at(found.time, view), "checkpoint": _checkpoint_before(found.time, view)}

    def explain(self) -> str:
        jumped = "" if self.orders else f"jumped by more than {self.deviations:g} robust deviations, or "
        return f"{self.metric} has {jumped}grown by three orders of magnitude, and does not come back"


def _since_epochs_restart(track: Track, source: int, group: str, view: View) -> int:
    """The first sample of a stream behind the last line at which the epochs of its log began again; 0: they did not.

    A log without a clock may hold several trainings, one behind the other.
    """
    falls = [
        fall.line
        for fall in view.store.progress.falls
        if fall.source == source and fall.kind.startswith("epoch")
        if fall.before >= UNDER_WAY and fall.after <= BEGINS_WITH
    ]
    if not falls:
        return 0
    of_stream = (at for at, key in enumerate(track.keys) if key == (source, group))
    return sum(track.ref(at)[0].line < max(falls) for at in of_stream)


@dataclass(frozen=True)
class NotFinite(Single):
    """The item marks a sample of `metric` that is NaN or infinite, as are all of its log and group after it.

    There are `least` or more of them, of a run that is over `least_when_over`. A scaler of gradients skips steps whose
    gradients are infinite, which is how it finds its scale: what comes back is nothing, and before any finite value it
    takes `least_at_start`.
    """

    slots: ClassVar[tuple[str, ...]] = ("step", "checkpoint")
    metric: Metric
    least: int = 2
    least_at_start: int = 0
    """0: as many."""
    least_when_over: int = 0
    """0: as many."""

    def _tail(self, item: Item, view: View) -> Tail:
        return view.once((self, item.source, item.group), lambda: self._at_end(item.source, item.group, view))

    def _at_end(self, source: int, group: str, view: View) -> Tail:
        marks = view.marks.get(self.metric + SUFFIX)
        finite = view.store.series.get((self.metric, group))
        numbers = (
            [] if finite is None else [n for n, log in zip(finite.lines, finite.sources, strict=True) if log == source]
        )
        last = max(numbers, default=-1)
        lines = (
            []
            if marks is None
            else [marks.ref(at)[0].line for at in range(len(marks)) if marks.keys[at] == (source, group)]
        )
        tail = [line for line in lines if line > last]
        return min(tail, default=0), len(tail), last >= 0

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """It is another mark, or none came."""
        return name != self.metric + SUFFIX or name not in view.marks

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where the item marks something else."""
        if self.metric + SUFFIX not in item.values:
            return Level.UNKNOWN
        first, count, before = self._tail(item, view)
        least = self.least if before else self.least_at_start or self.least
        if self.least_when_over and view.fact(over_at) is not None:
            least = self.least_when_over
        enough = count >= least
        return Level.CRITICAL if enough and item.refs[0][0].line >= first else Level.NO

    def figures(self, item: Item, view: View) -> dict[str, str]:
        """The step, and the last checkpoint before."""
        track = view.marks.get(self.metric + SUFFIX)
        if track is None or self.metric + SUFFIX not in item.values:
            return {}
        first = self._tail(item, view)[0]
        times = [track.times[at] for at in range(len(track)) if track.ref(at)[0][:2] == (item.source, first)]
        since = min(times, default=item.end)
        step = _step_on(item.source, first, view) or step_at(since, view)
        return {"step": step, "checkpoint": _checkpoint_before(since, view)}

    def describe(self, item: Item, view: View) -> str:
        return f"{self.metric} is not finite in its last {self._tail(item, view)[1]} samples"

    def explain(self) -> str:
        start = f" ({self.least_at_start} where there was none before)" if self.least_at_start > self.least else ""
        return f"{self.metric} is NaN or infinite in its last {self.least} samples or more{start}"


@dataclass(frozen=True)
class OfEachStep(Single):
    """The item is one of the marks `metric`, which came with nearly each of the last steps of its log, to its end.

    There are `least` or more of them. Without numbers of steps, the other ones may print nothing: then it is a warning
    where nearly all lines are such marks.
    """

    slots: ClassVar[tuple[str, ...]] = ("step", "checkpoint")
    metric: Metric
    least: int = 40

    def _since(self, item: Item, view: View) -> tuple[int, float, float, float]:
        return view.once((self, item.source), lambda: self._tail(item.source, view))

    def _tail(self, source: int, view: View) -> tuple[int, float, float, float]:
        """Line, time and step of the first mark that came with each step from there to the end, and how many did."""
        marks = view.marks.get(self.metric)
        own = [] if marks is None else [at for at in range(len(marks)) if marks.ref(at)[0].source == source]
        steps = sorted(
            (line, value)
            for series in view.store.steps.values()
            for line, value, index in zip(series.lines, series.values, series.sources, strict=True)
            if index == source
        )
        if marks is None or not own or len(steps) < _OFTEN:
            return self._by_lines(source, own, view) if marks is not None else (0, 0.0, 0.0, 0.0)
        lines = [line for line, _ in steps]
        interval = max(1.0, median([abs(b - a) for (_, a), (_, b) in pairwise(steps)]))
        last, found, count = steps[-1][1], (0, 0.0, 0.0, 0.0), 0.0
        for at in reversed(own):
            line = marks.ref(at)[0].line
            count += marks.values[at]
            before = bisect_right(lines, line) - 1
            step = steps[before][1] if before >= 0 else max(0.0, steps[0][1] - interval)
            if not 0.0 <= (last - step) * _NEARLY_EACH <= count + interval:
                break
            if count >= self.least:
                found = (line, marks.times[at], step, count)
        return found

    def _by_lines(self, source: int, own: Sequence[int], view: View) -> tuple[int, float, float, float]:
        """The same of a log without steps, with -1 for the step."""
        marks, lines = view.marks[self.metric], view.store.sources[source].lines
        count = sum(marks.values[at] for at in own)
        if count < _MANY_MARKS or count < _NEARLY_EACH * lines:
            return 0, 0.0, 0.0, 0.0
        return marks.ref(own[0])[0].line, marks.times[own[0]], -1.0, count

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """It is another mark, or none came."""
        return name != self.metric or name not in view.marks

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where the item marks something else."""
        if self.metric not in item.values:
            return Level.UNKNOWN
        line, _, step, count = self._since(item, view)
        if not count or item.refs[0][0].line < line:
            return Level.NO
        return Level.WARNING if step < 0 else Level.CRITICAL

    def figures(self, item: Item, view: View) -> dict[str, str]:
        """The first of these steps, and the last checkpoint before."""
        if self.metric not in item.values:
            return {}
        _, time, step, count = self._since(item, view)
        return {"step": f"{step:.0f}", "checkpoint": _checkpoint_before(time, view)} if count and step >= 0 else {}

    def describe(self, item: Item, view: View) -> str:
        return f"{self.metric} came with each of the last {self._since(item, view)[3]:.0f} steps"

    def explain(self) -> str:
        return f"{self.metric} comes with each of the last {self.least} steps or more"


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The slow samples (by their times), and their period."""

    slow: frozenset[float]
    period: int
    usual: float
    length: float
    """Median of the slow ones."""


@dataclass(frozen=True)
class Periodic(Trend[Rhythm]):
    """The item is one of the slow samples of `metric` (a time) that come once in so many, at least three.

    Only in a run whose lines report each single step: of one that prints some of them the others are unknown.
    Slow is longer than the median by `more` (a share of it) and by six robust deviations; together they cost `least` %
    of the time. Those that share their time with a span of the kinds `apart_from` do not count: what they are is known.
    """

    absent: ClassVar[str] = "has no rhythm of slow samples"
    slots: ClassVar[tuple[str, ...]] = ("period", "usual", "length")
    more: float = 0.25
    least: float = 2.0
    apart_from: Names = ()

    def _look(self, source: int, group: str, view: View) -> Rhythm | None:
        column = view.track(self.metric).stream(source, group)
        first = max(since_restart(column, view), len(column) - _LOOKED_AT)
        times, values = column.times[first:], column.values[first:]
        enough = len(values) >= 3 * _LEAST_SLOW and all(map(isfinite, values))
        if not enough or not _every_step(source, view):
            return None
        usual = median(values)
        limit = usual + max(self.more * usual, _DEVIATIONS * spread(values))
        slow = [at for at, value in enumerate(values) if value > limit]
        gaps = [after - before for before, after in pairwise(slow)]
        if len(slow) < _LEAST_SLOW or not gaps:
            return None
        period = Counter(gaps).most_common(1)[0][0]
        near = sum(abs(gap - period) <= (1 if period > 4 else 0) for gap in gaps)
        cost = sum(values[at] - usual for at in slow)
        known = sum(
            any(view.overlapping(kind, times[at] - values[at], times[at] + values[at], 1) for kind in self.apart_from)
            for at in slow
        )
        enough = cost >= self.least / 100.0 * sum(values) and known < len(slow) / 2
        if period < 3 or near < _REGULAR * len(gaps) or not enough:
            return None
        return Rhythm(frozenset(times[at] for at in slow), period, usual, median([values[at] for at in slow]))

    def _holds(self, item: Item, found: Rhythm) -> bool:
        return item.end in found.slow

    def short(self, item: Item, view: View) -> float | None:
        """Share of the item's time beyond the usual one."""
        found, value = self._found(item.source, item.group, view), item.values.get(self.metric, 0.0)
        return max(0.0, 1.0 - found.usual / value) if found is not None and value > 0 else None

    def _figures_of(self, found: Rhythm, view: View) -> dict[str, str]:
        unit = metric_unit(self.metric)
        usual, length = format_value(found.usual, unit), format_value(found.length, unit)
        return {"period": str(found.period), "usual": usual, "length": length}

    def _in_words(self, figures: Mapping[str, str]) -> str:
        return f"one {self.metric} in {figures['period']} is {figures['length']} instead of {figures['usual']}"

    def explain(self) -> str:
        return f"at regular intervals one {self.metric} is longer than the median by {self.more:.0%} or more"


def _was_held(values: Sequence[float]) -> bool:
    """True for values that do not grow from the first: their second quarter is less than twice that."""
    quarter = max(1, len(values) // 4)
    first, second = median(values[:quarter]), median(values[quarter : 2 * quarter])
    return first <= 0 or second <= first * 10**_LEVEL


def _is_climb(values: Sequence[float]) -> bool:
    """True for values that end at ten times what they began at: what follows is no jump."""
    quarter = max(1, len(values) // 4)
    return 0 < median(values[:quarter]) * 10**_APART < median(values[-quarter:])


def _every_step(source: int, view: View) -> bool:
    """True for a log that reports each step: their numbers are consecutive."""
    for track in view.steps.values():
        numbers = [track.values[at] for at in range(len(track)) if track.source(at) == source]
        distances = [after - before for before, after in pairwise(numbers) if after != before]
        if distances and median(distances) == 1:
            return True
    return False


def _step_on(source: int, line: int, view: View) -> str:
    """The number of the step that a line of a log reports; "" for none."""
    for series in view.store.steps.values():
        for other, value, index in zip(series.lines, series.values, series.sources, strict=True):
            if other == line and index == source:
                return f"{value:.0f}"
    return ""


def _checkpoint_before(time: float, view: View) -> str:
    """The step of the last checkpoint that was written by then; "" where none was, or no line reports its step."""
    saved = last_checkpoint(view, time)
    return "" if saved is None or saved.step is None else f"{saved.step:.0f}"
