"""One part of an item is longer than another part of the same item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.units import format_value, metric_unit

from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View


@dataclass(frozen=True)
class Outweighs(Condition):
    """The item's own `metric` (or one of its kinds, `rpc_ms.reload_weights`) is at least its own `over`."""

    type: ClassVar[str] = "outweighs"
    keys: ClassVar[tuple[str, ...]] = ("metric", "over")
    metric: str
    over: str
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        return cls(table.text("metric"), table.text("over"))

    def judge(self, item: Item, view: View) -> Level:
        """Unknown when the item does not tell both parts."""
        part, other = _own(item, self.metric), _own(item, self.over)
        if part is None or other is None:
            return Level.UNKNOWN
        return Level.CRITICAL if part >= other else Level.NO

    def describe(self, item: Item, view: View) -> str:
        """Both parts."""
        return f"{_told(item, self.metric)}, {_told(item, self.over)}"

    def explain(self) -> str:
        """In words."""
        return f"{self.metric} at least as long as {self.over}"


def _own(item: Item, metric: str) -> float | None:
    return max((v for name, v in item.values.items() if name == metric or name.startswith(f"{metric}.")), default=None)


def _told(item: Item, metric: str) -> str:
    value = _own(item, metric)
    return f"{metric} " + ("not logged" if value is None else format_value(value, metric_unit(metric)))
