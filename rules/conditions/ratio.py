"""One metric as a multiple of another, summed over the same recent samples."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table

from .base import Condition, Level, Limits, Outcome

if TYPE_CHECKING:
    from ..view import Item, Track, View


@dataclass(frozen=True)
class Ratio(Condition):
    """sum of the last `window_n` samples of `metric` / sum of the last `window_n` of `over`."""

    type: ClassVar[str] = "ratio"
    keys: ClassVar[tuple[str, ...]] = ("metric", "over", "window_n", "window_s", *Limits.KEYS)
    metric: str
    over: str
    window_n: int
    window_s: float
    limits: Limits
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        limits = Limits.read(table)
        if limits.band:
            raise table.wrong("band", "a ratio has no band, expected above or below")
        return cls(
            table.text("metric"),
            table.text("over"),
            int(table.number("window_n", 3)),
            table.number("window_s", 3600.0),
            limits,
        )

    def _sum(self, track: Track, end: float, group: str) -> float | None:
        stop = bisect_right(track.times, end)
        start = max(0, stop - self.window_n)
        values = [
            track.values[at]
            for at in range(start, stop)
            if track.times[at] >= end - self.window_s and (not group or track.group(at) in ("", group))
        ]
        return sum(values) / len(values) if values else None

    def judge(self, item: Item, view: View) -> Outcome:
        """Unknown when one of the two has no recent sample or the divisor is not positive."""
        part = self._sum(view.track(self.metric), item.end, item.group)
        whole = self._sum(view.track(self.over), item.end, item.group)
        if part is None or whole is None or whole <= 0:
            return Outcome(Level.UNKNOWN, f"{self.metric} / {self.over} not told")
        ratio = part / whole
        return Outcome(self.limits.level(self.metric, ratio, view), f"{self.metric} / {self.over} {ratio:.2f}")

    def explain(self) -> str:
        """In words."""
        return self.limits.words(f"{self.metric} / {self.over}")
