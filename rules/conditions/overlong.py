"""A span is far longer than its kind usually is, or than such a thing may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.stats import median
from perfmon.units import format_seconds

from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View


@dataclass(frozen=True)
class Overlong(Condition):
    """Longer than `factor` times the median of those of its kind that ended before it, and than `least_s`.

    Where fewer than `known` have ended: longer than what `built_in` says of its kind, in seconds; without an entry it
    is unknown. Where `own` only those of the item's own log are asked.
    """

    type: ClassVar[str] = "overlong"
    keys: ClassVar[tuple[str, ...]] = ("factor", "least_s", "known", "own", "built_in")
    tells: ClassVar[tuple[str, ...]] = ("usual",)
    factor: float
    least_s: float
    known: int
    own: bool
    built_in: tuple[tuple[str, float], ...]
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        return cls(
            table.number("factor", 3.0),
            table.amount("least_s", 0.0),
            int(table.number("known", 3)),
            table.flag("own"),
            tuple(sorted(table.numbers("built_in").items())),
        )

    def limits(self) -> Mapping[str, float]:
        """Seconds by kind of span."""
        return dict(self.built_in)

    def _usual(self, item: Item, view: View) -> tuple[float, float] | None:
        """(what is usual, what is too long), in seconds."""
        kind = item.span.kind if item.span is not None else ""
        ended = [
            other.end - other.start
            for other in view.spans(kind)
            if other.end <= item.start and other is not item and (other.source == item.source or not self.own)
        ]
        if len(ended) >= self.known:
            usual = median(ended)
            return usual, max(self.factor * usual, self.least_s)
        bound = self.limits().get(kind)
        return None if bound is None else (bound, bound)

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where nothing tells how long it may be."""
        usual = self._usual(item, view)
        if usual is None:
            return Level.UNKNOWN
        return Level.CRITICAL if item.end - item.start > usual[1] else Level.NO

    def short(self, item: Item, view: View) -> float | None:
        """Share of its time beyond what is usual."""
        usual, length = self._usual(item, view), item.end - item.start
        return None if usual is None or length <= 0 else max(0.0, 1.0 - usual[0] / length)

    def figures(self, item: Item, view: View) -> dict[str, str]:
        """What is usual."""
        usual = self._usual(item, view)
        return {} if usual is None else {"usual": format_seconds(usual[0])}

    def describe(self, item: Item, view: View) -> str:
        """Its length and the usual one."""
        usual, length = self._usual(item, view), format_seconds(item.end - item.start)
        return (
            f"{length}, the usual duration is unknown"
            if usual is None
            else f"{length}, usually {format_seconds(usual[0])}"
        )

    def explain(self) -> str:
        """In words."""
        bounds = ", ".join(f"{kind} {format_seconds(seconds)}" for kind, seconds in self.built_in)
        least = f" and than {format_seconds(self.least_s)}" if self.least_s else ""
        text = f"longer than {self.factor:g}x the median of previous ones{least}"
        return f"{text}; with fewer than {self.known} previous ones, than {bounds}" if bounds else text
