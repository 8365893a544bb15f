"""Rows that the panes could fill: they only grow, because jumping panes are hard to read."""

from __future__ import annotations

from perfmon.picture import Picture

from .layout import USUALLY_LISTED
from .render.board import lanes_wanted
from .render.machines.summary import lines_wanted


class Room:
    """Rows requested so far."""

    def __init__(self) -> None:
        self.listed = USUALLY_LISTED
        """The most alerts, and sources, that there were to list, once all that the logs held was read."""
        self.lanes: int | None = None
        """The most lanes that the board had; None until all that the logs held was read."""
        self._counted = False

    def is_wanted_anew(self, newest: Picture, alerts: int, *, strip: bool) -> bool:
        """Return true if a picture needs more rows, with `alerts` being the visible ones."""
        before = self.listed, self.lanes
        self.listed, self.lanes = self._listed_of(newest, alerts), self._lanes_of(newest, strip)
        return before != (self.listed, self.lanes)

    def _listed_of(self, newest: Picture, shown: int) -> tuple[int, int]:
        """Alerts that come to nothing go again: the rows that they had stay."""
        whole = newest.snapshot is not None and newest.progress is None
        alerts, sources = (0, 0) if whole and not self._counted else self.listed
        self._counted = self._counted or whole
        return max(alerts, shown), max(sources, lines_wanted(newest))

    def _lanes_of(self, newest: Picture, strip: bool) -> int | None:
        if newest.snapshot is None or newest.progress is not None:
            return self.lanes
        return max(self.lanes or 0, lanes_wanted(newest.board, brief=strip))
