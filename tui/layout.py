"""Layout of panes: how many rows each gets at which size, and how many it needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfmon.viewmodel import MonitorState

# --- Rows of each pane: four layouts, selected by the size of the terminal or by name ---

LAYOUTS = ("auto", "overview", "timeline", "log", "strip")
PRESETS = LAYOUTS[1:]
WIDE = 110
HEADED = 100
"""So many cells have room for the names of the columns of alerts."""
_LEAST_LANES = 3
USUALLY_LISTED = (1, 3)
"""Alerts and sources that room is kept for as long as their number is unknown."""
_TITLE_AND_AXIS = 2
_ANSWERS = 4
"""Rows of the summary; those of a low terminal have fewer."""
_STRIP_WIDTH, _STRIP_HEIGHT = 72, 18
_LOW = 6
_TALL = 6
"""Rows that lanes leave of a strip, from which on it has more panes."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows of each pane; 0 hides it. Alerts and sources share theirs, left and right."""

    header: int
    answer: int
    board: int
    alerts: int
    sources: int
    log: int
    footer: int
    bare: bool
    """The board has no title and no axis."""
    collectives: int = 0


def layout_for(
    width: int,
    height: int,
    preset: str = "auto",
    hidden: Collection[str] = (),
    zoomed: str | None = None,
    listed: tuple[int, int] | None = None,
    *,
    machines: bool = False,
    lanes: int | None = None,
    collectives: int = 0,
) -> Layout:
    """The layout of a terminal of `width` cells and `height` rows.

    `preset` is one of LAYOUTS; `hidden` names panes that the user switched off, `zoomed` the one that has all the room.
    `listed` is how many alerts and how many sources there are to list: rows that neither needs are the board's. With
    `machines` there are GPUs, hosts or queues among these. `lanes` is how many the board has: rows that these do not
    need are the log's. `collectives` is how many rows their pane can fill; 0 without such logs.
    """
    small = width < _STRIP_WIDTH or height < _STRIP_HEIGHT
    if zoomed is not None and height >= 4:
        return _zoomed(height, zoomed)
    if preset == "strip" or small:
        return _strip(width, height, 0 if listed is None else listed[0], lanes)
    full = _full(width, height, preset, hidden, listed, machines)
    if collectives and preset in ("auto", "overview") and "collectives" not in hidden:
        taken = min(collectives, (height - 5) * 2 // 5, full.board - _LEAST_LANES - _TITLE_AND_AXIS)
        if taken >= _LEAST_LANES:
            full = replace(full, board=full.board - taken, collectives=taken)
        elif not full.board:
            taken = min(collectives, max(full.log, full.alerts) // 2)
            full = replace(full, log=full.log - taken, collectives=taken) if full.log > taken else full
    return full if lanes is None or preset not in ("auto", "overview") else _lent(full, lanes)


def share_of_alerts(width: int) -> int:
    """Cells of the alerts in the row that they share with the sources; in a narrow one they need more of it."""
    return width // 2 if width >= WIDE else width * 5 // 8


def shares(width: int, machines: bool) -> tuple[str, str]:
    """The same for Textual, of alerts and sources; machines need more than logs do."""
    return ("1fr", "1fr") if width >= WIDE else ("3fr", "2fr") if machines else ("5fr", "3fr")


def _zoomed(height: int, pane: str) -> Layout:
    answer = _ANSWERS if height >= 10 else 1
    header = int(height >= 14)
    rest = height - answer - header - 1
    rows = {name: rest if name == pane else 0 for name in ("board", "alerts", "sources", "log", "collectives")}
    return Layout(header, answer, footer=1, bare=False, **rows)


def _strip(width: int, height: int, alerts: int, lanes: int | None) -> Layout:
    """Answers first; then lanes; then one row with the state of the run, and the keys when there is room.

    Of a tall one, what lanes do not need shows alerts and the log.
    """
    answer = min(height, _ANSWERS if height > _LOW else 3)
    header = int(height >= 4)
    rest = height - answer - header
    if width < 40:
        return Layout(header, answer, 0, 0, 0, 0, 0, bare=True)
    footer = int(rest >= 4)
    board = rest - footer
    spare = 0 if lanes is None else board - max(_LEAST_LANES, lanes)
    if spare < _TALL:
        return Layout(header, answer, board, 0, 0, 0, footer, bare=True)
    listed = min(1 + max(1, alerts), spare // 2)
    return Layout(header, answer, board - spare, listed, 0, spare - listed, footer, bare=True)


def _full(
    width: int, height: int, preset: str, hidden: Collection[str], listed: tuple[int, int] | None, machines: bool
) -> Layout:
    rest = height - _ANSWERS - 2
    lower, log = (3, 3) if height < 28 else (5, 6) if height < 44 else (9, 12)
    if machines:
        lower, log = (5, 3) if height < 28 else (8, 5) if height < 44 else (14, 10)
    if listed is not None and "board" not in hidden:
        lower = min(lower, _listing(width, *listed))
    if preset == "timeline":
        lower = log = 0
    elif preset == "log":
        lower, log = 0, rest - (8 if height >= 28 else 5)
    rows = {"alerts": lower, "sources": lower, "log": log} | dict.fromkeys(hidden, 0)
    below = max(rows["alerts"], rows["sources"])
    rows["board"] = rest - below - rows["log"]
    if "board" in hidden:
        rows |= _instead(rows, hidden)
    return Layout(1, _ANSWERS, footer=1, bare=False, **rows)


def _listing(width: int, alerts: int, sources: int) -> int:
    """Rows that so many of them need, side by side: each has a title, alerts the names of their columns, too."""
    names = bool(alerts) and share_of_alerts(width) >= HEADED
    return 1 + max(alerts + names, sources, 1)


def _lent(full: Layout, lanes: int) -> Layout:
    """Rows of the board that would stay empty show lines of the log; it keeps its title."""
    spare = full.board - max(2, lanes) - _TITLE_AND_AXIS
    return full if spare <= 0 or not full.log else replace(full, board=full.board - spare, log=full.log + spare)


def _instead(rows: Mapping[str, int], hidden: Collection[str]) -> dict[str, int]:
    """Pane that takes the rows of a hidden timeline: the log, or else one that is left."""
    room = rows["board"]
    shown = ["log"] if rows["log"] else [name for name in ("alerts", "sources") if rows[name]]
    shown = shown or [next(name for name in ("log", "alerts", "sources", "board") if name not in hidden)]
    return {"board": 0} | {name: rows[name] + room for name in shown if name != "board"}


# --- Rows that the panes could fill: they only grow, because jumping panes are hard to read ---


class Room:
    """Rows requested so far."""

    def __init__(self) -> None:
        self.listed = USUALLY_LISTED
        """The most alerts, and sources, that there were to list, once all that the logs held was read."""
        self.lanes: int | None = None
        """The most lanes that the board had; None until all that the logs held was read."""
        self._counted = False

    def update(self, newest: MonitorState, alerts: int, *, strip: bool) -> bool:
        """Return true if a picture needs more rows, with `alerts` being the visible ones."""
        before = self.listed, self.lanes
        self.listed, self.lanes = self._listed_of(newest, alerts), self._lanes_of(newest, strip)
        return before != (self.listed, self.lanes)

    def _listed_of(self, newest: MonitorState, shown: int) -> tuple[int, int]:
        """Alerts that come to nothing go again: the rows that they had stay."""
        from .render.hosts.sections import lines_wanted  # Textual comes with it: the first frame does not wait for it

        whole = newest.snapshot is not None and newest.progress is None
        alerts, sources = (0, 0) if whole and not self._counted else self.listed
        self._counted = self._counted or whole
        return max(alerts, shown), max(sources, lines_wanted(newest))

    def _lanes_of(self, newest: MonitorState, strip: bool) -> int | None:
        from .render.timeline import is_part, lanes_wanted  # as above

        if newest.snapshot is None or newest.progress is not None:
            return self.lanes
        return max(self.lanes or 0, lanes_wanted(newest.board, brief=strip) + (is_part(newest) and not strip))
