"""Spans of a kind take a good part of all the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.ledger import length, union

from ..wording import format_share
from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View


@dataclass(frozen=True)
class Takes(Condition):
    """The spans of kind `span`, `least` of them or more, take more than `above` % of the time that is observed.

    Critical above `critical` %.
    """

    type: ClassVar[str] = "takes"
    keys: ClassVar[tuple[str, ...]] = ("span", "above", "critical", "least")
    span: str
    above: float
    critical: float
    least: int
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        above = table.required_number("above")
        return cls(table.text("span"), above, table.number("critical", above), int(table.number("least", 2)))

    def _share(self, view: View) -> float:
        key = (self,)
        found = view.worked_out.get(key)
        if not isinstance(found, float):
            low, high = view.window
            taken = length(union((max(low, span.start), min(high, span.end)) for span in view.spans(self.span)))
            found = view.worked_out[key] = taken / max(view.observed_s, 1e-9)
        return found

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where there are no such spans."""
        count = len(view.spans(self.span))
        if not count:
            return Level.UNKNOWN
        percent = 100.0 * self._share(view)
        if count < self.least or percent <= self.above:
            return Level.NO
        return Level.CRITICAL if percent > self.critical else Level.WARNING

    def describe(self, item: Item, view: View) -> str:
        """The share."""
        return f"each {self.span} took {format_share(self._share(view))} of the time"

    def explain(self) -> str:
        """In words."""
        grave = f", critical above {self.critical:g} %" if self.critical > self.above else ""
        return f"{self.least} or more of {self.span} take more than {self.above:g} % of the time{grave}"
