"""A value is no number any more: NaN or infinite, and it stays so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table

from ..shifts import checkpoint_before, step_at, step_on
from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View

SUFFIX = "_not_finite"
"""Behind the name of a metric: the mark of its samples that are NaN or infinite; they are no samples."""
Tail = tuple[int, int, bool]
"""(line of the first, how many, whether a finite sample came before them): those at the end of a stream."""


@dataclass(frozen=True)
class NonFinite(Condition):
    """The item marks a sample of `metric` that is NaN or infinite, as are all of its log and group after it.

    There are `least` or more of them. A scaler of gradients skips steps whose gradients are infinite, which is how it
    finds its scale: what comes back is nothing, and before any finite value it takes `least_at_start`.
    """

    type: ClassVar[str] = "nonfinite"
    keys: ClassVar[tuple[str, ...]] = ("metric", "least", "least_at_start")
    tells: ClassVar[tuple[str, ...]] = ("step", "checkpoint")
    metric: str
    least: int
    least_at_start: int
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        least = int(table.number("least", 2))
        return cls(table.text("metric"), least, int(table.number("least_at_start", float(least))))

    def _tail(self, item: Item, view: View) -> Tail:
        key = (self, item.source, item.group)
        if key not in view.worked_out:
            view.worked_out[key] = self._at_end(item.source, item.group, view)
        found = view.worked_out[key]
        assert isinstance(found, tuple)  # noqa: S101
        first, count, before = found
        return first, count, before

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
            else [
                marks.ref(at)[0].line
                for at in range(len(marks))
                if (marks.source(at), marks.group(at)) == (source, group)
            ]
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
        enough = count >= (self.least if before else self.least_at_start)
        return Level.CRITICAL if enough and item.refs[0][0].line >= first else Level.NO

    def figures(self, item: Item, view: View) -> dict[str, str]:
        """The step, and the last checkpoint before."""
        track = view.marks.get(self.metric + SUFFIX)
        if track is None or self.metric + SUFFIX not in item.values:
            return {}
        first = self._tail(item, view)[0]
        times = [track.times[at] for at in range(len(track)) if track.ref(at)[0][:2] == (item.source, first)]
        since = min(times, default=item.end)
        step = step_on(item.source, first, view) or step_at(since, view)
        return {"step": step, "checkpoint": checkpoint_before(since, view)}

    def describe(self, item: Item, view: View) -> str:
        """How many."""
        return f"{self.metric} is not finite in its last {self._tail(item, view)[1]} samples"

    def explain(self) -> str:
        """In words."""
        start = f" ({self.least_at_start} where there was none before)" if self.least_at_start > self.least else ""
        return f"{self.metric} is NaN or infinite in its last {self.least} samples or more{start}"
