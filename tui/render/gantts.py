"""The legs of weight updates over the time axis, and cells put together to runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import ceil, floor

from rich.style import Style

from perfmon.drawing import gantt
from perfmon.picture import Bar, Leg, Viewport

from ..skin import Skin
from .rows import Run

Cell = tuple[str, Style]
"""A character of one cell."""
_Legs = tuple[bool, tuple[tuple[str, float, float], ...]]
"""State (open or not) of a bar, and its phases: kind, start and end, in columns."""
_LEG_STYLES = {"send": "send", "queue": "queue", "rpc": "rpc", "done": "done", "unknown": "unknown"}


def gantt_runs(bars: Sequence[Bar], port: Viewport, columns: int, skin: Skin) -> list[Run]:
    """The bars on one row, the later ones before those that they share columns with."""
    return list(_together(tuple([_legs_of(bar, port) for bar in bars]), columns, skin))


@lru_cache(maxsize=64)
def _together(bars: tuple[_Legs, ...], columns: int, skin: Skin) -> tuple[Run, ...]:
    cells: dict[int, Cell] = {}
    for still_open, legs in bars:
        cells.update(_drawn(legs, columns, still_open, skin))
    return tuple(runs_of(cells, columns, skin))


def runs_of(cells: Mapping[int, Cell], columns: int, skin: Skin) -> list[Run]:
    """The cells at their columns, blanks between them: neighbours of one style as one run."""
    blank = skin.style("text")
    runs: list[Run] = []
    text, worn, at = "", blank, 0
    for column in sorted(cells):
        char, style = cells[column]
        if column > at and worn is not blank:
            runs.append((text, worn))
            text, worn = "", blank
        text += " " * (column - at)
        if style is not worn:
            if text:
                runs.append((text, worn))
            text, worn = "", style
        text += char
        at = column + 1
    if at < columns and worn is not blank:
        runs.append((text, worn))
        text, worn = "", blank
    text += " " * (columns - at)
    return [*runs, (text, worn)] if text else runs


def _legs_of(bar: Bar, port: Viewport) -> _Legs:
    """Phases of a bar, at the resolution of drawing."""
    start, column_s = port.start, port.column_s
    legs = tuple([(leg.kind, (leg.start - start) / column_s, (leg.end - start) / column_s) for leg in bar.legs])
    if bar.open:  # quarters of a column are fine enough: it is then drawn anew only when it shows
        legs = tuple([(kind, floor(4 * begin) / 4, ceil(4 * end) / 4) for kind, begin, end in legs])
    elif legs:  # every update that has ended shows it, whether its last line came with the RPC's or after it
        legs = (*legs, ("done", legs[-1][2], legs[-1][2]))
    return bar.open, legs


@lru_cache(maxsize=512)
def _drawn(
    legs: tuple[tuple[str, float, float], ...], columns: int, still_open: bool, skin: Skin
) -> tuple[tuple[int, Cell], ...]:
    placed = [Leg(kind, begin, end) for kind, begin, end in legs]
    drawn = gantt(placed, 0.0, float(columns), columns, still_open=still_open, glyphs=skin.glyphs)
    return tuple(
        (column, (char, skin.style(_LEG_STYLES.get(kind, "metric"))))
        for column, (char, kind) in enumerate(drawn)
        if kind
    )
