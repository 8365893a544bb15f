"""A level grows steadily towards its limit."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.stats import median, slope
from perfmon.units import format_seconds, format_value, metric_unit

from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View

_PARTS = 8
_MOST = 1024
"""Samples that are looked at of a long history."""
_RISES = 6
"""Of the seven steps between parts."""
_GOES_ON = 0.5
"""Of the mean slope: so steep its last quarter still is."""
_NEWEST = 3


@dataclass(frozen=True, slots=True)
class Growth:
    """How a level has grown."""

    since: float
    newest: float
    """Time of the third newest sample: those from there on stand for it."""
    first: float
    last: float
    per_h: float
    full_in_s: float


@dataclass(frozen=True)
class Grows(Condition):
    """`metric` of the item's log and group has grown by `least` or more over `least_s` or more, and will reach `limit`
    within `within_s` (within `critical_s` it is critical, else a warning). Without a limit it must have grown by
    `least_share` % of what it was, too, and is a warning.

    Of eight parts of its history, medians of each, six or more of the seven steps rise, none loses a quarter of all
    growth, and the last quarter rises at least half as fast as all: what fills and stays full is none. All the history
    counts that is kept, whatever part of the run is looked at.
    """

    type: ClassVar[str] = "grows"
    costly: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("metric", "limit", "least", "least_share", "least_s", "within_s", "critical_s")
    tells: ClassVar[tuple[str, ...]] = ("from", "to", "per_hour", "over", "full_in")
    metric: str
    limit: float
    least: float
    least_share: float
    least_s: float
    within_s: float
    critical_s: float
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        return cls(
            table.text("metric"),
            table.number("limit", 0.0),
            table.number("least", 5.0),
            table.number("least_share", 0.0),
            table.amount("least_s", 1800.0),
            table.amount("within_s", 6 * 3600.0),
            table.amount("critical_s", 3600.0),
        )

    def _found(self, source: int, group: str, view: View) -> Growth | None:
        key = (self, source, group)
        if key not in view.worked_out:
            view.worked_out[key] = self._growth(source, group, view)
        found = view.worked_out[key]
        return found if isinstance(found, Growth) else None

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """Nothing of the kind is found."""
        return name != self.metric or self._found(source, group, view) is None

    def _growth(self, source: int, group: str, view: View) -> Growth | None:
        series = view.store.series.get((self.metric, group))
        if series is None or len(series) < 4 * _PARTS:
            return None
        stride = -(-len(series) // _MOST)
        shift = view.shifts.get(source, 0.0)
        points = sorted(
            (series.times[at] + shift, series.values[at])
            for at in range((len(series) - 1) % stride, len(series), stride)
            if series.sources[at] == source
        )
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
        newest = points[-min(len(points), _NEWEST)][0]
        return Growth(points[0][0], newest, levels[0], levels[-1], per_s * 3600.0, full_in_s)

    def judge(self, item: Item, view: View) -> Level:
        """For the newest samples."""
        found = self._found(item.source, item.group, view)
        if found is None or item.end < found.newest or (self.limit and found.full_in_s > self.within_s):
            return Level.NO
        return Level.CRITICAL if found.full_in_s <= self.critical_s else Level.WARNING

    def figures(self, item: Item, view: View) -> dict[str, str]:
        """From what to what, how fast, over which time, and until when."""
        found, unit = self._found(item.source, item.group, view), metric_unit(self.metric)
        if found is None:
            return {}
        return {
            "from": format_value(found.first, unit),
            "to": format_value(found.last, unit),
            "per_hour": format_value(found.per_h, unit),
            "over": format_seconds(view.window[1] - found.since),
            "full_in": format_seconds(found.full_in_s) if self.limit else "",
        }

    def describe(self, item: Item, view: View) -> str:
        """The slope and the forecast."""
        figures = self.figures(item, view)
        if not figures:
            return f"{self.metric} does not grow steadily"
        full = f", full in {figures['full_in']}" if self.limit else ""
        return f"{self.metric} grows by {figures['per_hour']} per hour{full}"

    def explain(self) -> str:
        """In words."""
        least, limit = (format_value(value, metric_unit(self.metric)) for value in (self.least, self.limit))
        when = f", and reaches {limit} within {format_seconds(self.within_s)}" if self.limit else ""
        share = f" and {self.least_share:g} %" if self.least_share else ""
        return f"{self.metric} grows steadily, by {least}{share} or more{when}"
