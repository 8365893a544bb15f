"""Columns that make room for each other: what matters least goes first, what is left may grow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from perfmon.drawing import cut, fit
from perfmon.glyphs import Glyphs

from ..prose import Words

T = TypeVar("T")
_MATTERS = 2
"""Columns of this rank and below are worth shortening a name for."""
_TELLS_WHY = 0.5
"""The rank of a column that says what is critical: without it a mark has no reason."""
_LOOKED_AT = 64
"""Of more things than that nobody asks each how it is, to choose columns."""
Cell = tuple[str, str]
"""(text, name of a style)"""


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column of a table."""

    cells: int
    rank: float
    """The larger, the sooner it goes; 0 stays as long as anything does."""
    draw: Callable[[T, int], Cell]
    """Cell of an item at a given width."""
    title: str = ""
    right: bool = False
    grow: int = 0
    """So many more cells it can make use of."""
    least: int = 0
    """To so few cells it shrinks before what matters goes; 0: not at all."""


def chosen(columns: Sequence[Column[T]], things: Sequence[T], width: int) -> list[Column[T]]:
    """Those that have something to say and room for it, a blank between them, as wide as they are to be."""
    kept = [column for column in columns if any(column.draw(thing, column.cells)[0] for thing in things)]
    if _cells(kept) > width:
        kept = [_kept_longer(column, things[:_LOOKED_AT]) for column in kept]
    while (over := _cells(kept) - width) > 0 and (goes := max(kept, key=lambda column: column.rank)).rank:
        give = next((at for at, one in enumerate(kept) if 0 < one.least <= one.cells - over), None)
        if give is not None and goes.rank <= _MATTERS:
            kept[give] = replace(kept[give], cells=kept[give].cells - over)
        else:
            kept.remove(goes)
    more = _shared([column.grow for column in kept], width - _cells(kept))
    return [replace(one, cells=one.cells + extra) if extra else one for one, extra in zip(kept, more, strict=True)]


def _kept_longer(column: Column[T], things: Sequence[T]) -> Column[T]:
    """The same; where it tells of something critical it goes after those that do not."""
    if column.rank <= _TELLS_WHY or all(column.draw(thing, column.cells)[1] != "critical" for thing in things):
        return column
    return replace(column, rank=_TELLS_WHY)


def _shared(wanted: Sequence[int], spare: int) -> list[int]:
    """`spare` cells shared out evenly among those that want more."""
    given = [0] * len(wanted)
    while spare > 0 and (open_still := [at for at, want in enumerate(wanted) if given[at] < want]):
        each = max(1, spare // len(open_still))
        for at in open_still:
            extra = min(each, wanted[at] - given[at], spare)
            given[at] += extra
            spare -= extra
    return given


def _cells(columns: Sequence[Column[T]]) -> int:
    return sum(column.cells for column in columns) + max(0, len(columns) - 1)


def row(columns: Sequence[Column[T]], thing: T, width: int, glyphs: Glyphs) -> Words:
    """A thing in at most `width` cells."""
    words: list[tuple[str, str]] = []
    left = width
    for column in columns:
        gap = " " if words else ""
        cells = min(column.cells, left - len(gap))
        if cells <= 0:
            break
        text, style = column.draw(thing, cells)
        words.append((gap + fit(text, cells, right=column.right, glyphs=glyphs), style))
        left -= cells + len(gap)
    return tuple(words)


def heading(columns: Sequence[Column[T]], title: str, width: int) -> Words:
    """The title of a table, and the names of its columns."""
    text = " ".join(fit(column.title, column.cells, right=column.right) for column in columns)
    first = f" {title} "
    rest = text[len(first) :] if len(text) > len(first) else ""
    return ((first, "muted"), (cut(rest, max(0, width - len(first))).rstrip(), "faint"))
