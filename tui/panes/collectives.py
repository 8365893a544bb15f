"""The pane of collectives: bandwidths by collective and size, ranks that others wait for, slow links, missing ranks."""

from __future__ import annotations

from collections.abc import Sequence

from perfmon.viewmodel import CollectivesState, MonitorState

from ..render.collectives import SIDE_BY_SIDE, accused, collective_rows, title_note
from ..render.rows import Row, Words, fitted, styled
from ..theme import ThemeStyles
from ..widgets.pane import Listing


class CollectivesPane(Listing):
    """The collectives of the last seconds; the rows scroll, and there is nothing to open."""

    def __init__(self, skin: ThemeStyles) -> None:
        super().__init__(skin, id="collectives")
        self._state: CollectivesState | None = None
        self._named: set[str] = set()
        self._lines: list[Words] = []

    def wanted(self, picture: MonitorState) -> int:
        """Rows that could be filled; 0 without logs of NCCL Inspector."""
        state = picture.collectives
        if state is None:
            return 0
        others = len(state.ranks) + len(state.missing)
        wide = bool(self.app.size.width >= SIDE_BY_SIDE)
        return 3 + (max(len(state.by), others) if wide else len(state.by) + others)

    def show(self, picture: MonitorState) -> None:
        """Show another picture."""
        self._state, self._named = picture.collectives, accused(picture)
        self.redraw()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The title, and the lines in sight."""
        self._lines = [] if self._state is None else collective_rows(self._state, self._named, self.skin, width)
        return super().rows(width, height)

    def head(self, width: int, height: int) -> Sequence[Row]:
        """The title."""
        note = "" if self._state is None else title_note(self._state, width)
        return (self.title_row(5, "Collectives", note, self.place(height - 1) if width >= 72 else "", width),)

    def count(self) -> int:
        """All rows."""
        return len(self._lines)

    def line(self, at: int, width: int, ground: str) -> Row:
        """One row; names of hosts and communicators are foreign text."""
        return fitted(styled(self._lines[at], self.skin, ground), width, self.skin.style("text", ground))

    def stops_at(self, at: int) -> bool:
        """Keys scroll: no row can be opened."""
        return False
