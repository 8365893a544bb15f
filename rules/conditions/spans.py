"""The item shares time with a span of another kind, or what it waits for was over before it ended."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from perfmon.core import Table, format_seconds, format_share, format_value, metric_unit

from ..open_spans import LONGEST_S
from .base import Level, Limits, Metric, Name, Single

if TYPE_CHECKING:
    from ..run_facts import View
    from ..tracks import Item


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


def overlap(table: Table) -> type[Single]:
    """With `ended_before` it must not overlap the end of the item."""
    return EndedBefore if "ended_before" in table.data else Overlap
