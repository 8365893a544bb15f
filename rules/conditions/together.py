"""All of several conditions hold: one of the ways in which an `any` may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table

from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View


@dataclass(frozen=True)
class AllOf(Condition):
    """The weakest of the conditions in `of`."""

    type: ClassVar[str] = "all"
    keys: ClassVar[tuple[str, ...]] = ("of",)
    of: tuple[Condition, ...]
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From the tables in `of`."""
        from ..loader import read_condition

        conditions = tuple(read_condition(item) for item in table.tables("of"))
        if not conditions:
            raise table.wrong("of", "missing, expected conditions")
        return cls(conditions)

    def judge(self, item: Item, view: View) -> Level:
        """One that does not hold decides; then unknown when one of them is."""
        levels = []
        for condition in self.of:
            levels.append(condition.judge(item, view))
            if levels[-1] is Level.NO:
                return Level.NO
        return min(levels)

    def describe(self, item: Item, view: View) -> str:
        """The values of all."""
        return ", ".join(condition.describe(item, view) for condition in self.of)

    def explain(self) -> str:
        """In words."""
        return " and ".join(condition.explain() for condition in self.of)

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """One of them does not hold."""
        return any(part.barren(name, source, group, view) for part in self.of)

    def short(self, item: Item, view: View) -> float | None:
        """What the first of them says."""
        told = (part.short(item, view) for part in self.of)
        return next((share for share in told if share is not None), None)

    def figures(self, item: Item, view: View) -> dict[str, str]:
        """Those of all."""
        held = self.of
        return {slot: figure for part in held for slot, figure in part.figures(item, view).items()}
