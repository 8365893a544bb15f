"""A row of keys and what they do: whole ones, as many as there is room for."""

from __future__ import annotations

from collections.abc import Sequence

from ..skin import Skin
from .rows import Row, Run, between, row_cells


def key_row(keys: Sequence[tuple[str, str]], right: Sequence[Run], width: int, skin: Skin) -> Row:
    """The first of `keys` (key, what it does) from the left, and what stands at the right end."""
    runs: list[Run] = []
    room = width - row_cells(right) - 1
    for key, what in keys:
        more = [(f" {key} ", skin.style("footer-key", "panel")), (f"{what} ", skin.style("footer-text", "panel"))]
        if row_cells(more) > room:
            break
        runs += more
        room -= row_cells(more)
    return between(runs, right, width, (" ", skin.style("panel")))
