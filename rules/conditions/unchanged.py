"""Nothing moves: values are the same in several samples in a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.units import format_value, metric_unit

from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View


@dataclass(frozen=True)
class Unchanged(Condition):
    """The item's sample is one of at least `least` in a row in which each of `metrics` moves by `tolerance` at most.

    It may be the first of them: what stands still is judged from the first sample on, once the others are there. With
    `falls` values that only become smaller count as unchanged, too. Of a metric's samples those of the item's log and
    group are looked at.
    """

    type: ClassVar[str] = "unchanged"
    costly: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("metrics", "tolerance", "least", "falls")
    metrics: tuple[str, ...]
    tolerance: float
    least: int
    falls: bool
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        least = int(table.number("least", 3))
        if least < 2:
            raise table.wrong("least", "expected 2 or more")
        metrics = table.texts("metrics", required=True)
        return cls(metrics, table.number("tolerance", 0.0), least, table.flag("falls"))

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where one of the metrics has no sample at the item's time."""
        level = Level.CRITICAL
        for metric in self.metrics:
            column = view.track(metric).stream(item.source, item.group)
            at = column.place(item.end, item.values.get(metric, float("nan")))
            if at < 0 or column.times[at] < item.start:
                return Level.UNKNOWN
            if self._lengths(metric, item.source, item.group, view)[at] < self.least:
                level = Level.NO
        return level

    def _lengths(self, metric: str, source: int, group: str, view: View) -> Sequence[int]:
        """For each sample how many are in its row."""
        key = (self, metric, source, group)
        found = view.worked_out.get(key)
        if not isinstance(found, list):
            found = view.worked_out[key] = self._rows(view.track(metric).stream(source, group).values)
        return found

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """One of the metrics moves all the time."""
        rows = (self._lengths(metric, source, group, view) for metric in self.metrics)
        return any(max(lengths, default=0) < self.least for lengths in rows)

    def _rows(self, values: Sequence[float]) -> list[int]:
        lengths: list[int] = []
        begin = 0
        for at in range(1, len(values) + 1):
            if at < len(values) and self._stays(values[at] - values[at - 1]):
                continue
            lengths += [at - begin] * (at - begin)
            begin = at
        return lengths

    def _stays(self, step: float) -> bool:
        return step <= self.tolerance and (self.falls or step >= -self.tolerance)

    def describe(self, item: Item, view: View) -> str:
        """The values."""
        texts = []
        for metric in self.metrics:
            column = view.track(metric).stream(item.source, item.group)
            at = column.place(item.end, item.values.get(metric, float("nan")))
            texts.append(
                f"{metric} " + (format_value(column.values[at], metric_unit(metric)) if at >= 0 else "not logged")
            )
        return ", ".join(texts)

    def explain(self) -> str:
        """In words."""
        how = "does not rise" if self.falls else "is the same"
        return f"{' and '.join(self.metrics)} {how} in {self.least} samples in a row"
