"""One metric as a multiple of another, over the same recent samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table

from .base import Condition, Level, Limits

if TYPE_CHECKING:
    from ..items import Item
    from ..tracks import Track
    from ..view import View


@dataclass(frozen=True)
class Ratio(Condition):
    """Mean of the last `window_n` samples of `metric` / mean of the last `window_n` of `over`.

    Neither window reaches behind samples that the signature skips. With `part` the one is a part of the time of the
    other, and what of it is beyond the limit is lost.
    """

    type: ClassVar[str] = "ratio"
    costly: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("metric", "over", "window_n", "window_s", "part", *Limits.KEYS)
    metric: str
    over: str
    window_n: int
    window_s: float
    limits: Limits
    part: bool = False
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        limits = Limits.read(table)
        if limits.band:
            raise table.wrong("band", "a ratio has no thresholds, expected above or below")
        if table.number("window_n", 3) < 1:
            raise table.wrong("window_n", "expected 1 or more")
        return cls(
            table.text("metric"),
            table.text("over"),
            int(table.number("window_n", 3)),
            table.number("window_s", 3600.0),
            limits,
            table.flag("part"),
        )

    def _mean(self, track: Track, item: Item) -> float | None:
        column, start, stop = track.window(item, self.window_n, self.window_s)
        return sum(column.values[start:stop]) / (stop - start) if stop > start else None

    def _ratio(self, item: Item, view: View) -> float | None:
        part = self._mean(view.track(self.metric), item)
        whole = self._mean(view.track(self.over), item)
        return None if part is None or whole is None or whole <= 0 else part / whole

    def judge(self, item: Item, view: View) -> Level:
        """Unknown when one of the two has no recent sample or the divisor is not positive."""
        ratio = self._ratio(item, view)
        return Level.UNKNOWN if ratio is None else self.limits.level(self.metric, ratio, view)

    def describe(self, item: Item, view: View) -> str:
        """The ratio."""
        ratio = self._ratio(item, view)
        return f"{self.metric} / {self.over} " + ("not logged" if ratio is None else f"{ratio:.2f}")

    def explain(self) -> str:
        """In words."""
        return self.limits.words(f"{self.metric} / {self.over}", "")

    def short(self, item: Item, view: View) -> float | None:
        """What the one is of the other beyond the limit, where it is a part of it."""
        ratio = self._ratio(item, view) if self.part else None
        if ratio is None or self.limits.above is None or not self.limits.above < ratio <= 1.0:
            return None
        return ratio - self.limits.above
