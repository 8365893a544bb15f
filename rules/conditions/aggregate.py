"""A statistic of a metric over a window that ends with the item is beyond a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.stats import percentile, slope, summarise
from perfmon.units import format_value, metric_unit

from .base import Condition, Level, Limits

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View

_Stat = Callable[[Sequence[float], Sequence[float]], float]

_STATS: dict[str, _Stat] = {
    "mean": lambda _, values: sum(values) / len(values),
    "p50": lambda _, values: percentile(sorted(values), 0.50),
    "p95": lambda _, values: percentile(sorted(values), 0.95),
    "max": lambda _, values: max(values),
    "min": lambda _, values: min(values),
    "stdev": lambda _, values: summarise(values).stdev,
    "sum": lambda _, values: sum(values),
    "count": lambda _, values: float(len(values)),
    "rate": lambda times, values: sum(values) / max(times[-1] - times[0], 1e-9) * 60.0,
    "slope": lambda times, values: slope(list(zip(times, values, strict=True))) * 60.0,
    "growth": lambda _, values: values[-1] / values[0] if values[0] > 0 else 0.0,
}
_AMONG_VALUES = ("mean", "p50", "p95", "max", "min")
_PER_MINUTE = ("rate", "slope")
_OTHERS = ("of_max", "of_usual", "share_above", "share_below")
_NEWEST = 3


@dataclass(frozen=True)
class Aggregate(Condition):
    """`stat` of the samples in the last `window_s` seconds, or the last `window_n` samples, or both.

    `rate` and `slope` are per minute; `share_above` and `share_below` (of `limit`) are percentages; `growth` is the
    last value over the first, `of_max` the last one in % of the largest, `of_usual` the median of the last three in %
    of what three quarters of those above 0 are below. `of = "mark"` counts marks instead of reading a metric. The
    window does not reach behind samples that the signature skips.
    """

    type: ClassVar[str] = "aggregate"
    costly: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = (
        "metric", "of", "stat", "window_s", "window_n", "least", "limit", *Limits.KEYS,
    )  # fmt: skip
    metric: str
    of: str
    stat: str
    window_s: float
    window_n: int
    least: int
    limit: float
    limits: Limits
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        stat = table.text("stat")
        if stat not in (*_STATS, *_OTHERS):
            raise table.wrong("stat", f"expected one of {', '.join((*_STATS, *_OTHERS))}")
        of = table.text("of", "metric")
        if of not in ("metric", "mark"):
            raise table.wrong("of", "expected metric or mark")
        window_s, window_n = table.number("window_s", 0.0), int(table.number("window_n", 0))
        if not (window_s > 0 or window_n > 0):
            raise table.wrong("window_s", "expected window_s or window_n, above 0")
        return cls(
            metric=table.text("metric"),
            of=of,
            stat=stat,
            window_s=window_s,
            window_n=window_n,
            least=int(table.number("least", 1)),
            limit=table.number("limit", 0.0),
            limits=Limits.read(table),
        )

    def _result(self, item: Item, view: View) -> float | None:
        """The statistic; None with fewer than `least` samples. A mark that never came counts as none."""
        if self.of == "mark":
            return self._count(item, view)
        column, start, stop = view.track(self.metric).window(item, self.window_n, self.window_s)
        if stop - start < max(1, self.least):
            return None
        if self.stat == "of_max":
            most = column.largest(start, stop)
            return 100.0 * column.values[stop - 1] / most if most > 0 else 100.0
        times, values = column.times[start:stop], column.values[start:stop]
        if self.stat == "of_usual":
            usual = self._usual(values)
            return 100.0 * percentile(sorted(values[-_NEWEST:]), 0.5) / usual if usual else 100.0
        if self.stat == "share_above":
            return 100.0 * sum(value > self.limit for value in values) / len(values)
        if self.stat == "share_below":
            return 100.0 * sum(value < self.limit for value in values) / len(values)
        return _STATS[self.stat](times, values)

    @staticmethod
    def _usual(values: Sequence[float]) -> float:
        """What a stream keeps to while it works, peaks aside."""
        working = sorted(value for value in values if value > 0)
        return percentile(working, 0.75) if working else 0.0

    def short(self, item: Item, view: View) -> float | None:
        """How far the last value lies below what is usual."""
        if self.stat != "of_usual" or (of_usual := self._result(item, view)) is None:
            return None
        return max(0.0, 1.0 - of_usual / 100.0)

    def _count(self, item: Item, view: View) -> float:
        track = view.marks.get(self.metric)
        total = 0.0
        if track is not None:
            column, start, stop = track.window(item, self.window_n, self.window_s)
            total = float(sum(column.values[start:stop]))
        return total / self.window_s * 60.0 if self.stat == "rate" and self.window_s else total

    def judge(self, item: Item, view: View) -> Level:
        """Unknown without enough samples."""
        result = self._result(item, view)
        return Level.UNKNOWN if result is None else self.limits.level(self.metric, result, view)

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """A mark that never came; or no value beyond the limit, of a statistic that lies among the values."""
        if self.of == "mark":
            above = self.limits.clear if self.limits.clear is not None else self.limits.above
            return self.metric not in view.marks and not self.limits.band and above is not None and above >= 0
        if name != self.metric or self.stat not in _AMONG_VALUES:
            return False
        column = view.track(name).column(group)
        if not len(column):
            return True
        if self.limits.one_sided:
            return self.limits.level(name, self.limits.extreme(column.values), view) is Level.NO
        worst = (max(column.values), min(column.values))
        return self.limits.band == "critical" and all(self.limits.level(name, v, view) is Level.NO for v in worst)

    def describe(self, item: Item, view: View) -> str:
        """The statistic."""
        result = self._result(item, view)
        return f"{self.metric} not logged" if result is None else f"{self._name()} {self._shown(result)}"

    def _name(self) -> str:
        over = f"{self.window_n} samples" if self.window_n else f"{self.window_s:g} s"
        per = " per minute" if self.stat in _PER_MINUTE else ""
        names = {"of_max": "last in % of the most", "of_usual": "last in % of the usual"}
        said = names.get(self.stat, self.stat.replace("_", " "))
        return f"{said} of {self.metric}{per} over {over}"

    @property
    def _plain(self) -> bool:
        return self.of == "mark" or self.stat in ("count", "growth")

    def _unit(self) -> str:
        return "%" if self.stat in _OTHERS else "" if self._plain else metric_unit(self.metric)

    def _shown(self, value: float) -> str:
        if self.stat in _OTHERS:
            return f"{value:.0f} %"
        return f"{value:g}" if self._plain else format_value(value, self._unit())

    def explain(self) -> str:
        """In words."""
        return self.limits.words(self._name(), self._unit())
