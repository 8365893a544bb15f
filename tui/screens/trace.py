"""One weight update: where its time went, and its lines from every log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partialmethod

from perfmon.core import TimeBase
from perfmon.logbuffer import Filter, LogBuffer, View
from perfmon.viewmodel import Bar, MonitorState

from ..render.header_footer import key_row
from ..render.rows import Entry, Row, between, styled
from ..render.trace import UpdateLines, entry_row, in_order, name_of, summary, trace_page
from ..theme import ThemeStyles
from ..widgets.overlays import Page

_KEYS = (("esc", "back"), (", .", "other updates"), ("j k", "lines"), ("Enter", "log"), ("y", "copy"), ("O", "pager"))
_MOST = 200
_BUDGET_S = 0.008
_AGAIN_S = 0.015
_AROUND_S = 30.0
"""An id may be given again: lines that are further away are another update's, unless there are no others."""


class TracePage(Page):
    """The page of a weight update; the cursor stops at log lines."""

    def __init__(self, skin: ThemeStyles, bar: Bar, picture: MonitorState, logbook: LogBuffer) -> None:
        super().__init__(skin, id="trace")
        self._book = logbook
        self._picture = picture
        self.note = ""
        """Message of the last key."""
        self._turn_to(bar)

    def _turn_to(self, bar: Bar) -> None:
        self.bar = bar
        self.found = UpdateLines(complete=not bar.key)
        self._view: View | None = self._book.view(Filter(trace=bar.key)) if bar.key else None
        self._near = True
        self.forget()
        self.top, self.cursor = 0, None

    def show(self, picture: MonitorState) -> None:
        """Show the progress of an open update; the page of one that has ended stays as it is."""
        before, self._picture = self.bar, picture
        if before.open:
            self.bar = next((bar for bar in self._updates() if bar.seq == before.seq), before)
            self.forget()
            self.seek()
        self.redraw()

    # --- its lines ----------------------------------------------------------------------------------------------------
    def on_mount(self) -> None:
        """Start searching."""
        self.seek()

    def seek(self) -> None:
        """Search its lines, a few milliseconds at a time."""
        view, bar = self._view, self.bar
        if view is None:
            return
        page = view.at(bar.start - _AROUND_S, _MOST, _BUDGET_S) if self._near else view.head(_MOST, _BUDGET_S)
        lines = page.lines
        if self._near and not bar.open:
            lines = tuple(line for line in lines if line.time is None or line.time <= bar.end + _AROUND_S)
            if page.complete and not lines:
                self._near = False
                self.seek()
                return
        found = UpdateLines(in_order(lines), page.complete, page.complete and self._forgotten(), self._book.names)
        if found != self.found:
            self.found = found
            self.forget()
            self.redraw()
        if not page.complete:
            self.set_timer(_AGAIN_S, self.seek)

    def _forgotten(self) -> bool:
        """The book begins after the update did."""
        if not self._book.totals().lost_lines:
            return False
        first = self._book.view().head(1).lines
        return not first or first[0].time is None or first[0].time > self.bar.start

    # --- drawing ------------------------------------------------------------------------------------------------------
    def head(self, width: int, height: int) -> Sequence[Row]:
        """Identity, duration and level of the update."""
        skin = self.skin
        words = (
            (f" trace {skin.glyph('next')} {name_of(self.bar)} ", "title"),
            *summary(self.bar, self._picture.time_base, skin),
        )
        right = styled(((f"{self.note} " if self.note else self._place(), "muted"),), skin, "panel")
        return (between(styled(words, skin, "panel"), right, width, (" ", skin.style("panel"))),)

    def _place(self) -> str:
        seqs = [bar.seq for bar in self._updates()]
        return f"{seqs.index(self.bar.seq) + 1} of {len(seqs)} in view " if self.bar.seq in seqs else ""

    def foot(self, width: int, height: int) -> Sequence[Row]:
        """The keys."""
        return (key_row(_KEYS, (), width, self.skin),) if height >= 6 else ()

    def line(self, at: int, width: int, ground: str) -> Row:
        """A line of the page."""
        wall = self._picture.time_base is TimeBase.WALL
        return entry_row(self.entries(width)[at], self.found, wall, self.skin, width, ground)

    def layout_entries(self, width: int) -> Sequence[Entry]:
        """Lay out all sections of the page."""
        return trace_page(self.bar, self.found, self._picture, self.skin, width)

    # --- acting -------------------------------------------------------------------------------------------------------
    def _updates(self) -> list[Bar]:
        return [bar for lane in self._picture.board.spans if lane.kind == self.bar.kind for bar in lane.bars]

    def _turn(self, onward: bool) -> None:
        here = (self.bar.start, self.bar.seq)
        ordered = sorted(self._updates(), key=lambda bar: (bar.start, bar.seq))
        found = [bar for bar in ordered if ((bar.start, bar.seq) > here if onward else (bar.start, bar.seq) < here)]
        self.note = "" if found else f"no {'later' if onward else 'earlier'} update in view"
        if found:
            self._turn_to(found[0] if onward else found[-1])
            self.seek()
        self.redraw()

    do_next_update = partialmethod(_turn, True)
    do_previous_update = partialmethod(_turn, False)

    def do_waterfall(self) -> None:
        """Do nothing: it is open already."""
