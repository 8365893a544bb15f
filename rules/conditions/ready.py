"""What the item waits for was there before it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.units import format_seconds

from ..wording import format_share
from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View


@dataclass(frozen=True)
class WasReady(Condition):
    """The span of kind `span` with the item's key ended before the last `share` of the item's time.

    With `none` the condition holds where that is not so, or not known.
    """

    type: ClassVar[str] = "ready"
    keys: ClassVar[tuple[str, ...]] = ("span", "share", "none")
    span: str
    share: float
    none: bool = False
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From `span`, `share` and `none`."""
        return cls(table.text("span"), table.number("share", 0.3), table.flag("none"))

    def _early_s(self, item: Item, view: View) -> float | None:
        """Seconds by which it was there before the item ended; None when that is not told."""
        ends = [other.end for other in view.spans(self.span) if other.key == item.key] if item.key else []
        return item.end - max(ends) if ends else None

    def judge(self, item: Item, view: View) -> Level:
        """Unknown when no such span is told, unless it should not have been there."""
        early_s = self._early_s(item, view)
        was = early_s is not None and early_s >= self.share * (item.end - item.start) > 0.0
        if self.none:
            return Level.NO if was else Level.CRITICAL
        return Level.UNKNOWN if early_s is None else Level.CRITICAL if was else Level.NO

    def describe(self, item: Item, view: View) -> str:
        """How long before."""
        early_s = self._early_s(item, view)
        if early_s is None:
            return f"no {self.span} of it logged"
        return f"{self.span} {item.key} done {format_seconds(max(0.0, early_s))} before"

    def explain(self) -> str:
        """In words."""
        was = "was not" if self.none else "was"
        return f"the {self.span} with the same key {was} done for {format_share(self.share)} of the time"
