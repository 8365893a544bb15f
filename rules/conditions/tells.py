"""The run tells of something anywhere, or of nothing of the kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table

from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View


@dataclass(frozen=True)
class Tells(Condition):
    """Some log of the run tells of one of the spans, metrics or marks `names`; with `none` no log tells of any."""

    type: ClassVar[str] = "tells"
    keys: ClassVar[tuple[str, ...]] = ("names", "none")
    names: tuple[str, ...]
    none: bool
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From `names` and `none`."""
        return cls(table.texts("names", required=True), table.flag("none"))

    def judge(self, item: Item, view: View) -> Level:
        """Of the whole run, whatever part of it is looked at."""
        key = (self,)
        found = view.worked_out.get(key)
        if found is None:
            found = view.worked_out[key] = view.told_of(self.names)
        return Level.CRITICAL if found is not self.none else Level.NO

    def describe(self, item: Item, view: View) -> str:
        """Which of them."""
        found = [name for name in self.names if view.told_of((name,))]
        return f"{', '.join(found)}" if found else f"no {' or '.join(self.names[:3])}"

    def explain(self) -> str:
        """In words."""
        return f"the run logs {'no' if self.none else 'a'} {' or '.join(self.names)}"
