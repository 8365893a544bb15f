"""Rows of styled text: what panes are drawn with. Text in them is shown as it is, markup in it means nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from perfmon.text import plain

Run = tuple[str, Style]
_STYLE = itemgetter(1)
Row = tuple[Run, ...]


def cells(text: str) -> int:
    """Cells that `text` takes on a terminal."""
    return len(text) if text.isascii() else cell_len(text)


def row_cells(row: Iterable[Run]) -> int:
    """Cells that a row takes."""
    return sum(cells(text) for text, _ in row)


def harmless(row: Iterable[Run]) -> Row:
    """The row without anything that a terminal obeys, whoever made it."""
    row = tuple(row)
    if all(text.isprintable() for text, _ in row):
        return row
    return tuple((plain(text, 4 * len(text) + 1), style) for text, style in row)  # a tab may become four blanks


def cropped(row: Iterable[Run], width: int, fill: Style) -> Row:
    """The row at exactly `width` cells: cut with `…`, or filled up."""
    row = row if isinstance(row, tuple) else tuple(row)
    room = width - row_cells(row)
    if room >= 0:
        return (*row, (" " * room, fill)) if room else row
    out: list[Run] = []
    left = width
    for text, style in row:
        size = cells(text)
        if size <= left:
            if text:
                out.append((text, style))
            left -= size
            continue
        if left > 0:
            out.append((set_cell_size(text, left - 1) + "…", style))
        break
    return tuple(out)


def between(left: Sequence[Run], right: Sequence[Run], width: int, fill: Run) -> Row:
    """Both ends of a row, `fill` (one cell) repeated between them; without room the right one is left out."""
    room = width - row_cells(left) - row_cells(right)
    if room < 1:
        return cropped(left, width, fill[1])
    return cropped((*left, (fill[0] * room, fill[1]), *right), width, fill[1])


def merged(runs: Iterable[Run]) -> Row:
    """Neighbours of the same style as one run: fewer of them are quicker to draw."""
    return tuple(("".join([text for text, _ in group]), style) for style, group in groupby(runs, _STYLE))


def strip_of(row: Row, width: int) -> Strip:
    """The row as Textual draws it; it has to have `width` cells."""
    return Strip([Segment(text, style) for text, style in row], width)


def changed(old: Row, new: Row, width: int) -> tuple[int, int] | None:
    """First and one past the last cell in which two rows of `width` cells differ; None when they do not."""
    if old == new:
        return None
    head = _unequal(old, new)
    first = sum(cells(text) for text, _ in old[:head])
    if head < min(len(old), len(new)):
        first += _common(old[head], new[head], forward=True)
    tail = _unequal(old[::-1], new[::-1])
    last = width - sum(cells(text) for text, _ in old[len(old) - tail :])
    if tail < min(len(old), len(new)):
        last -= _common(old[-1 - tail], new[-1 - tail], forward=False)
    return (min(first, width - 1), max(last, first + 1))


def _unequal(old: Row, new: Row) -> int:
    """At which run two rows begin to differ."""
    pairs = zip(old, new, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))


def _common(before: Run, after: Run, forward: bool) -> int:
    """Cells that two runs of the same style share at their begin, or end."""
    if before[1] != after[1] or not (before[0].isascii() and after[0].isascii()):
        return 0
    one, other = (before[0], after[0]) if forward else (before[0][::-1], after[0][::-1])
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
