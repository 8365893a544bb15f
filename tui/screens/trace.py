"""One weight update: where its time went, and its lines from every log."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.screen import Screen

from perfmon.core import TimeBase
from perfmon.diagnosis import EvidenceLine
from perfmon.logbuffer import Filter, LogBuffer, View
from perfmon.viewmodel import Bar, MonitorState

from ..messages import LineMessage, LineYanked, PagerAsked
from ..render.header_footer import key_row
from ..render.rows import Row, between, styled
from ..render.trace import Entry, Told, entry_row, in_order, name_of, summary, trace_page
from ..theme import ThemeStyles
from ..widgets.pane import Listing

_KEYS = (("esc", "back"), (", .", "other updates"), ("j k", "lines"), ("Enter", "log"), ("y", "copy"), ("O", "pager"))
_MOST = 200
_BUDGET_S = 0.008
_AGAIN_S = 0.015
_AROUND_S = 30.0
"""An id may be given again: lines that are further away are another update's, unless there are no others."""


class TracePage(Listing):
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
        self.told = Told(complete=not bar.key)
        self._view: View | None = View(self._book, Filter(trace=bar.key)) if bar.key else None
        self._near = True
        self._made: tuple[int, list[Entry]] = (-1, [])
        self.top, self.cursor = 0, None

    def show(self, picture: MonitorState) -> None:
        """An update that is under way goes on; the page of one that has ended stays as it is."""
        before, self._picture = self.bar, picture
        if before.open:
            self.bar = next((bar for bar in self._updates() if bar.seq == before.seq), before)
            self._made = (-1, [])
            self.seek()
        self.redraw()

    def dress(self, skin: ThemeStyles) -> None:
        """Puts on another skin."""
        self._made = (-1, [])
        super().dress(skin)

    # --- its lines ----------------------------------------------------------------------------------------------------
    def on_mount(self) -> None:
        """Begins to search."""
        self.seek()

    def seek(self) -> None:
        """Looks for its lines, a few milliseconds at a time."""
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
        told = Told(in_order(lines), page.complete, page.complete and self._forgotten(), self._book.names)
        if told != self.told:
            self.told = told
            self._made = (-1, [])
            self.redraw()
        if not page.complete:
            self.set_timer(_AGAIN_S, self.seek)

    def _forgotten(self) -> bool:
        """The book begins after the update did."""
        if not self._book.totals().lost_lines:
            return False
        first = View(self._book).head(1).lines
        return not first or first[0].time is None or first[0].time > self.bar.start

    @property
    def line_under_cursor(self) -> EvidenceLine | None:
        """The log line that keys act on: the first one while the cursor is nowhere."""
        entries = self._entries(self.size.width)
        if self.cursor is not None and self.cursor < len(entries):
            return entries[self.cursor].evidence
        return next((entry.evidence for entry in entries if entry.evidence is not None), None)

    # --- drawing ------------------------------------------------------------------------------------------------------
    def head(self, width: int, height: int) -> Sequence[Row]:
        """Identity, duration and level of the update."""
        skin = self.skin
        words = ((f" trace {skin.glyph('next')} {name_of(self.bar)} ", "title"), *self._summary())
        right = styled(((f"{self.note} " if self.note else self._place(), "muted"),), skin, "panel")
        return (between(styled(words, skin, "panel"), right, width, (" ", skin.style("panel"))),)

    def _summary(self) -> tuple[tuple[str, str], ...]:
        return summary(self.bar, self._picture.time_base, self.skin)

    def _place(self) -> str:
        seqs = [bar.seq for bar in self._updates()]
        return f"{seqs.index(self.bar.seq) + 1} of {len(seqs)} in view " if self.bar.seq in seqs else ""

    def foot(self, width: int, height: int) -> Sequence[Row]:
        """The keys."""
        return (key_row(_KEYS, (), width, self.skin),) if height >= 6 else ()

    def count(self) -> int:
        """Lines of the page."""
        return len(self._entries(self.size.width))

    def line(self, at: int, width: int, ground: str) -> Row:
        """A line of the page."""
        wall = self._picture.time_base is TimeBase.WALL
        return entry_row(self._entries(width)[at], self.told, wall, self.skin, width, ground)

    def stops_at(self, at: int) -> bool:
        """At log lines."""
        return self._entries(self.size.width)[at].evidence is not None

    def _entries(self, width: int) -> list[Entry]:
        if self._made[0] != width:
            self._made = (width, trace_page(self.bar, self.told, self._picture, self.skin, width))
        return self._made[1]

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

    def do_next_update(self) -> None:
        """The next one."""
        self._turn(True)

    def do_previous_update(self) -> None:
        """The one before."""
        self._turn(False)

    def do_open(self) -> None:
        """Shows the line where it stands in its log."""
        line = self.line_under_cursor
        if line is not None:
            self.screen.dismiss(line)

    def do_yank(self) -> None:
        """Has the line copied."""
        self._post(LineYanked)

    def do_pager(self) -> None:
        """Has its log opened at the line."""
        self._post(PagerAsked)

    def _post(self, message: type[LineMessage]) -> None:
        line = self.line_under_cursor
        if line is not None:
            self.post_message(message(line.source, line.line, line.text))

    def do_waterfall(self) -> None:
        """It is open already."""

    def do_back(self) -> None:
        """Closes the page."""
        self.screen.dismiss(None)


class TraceScreen(Screen[EvidenceLine | None]):
    """Opens over everything; gives the line to jump to, or None."""

    def __init__(self, skin: ThemeStyles, bar: Bar, picture: MonitorState, logbook: LogBuffer) -> None:
        super().__init__()
        self.page = TracePage(skin, bar, picture, logbook)

    def compose(self) -> ComposeResult:
        """The page."""
        yield self.page

    def on_mount(self) -> None:
        """Keys go to the page."""
        self.page.focus()

    def show(self, picture: MonitorState) -> None:
        """Update from a new picture."""
        self.page.show(picture)

    def dress(self, skin: ThemeStyles) -> None:
        """Puts on another skin."""
        self.page.dress(skin)
