"""Rows of styled text: what panes are drawn with. Text in them is shown as it is, markup in it means nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

Run = tuple[str, Style]
Row = tuple[Run, ...]


def cells(text: str) -> int:
    """Cells that `text` takes on a terminal."""
    return len(text) if text.isascii() else cell_len(text)


def row_cells(row: Iterable[Run]) -> int:
    """Cells that a row takes."""
    return sum(cells(text) for text, _ in row)


def cropped(row: Iterable[Run], width: int, fill: Style) -> Row:
    """The row at exactly `width` cells: cut with `…`, or filled up."""
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
        left = 0
        break
    if left > 0:
        out.append((" " * left, fill))
    return tuple(out)


def between(left: Sequence[Run], right: Sequence[Run], width: int, fill: Run) -> Row:
    """Both ends of a row, `fill` (one cell) repeated between them; without room the right one is left out."""
    room = width - row_cells(left) - row_cells(right)
    if room < 1:
        return cropped(left, width, fill[1])
    return cropped((*left, (fill[0] * room, fill[1]), *right), width, fill[1])


def merged(runs: Iterable[Run]) -> Row:
    """Neighbours of the same style as one run: fewer of them are quicker to draw."""
    out: list[Run] = []
    for text, style in runs:
        if out and out[-1][1] is style:
            out[-1] = (out[-1][0] + text, style)
        elif text:
            out.append((text, style))
    return tuple(out)


def strip_of(row: Row, width: int) -> Strip:
    """The row as Textual draws it; it has to have `width` cells."""
    return Strip([Segment(text, style) for text, style in row], width)


def changed(old: Row, new: Row, width: int) -> tuple[int, int] | None:
    """First and one past the last cell in which two rows of `width` cells differ; None when they do not."""
    if old == new:
        return None
    first, before, after = 0, (), ()
    for before, after in zip(old, new, strict=False):
        if before != after:
            break
        first += cells(before[0])
    first += _common(before, after, forward=True)
    last = width
    for before, after in zip(reversed(old), reversed(new), strict=False):
        if before != after:
            break
        last -= cells(before[0])
    last -= _common(before, after, forward=False)
    return (min(first, width - 1), max(last, first + 1))


def _common(before: Run | tuple[()], after: Run | tuple[()], forward: bool) -> int:
    """Cells that two runs of the same style share at their begin, or end."""
    if not before or not after or before[1] != after[1] or not (before[0].isascii() and after[0].isascii()):
        return 0
    one, other = (before[0], after[0]) if forward else (before[0][::-1], after[0][::-1])
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
