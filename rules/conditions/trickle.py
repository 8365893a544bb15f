"""An engine makes next to nothing for each request that it runs, beside what it made before or what its peers make."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.stats import median, percentile

from ..wording import format_share
from .base import Condition, Level

if TYPE_CHECKING:
    from ..columns import Column
    from ..items import Item
    from ..view import View

_LEAST = 5
"""So many samples tell what is usual."""


@dataclass(frozen=True)
class Trickle(Condition):
    """`metric` for each of `per` is below `share` of what is usual, and below `below`.

    Usual is what a quarter of the stream's own samples until then stayed under (and the mean over all of them, if that
    is less: few requests at once are served faster), of those that were not below `below`; where there were too few of
    these, the median of its peers, the other logs and groups.
    """

    type: ClassVar[str] = "trickle"
    costly: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("metric", "per", "share", "below")
    metric: str
    per: str
    share: float
    below: float
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        return cls(table.text("metric"), table.text("per"), table.number("share", 5.0), table.required_number("below"))

    def _rates(self, source: int, group: str, view: View) -> tuple[Sequence[float], Sequence[tuple[float, float]]]:
        """Times of the samples at which something runs, with what is made and how much runs."""
        key = (self, source, group)
        found = view.worked_out.get(key)
        if not isinstance(found, tuple):
            made = view.track(self.metric).stream(source, group)
            running = view.track(self.per).stream(source, group)
            pairs = [(time, _at(running, time), value) for time, value in zip(made.times, made.values, strict=True)]
            held = [(time, (value, per)) for time, per, value in pairs if per]
            found = view.worked_out[key] = ([time for time, _ in held], [pair for _, pair in held])
        return found

    def _usual(self, item: Item, view: View) -> float | None:
        times, pairs = self._rates(item.source, item.group, view)
        before = [pair for pair in pairs[: bisect_right(times, item.end)] if pair[0] >= self.below * pair[1]]
        if len(before) >= _LEAST:
            each = sorted(made / per for made, per in before)
            return min(percentile(each, 0.25), sum(made for made, _ in before) / sum(per for _, per in before))
        track = view.track(self.metric)
        keys = {(track.source(at), track.group(at)) for at in range(len(track))} if track.only is None else set()
        peers = []
        for source, group in keys - {(item.source, item.group)}:
            theirs = [made / per for made, per in self._rates(source, group, view)[1]]
            if len(theirs) >= _LEAST:
                peers.append(median(theirs))
        return median(peers) if peers else None

    def _own(self, item: Item, view: View) -> float | None:
        times, pairs = self._rates(item.source, item.group, view)
        at = bisect_right(times, item.end) - 1
        return pairs[at][0] / pairs[at][1] if at >= 0 and times[at] >= item.start else None

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """What is made for each is never that little."""
        return all(made >= self.below * per for made, per in self._rates(source, group, view)[1])

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where nothing runs, or nothing tells what is usual."""
        own = self._own(item, view)
        if own is None:
            return Level.UNKNOWN
        if own >= self.below:
            return Level.NO
        usual = self._usual(item, view)
        if usual is None:
            return Level.UNKNOWN
        return Level.CRITICAL if own < self.share / 100.0 * usual else Level.NO

    def describe(self, item: Item, view: View) -> str:
        """What is made, and what is usual."""
        own, usual = self._own(item, view), self._usual(item, view)
        if own is None or usual is None:
            return f"{self.metric} / {self.per}: the usual value is unknown"
        return f"{self.metric} / {self.per} {own:.3g}, {format_share(own / usual) if usual > 0 else '-'} of the usual"

    def explain(self) -> str:
        """In words."""
        usual = "of its own usual value, or of that of its peers"
        return f"{self.metric} / {self.per} < {self.share:g} % {usual}, and < {self.below:g}"


def _at(column: Column, time: float) -> float | None:
    at = bisect_right(column.times, time) - 1
    return column.values[at] if at >= 0 and column.times[at] == time else None
