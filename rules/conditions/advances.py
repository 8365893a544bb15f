"""The run goes on: its steps come as they use to, or all its engines generate."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.stats import median
from perfmon.units import format_seconds

from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..tracks import Track
    from ..view import View

_REMEMBERED = 64
"""Samples of steps that are looked back on."""
_OFTEN = 2


@dataclass(frozen=True)
class Advances(Condition):
    """Some component made its first step `since_s` ago or earlier, `least` in all, and the last no longer ago than
    `factor` usual intervals.

    Of a run without steps: all samples of the metric `busy` (requests that run in an engine) of the last `since_s`
    seconds are above zero, and there were some before.
    """

    type: ClassVar[str] = "advances"
    keys: ClassVar[tuple[str, ...]] = ("least", "factor", "since_s", "busy")
    least: int
    factor: float
    since_s: float
    busy: str
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        least, factor = int(table.number("least", 5)), table.number("factor", 3.0)
        return cls(least, factor, table.number("since_s", 60.0), table.text("busy", ""))

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where nothing tells of steps or requests."""
        if any(len(track) for track in view.steps.values()):
            return Level.CRITICAL if self._usual(item, view) is not None else Level.NO
        track = view.track(self.busy)
        first, stop = track.between(item.end - self.since_s, item.end)
        if stop - first < _OFTEN:
            return Level.UNKNOWN
        if not first:
            return Level.NO
        return Level.CRITICAL if min(track.values[first:stop]) > 0 else Level.NO

    def _usual(self, item: Item, view: View) -> float | None:
        """The interval of the steps that go on; None where none do."""
        for component, track in view.steps.items():
            if not len(track) or track.times[0] > item.end - self.since_s:
                continue
            stop = bisect_right(track.times, item.end)
            key = (component, f"advances by {self.least}", 0, stop)
            if key not in view.rhythms:
                view.rhythms[key] = self._rhythm(track, stop)
            last, usual = view.rhythms[key]
            if item.end - last <= self.factor * usual:
                return usual
        return None

    def _rhythm(self, track: Track, stop: int) -> tuple[float, float]:
        """(when the last step came, the usual interval): of several ranks that tell of a step the first counts."""
        began: dict[float, float] = {}
        for at in range(max(0, stop - _REMEMBERED), stop):
            began.setdefault(track.values[at], track.times[at])
        times = sorted(began.values())
        if len(times) < max(2, self.least):
            return float("-inf"), 0.0
        return times[-1], median([after - before for before, after in pairwise(times)])

    def describe(self, item: Item, view: View) -> str:
        """The rhythm."""
        usual = self._usual(item, view)
        if usual is not None:
            return f"a step every {format_seconds(usual)}"
        return f"{self.busy} all the time" if self.judge(item, view).holds else "no steps in the meantime"

    def explain(self) -> str:
        """In words."""
        busy = f", or {self.busy} above 0 all the time in a run without steps" if self.busy else ""
        since = f"for {self.since_s:g} s, at least {self.least}, the last within {self.factor:g} usual intervals"
        return f"steps continue: {since}{busy}"
