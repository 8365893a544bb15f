"""At least one of several conditions holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table

from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View


@dataclass(frozen=True)
class AnyOf(Condition):
    """The strongest of the conditions in `of`."""

    type: ClassVar[str] = "any"
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
        """Unknown only when all are."""
        best = Level.UNKNOWN
        for condition in self.of:
            best = max(best, condition.judge(item, view))
            if best is Level.CRITICAL:
                break
        return best

    def describe(self, item: Item, view: View) -> str:
        """The values of the first that holds most."""
        best = max(self.of, key=lambda condition: condition.judge(item, view))
        return best.describe(item, view)

    def explain(self) -> str:
        """In words."""
        return " or ".join(condition.explain() for condition in self.of)

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """All of them do not hold."""
        return all(part.barren(name, source, group, view) for part in self.of)

    def short(self, item: Item, view: View) -> float | None:
        """What the first of them says that holds."""
        told = (part.short(item, view) for part in (part for part in self.of if part.judge(item, view).holds))
        return next((share for share in told if share is not None), None)

    def figures(self, item: Item, view: View) -> dict[str, str]:
        """Those of all that hold."""
        held = [part for part in self.of if part.judge(item, view).holds]
        return {slot: figure for part in held for slot, figure in part.figures(item, view).items()}
