"""Several conditions as one: any of them, or all of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from .base import Condition, Item, Level, View


@dataclass(frozen=True)
class Combined(Condition):
    """Several conditions, in `of`, of which some count."""

    of: tuple[Condition, ...]
    joined: ClassVar[str]

    @abstractmethod
    def _counting(self, item: Item, view: View) -> Sequence[Condition]:
        """Those that count for the item."""

    def explain(self) -> str:
        return self.joined.join(condition.explain() for condition in self.of)

    def short(self, item: Item, view: View) -> float | None:
        """The share by the first of those that count."""
        shares = (part.short(item, view) for part in self._counting(item, view))
        return next((share for share in shares if share is not None), None)

    def since(self, item: Item, view: View) -> float | None:
        """The beginning by the first of those that count."""
        starts = (part.since(item, view) for part in self._counting(item, view))
        return next((start for start in starts if start is not None), None)

    def bound(self, item: Item, view: View) -> str:
        """The limit, where only one counts."""
        shown = self._without_trivial(item, view)
        return shown[0].bound(item, view) if len(shown) == 1 else ""

    def describe(self, item: Item, view: View) -> str:
        return ", ".join(part.describe(item, view) for part in self._without_trivial(item, view))

    def words(self, item: Item, view: View) -> str:
        return ", ".join(part.words(item, view) for part in self._without_trivial(item, view))

    def _without_trivial(self, item: Item, view: View) -> Sequence[Condition]:
        """Those whose values are shown: that something is above zero is a part of what another one compares."""
        parts = self._shown(item, view)
        return [part for part in parts if not part.trivial] or parts

    def _shown(self, item: Item, view: View) -> Sequence[Condition]:
        return self.of

    def figures(self, item: Item, view: View) -> dict[str, str]:
        """Those of all that count."""
        parts = self._counting(item, view)
        return {slot: figure for part in parts for slot, figure in part.figures(item, view).items()}


@dataclass(frozen=True)
class AnyOf(Combined):
    """The strongest of the conditions in `of`."""

    joined: ClassVar[str] = " or "

    def _counting(self, item: Item, view: View) -> Sequence[Condition]:
        return [part for part in self.of if part.judge(item, view).holds]

    def judge(self, item: Item, view: View) -> Level:
        """Unknown only when all are."""
        best = Level.UNKNOWN
        for condition in self.of:
            best = max(best, condition.judge(item, view))
            if best is Level.CRITICAL:
                break
        return best

    def deciding(self, item: Item, view: View) -> Condition:
        best = max(self.of, key=lambda condition: condition.judge(item, view))
        return best.deciding(item, view) if best.judge(item, view).holds else self

    def _shown(self, item: Item, view: View) -> Sequence[Condition]:
        return [max(self.of, key=lambda condition: condition.judge(item, view))]

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """All of them do not hold."""
        return all(part.barren(name, source, group, view) for part in self.of)


@dataclass(frozen=True)
class AllOf(Combined):
    """The weakest of the conditions in `of`: mostly one of the ways in which an `any` may hold."""

    joined: ClassVar[str] = " and "

    def _counting(self, item: Item, view: View) -> Sequence[Condition]:
        return self.of

    def judge(self, item: Item, view: View) -> Level:
        """One that does not hold decides; then unknown when one of them is, unless it passes where data are missing."""
        levels = []
        for condition in self.of:
            level = condition.judge(item, view)
            if level is Level.NO:
                return Level.NO
            if level is not Level.UNKNOWN or condition.if_missing == "fail":
                levels.append(level)
        return min(levels, default=Level.UNKNOWN)

    def deciding(self, item: Item, view: View) -> Condition:
        return replace(self, of=tuple(part.deciding(item, view) for part in self.of))

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """One of them does not hold."""
        return any(part.barren(name, source, group, view) for part in self.of)


def every_condition(conditions: Iterable[Condition]) -> Iterator[Condition]:
    """The conditions, those inside of others after them."""
    for condition in conditions:
        yield condition
        if isinstance(condition, Combined):
            yield from every_condition(condition.of)
