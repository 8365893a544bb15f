"""Properties of the whole run: the data that it has, and its death."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmon.core import Table

from .base import Level, Names, Single

if TYPE_CHECKING:
    from ..run_facts import View
    from ..tracks import Item

_BY_PEOPLE = ("interrupted", "cancelled")
"""A healthy run that was stopped: worth a warning."""


@dataclass(frozen=True)
class Has(Single):
    """Some log of the run logs one of the spans, metrics or marks `names`; with `none` no log does."""

    names: Names
    none: bool = False

    def judge(self, item: Item, view: View) -> Level:
        """Of the whole run, whatever part of it is looked at."""
        found = view.once((self,), lambda: view.has_any(self.names))
        return Level.CRITICAL if found is not self.none else Level.NO

    def describe(self, item: Item, view: View) -> str:
        found = [name for name in self.names if view.has_any((name,))]
        return f"logs {', '.join(found)}" if found else f"logs no {' or '.join(self.names[:3])}"

    def explain(self) -> str:
        return f"the run logs {'no' if self.none else 'a'} {' or '.join(self.names)}"


@dataclass(frozen=True)
class DiedOf(Single):
    """The item is the failure that the run died of: `ended`: nothing continued after it; `first`: it is no echo."""

    what: str = "ended"

    def check(self, table: Table) -> None:
        """One of the two."""
        if self.what not in ("ended", "first"):
            raise table.wrong("what", "expected ended or first")

    def judge(self, item: Item, view: View) -> Level:
        """By the death that the item is."""
        if self.what == "ended":
            stopped = item.fields.get("cause") in _BY_PEOPLE and "hung" not in item.fields
            return Level.WARNING if stopped else Level.CRITICAL
        return Level.CRITICAL if item.values.get("known") else Level.NO

    def describe(self, item: Item, view: View) -> str:
        if self.what == "ended":
            return "the run makes no progress after it"
        if not item.values.get("known"):
            return "only its echo stands in these logs"
        echoes = str(item.fields.get("echoes", ""))
        if echoes:
            return f"{echoes} later failure lines echo it"
        return "no other failure in this run" if view.boundaries else "no other failure in these logs"

    def explain(self) -> str:
        return "the run does not continue after it" if self.what == "ended" else "it is the first cause"
