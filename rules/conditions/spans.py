"""Conditions on the time of spans: what an item overlaps, what was over before its end, what runs empty during it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import inf
from typing import ClassVar

from perfmon.core import Table, format_seconds, format_share, format_value, metric_unit, percentile

from ..open_spans import LONGEST_S
from .base import Column, Item, Level, Limits, Metric, Name, Single, View


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
