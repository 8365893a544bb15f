"""What proves that a failure is what the run died of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table

from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View


_BY_PEOPLE = ("interrupted", "cancelled")
"""Somebody stopped a run that went well: worth a warning."""


@dataclass(frozen=True)
class LastWord(Condition):
    """`what`: `ended` nothing of the run went on after it; `first` it is the first cause, no echo."""

    type: ClassVar[str] = "last-word"
    keys: ClassVar[tuple[str, ...]] = ("what",)
    what: str
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        what = table.text("what", "ended")
        if what not in ("ended", "first"):
            raise table.wrong("what", "expected ended or first")
        return cls(what)

    def judge(self, item: Item, view: View) -> Level:
        """By the death that the item is."""
        if self.what == "ended":
            stopped = item.fields.get("cause") in _BY_PEOPLE and "hung" not in item.fields
            return Level.WARNING if stopped else Level.CRITICAL
        return Level.CRITICAL if item.values.get("known") else Level.NO

    def describe(self, item: Item, view: View) -> str:
        """What was seen."""
        if self.what == "ended":
            return "no later progress in any log"
        if not item.values.get("known"):
            return "only follow-up errors are in these logs"
        echoes = str(item.fields.get("echoes", ""))
        return f"{echoes} follow-up error lines" if echoes else "no other failure in these logs"

    def explain(self) -> str:
        """In words."""
        return "nothing of the run continues after it" if self.what == "ended" else "it is the first cause"
