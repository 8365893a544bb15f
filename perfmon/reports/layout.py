"""Columns of plain text: widths as a terminal shows them, padding, wrapping, tables and bars."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from perfmon.text import plain

WIDTH = 80
"""Columns that prose keeps to: a pipe and every terminal get the same bytes."""
_EIGHTHS = " ▏▎▍▌▋▊▉"


def one_line(text: str, limit: int = 500) -> str:
    """`text` as words on one line, without escape sequences and controls, at most `limit` characters."""
    return plain(" ".join(plain(" ".join(text[: 8 * limit].splitlines()), 8 * limit).split()), limit)


def fit(text: str, columns: int) -> str:
    """`text` cut to at most `columns` cells, with an ellipsis where something went."""
    text = plain(text[: 16 * columns + 64], 4 * columns + 8)
    return text if cell_len(text) <= columns else set_cell_size(text, columns - 1).rstrip() + "…"


def fit_end(text: str, columns: int) -> str:
    """`text` cut to at most `columns` cells from the left: the end of a path says most."""
    text = plain(text[-4 * columns :])
    while cell_len(text) > columns:
        text = "…" + text[2:]
    return text


def pad(text: str, columns: int, right: bool = False) -> str:
    """`text` fitted and filled up to exactly `columns` cells."""
    text = fit(text, columns)
    fill = " " * (columns - cell_len(text))
    return fill + text if right else text + fill


def wrap(text: str, indent: str = "", lead: str | None = None, rows: int = 0) -> list[str]:
    """Lines of at most WIDTH cells, broken between words; a word wider than a line is broken inside.

    `lead` begins the first line in place of `indent`; at most `rows` lines are kept (0: all).
    """
    room = WIDTH - cell_len(indent)
    lines = [indent if lead is None else lead]
    fresh = True
    for word in one_line(text, 4000).split():
        for piece in _pieces(word, room):
            joined = f"{lines[-1]}{piece}" if fresh else f"{lines[-1]} {piece}"
            if cell_len(joined) <= WIDTH:
                lines[-1] = joined
            else:
                lines.append(indent + piece)
            fresh = False
    if rows and len(lines) > rows:
        lines = [*lines[: rows - 1], set_cell_size(lines[rows - 1], WIDTH - 1).rstrip() + "…"]
    return lines


def _pieces(word: str, room: int) -> list[str]:
    pieces = []
    while cell_len(word) > room:
        head = set_cell_size(word, room).rstrip() or word[:1]
        pieces.append(head)
        word = word[len(head) :]
    return [*pieces, word]


def table(rows: Sequence[Sequence[str]], left: frozenset[int] = frozenset({0}), caps: Sequence[int] = ()) -> list[str]:
    """Rows as aligned columns, two spaces between them; `left` columns are flush left, `caps` limits their widths."""
    count = max((len(row) for row in rows), default=0)
    limits = [caps[at] if at < len(caps) else WIDTH for at in range(count)]
    widths = [
        min(limits[at], max((cell_len(plain(row[at], 400)) for row in rows if at < len(row)), default=0))
        for at in range(count)
    ]
    return [
        "  ".join(pad(cell, widths[at], right=at not in left) for at, cell in enumerate(row)).rstrip() for row in rows
    ]


def bar(share: float, columns: int) -> str:
    """A bar of up to `columns` cells for a fraction, in eighths of a cell."""
    eighths = round(min(1.0, max(0.0, share)) * columns * 8)
    if share > 0:
        eighths = max(1, eighths)
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
