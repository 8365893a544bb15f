"""Which pane gets how many rows: designed for four sizes, chosen by the size of the terminal or by name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

LAYOUTS = ("auto", "overview", "timeline", "log", "strip")
PRESETS = LAYOUTS[1:]
_STRIP_WIDTH, _STRIP_HEIGHT = 72, 18
_SIDE_BY_SIDE = 110


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows of each pane; 0 hides it."""

    header: int
    answer: int
    board: int
    alerts: int
    sources: int
    log: int
    footer: int
    side_by_side: bool
    """Alerts and sources share their rows, left and right."""
    bare: bool
    """The board has no title and no axis."""


def layout_for(
    width: int, height: int, preset: str = "auto", hidden: Collection[str] = (), zoomed: str | None = None
) -> Layout:
    """The layout of a terminal of `width` cells and `height` rows.

    `preset` is one of LAYOUTS; `hidden` names panes that somebody switched off, `zoomed` the one that has all the room.
    """
    small = width < _STRIP_WIDTH or height < _STRIP_HEIGHT
    if zoomed is not None and height >= 4:
        return _zoomed(width, height, zoomed)
    if preset == "strip" or small:
        return _strip(width, height)
    return _full(width, height, preset, hidden)


def _zoomed(width: int, height: int, pane: str) -> Layout:
    answer = 3 if height >= 14 else 1
    header = int(height >= 14)
    rest = height - answer - header - 1
    rows = {name: rest if name == pane else 0 for name in ("board", "alerts", "sources", "log")}
    return Layout(header, answer, footer=1, side_by_side=False, bare=False, **rows)


def _strip(width: int, height: int) -> Layout:
    """Answers first; then lanes; then one row that says how the run goes, and the keys when there is room."""
    if width < 40 or height < 4:
        return Layout(0, min(height, 3), 0, 0, 0, 0, 0, False, True)
    answer = 3 if height >= 5 else 2
    rest = height - answer
    header = int(rest >= 2)
    footer = int(rest >= 5)
    return Layout(header, answer, rest - header - footer, 0, 0, 0, footer, False, True)


def _full(width: int, height: int, preset: str, hidden: Collection[str]) -> Layout:
    side = width >= _SIDE_BY_SIDE
    rest = height - 5
    alerts, log = (3, 3) if height < 28 else (5, 6) if height < 44 else (9, 12)
    sources = alerts if side else 0
    if preset == "timeline":
        alerts = sources = log = 0
    elif preset == "log":
        alerts = sources = 0
        log = rest - (8 if height >= 28 else 5)
    rows = {"alerts": alerts, "sources": sources, "log": log}
    for name in hidden:
        if name in rows:
            rows[name] = 0
    below = max(rows["alerts"], rows["sources"]) if side else rows["alerts"] + rows["sources"]
    board = rest - below - rows["log"]
    if "board" in hidden:
        grow = "log" if rows["log"] else "alerts" if rows["alerts"] else "sources"
        rows[grow] = (rows[grow] if grow != "sources" or side else 0) + board
        if side and grow != "log":
            rows["alerts"] = rows["sources"] = max(rows["alerts"], rows["sources"])
        board = 0
    return Layout(1, 3, board, footer=1, side_by_side=side, bare=False, **rows)
