"""The screen of `perfmon profile --tui`: a timeline of GPUs, the findings, and the long gaps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partialmethod
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.events import Resize

from perfmon.core import InputError, counted, format_share
from perfmon.profile import Gap, Profile
from perfmon.textgraphics import fit

from .panes.profile import FindingsPane, GapsPane, TimelinePane
from .plain_app import AppOptions, PlainApp, actions_of
from .render.profile import LANES, GpuTrack
from .render.rows import Words
from .widgets.pane import Listing, Request

_PANES = {"board": "timeline", "alerts": "findings", "sources": "gaps"}
"""By the ids that the table of actions has for them."""
_KNOWN = frozenset((
    "help", "snapshot", "theme", "suspend", "quit", "next_pane", "previous_pane", "pane_board", "pane_alerts",
    "pane_sources", "zoom", "back", "cursor_left", "cursor_right", "cursor_left_far", "cursor_right_far", "zoom_in",
    "zoom_out", "zoom_reset", "previous_alert", "next_alert", "up", "down", "page_up", "page_down", "top", "bottom",
    "open",
))  # fmt: skip
_WORDS = {
    "pane_alerts": ("findings", "Focus the findings; again: hide them."),
    "pane_sources": ("gaps", "Focus the long gaps; again: hide them."),
    "previous_alert": ("previous gap", "Go to the previous long gap."),
    "next_alert": ("next gap", "Go to the next long gap."),
    "zoom_reset": ("whole", "Show the whole trace."),
    "snapshot": ("snapshot", "Save the report as a Markdown page."),
    "quit": ("quit", "Quit."),
    "open": ("open", "Show the gap in the timeline; show or hide the lanes of a GPU."),
}


class ProfileApp(PlainApp):
    """The screen over an evaluated profile."""

    shown_keys = ("help", "open", "zoom_in", "zoom_out", "next_alert", "zoom", "snapshot", "next_pane", "quit")

    def __init__(self, found: Profile, opening: AppOptions) -> None:
        super().__init__(opening, actions_of(_KNOWN, _WORDS))
        self.found = found
        self.hidden: set[str] = set()
        self.zoomed: str | None = None

    def compose(self) -> ComposeResult:
        """Header, timeline, findings and gaps, footer."""
        self.board = TimelinePane(self.skin, self.found)
        self.findings = FindingsPane(self.skin, self.found)
        self.gaps = GapsPane(self.skin, self.found, self.board.tracks)
        yield self.header
        yield self.board
        with Horizontal(id="lower"):
            yield self.findings
            yield self.gaps
        yield self.footer

    def on_mount(self) -> None:
        """Lay out; the timeline has the keys."""
        self.arrange(*self.size)
        self.board.focus()

    def on_resize(self, event: Resize) -> None:
        """Another size, another layout."""
        self.arrange(*event.size)

    # --- layout -------------------------------------------------------------------------------------------------------
    def arrange(self, width: int, height: int) -> None:
        """Give every pane its rows; where there is little room only the focused one has some."""
        panes = {"board": self.board, "alerts": self.findings, "sources": self.gaps}
        alone = self.zoomed or (self._focused_name() if height < 14 else None)
        shown = {name: name not in self.hidden if alone is None else name == alone for name in panes}
        for name, pane in panes.items():
            pane.display = shown[name]
        lower = self.query_one("#lower")
        lower.display = shown["alerts"] or shown["sources"]
        room = height - 2
        wanted = self.board.count() + 3
        if shown["board"] and lower.display:
            self.board.styles.height = max(6, min(wanted, room - 8, room * 2 // 3))
        else:
            self.board.styles.height = "1fr"
        self.findings.styles.width = self.gaps.styles.width = "1fr"
        narrow = width < 100
        lower.styles.layout = "vertical" if narrow else "horizontal"
        if narrow and shown["alerts"] and shown["sources"]:
            self.findings.styles.height, self.gaps.styles.height = "3fr", "2fr"
        self.show_bars(width)

    def _focused_name(self) -> str:
        name = self.screen_stack[0].focused.id if self.screen_stack and self.screen_stack[0].focused else None
        return name if name in _PANES else "board"

    def on_descendant_focus(self) -> None:
        """A small screen shows the pane that has the keys."""
        self.arrange(*self.size)

    def show_bars(self, columns: int | None = None) -> None:
        """Draw the use of the GPUs, and the keys."""
        width = columns or self.size.width
        span = sum(use.span for use in self.found.gpus)
        idle = sum(use.idle for use in self.found.gpus) / span if span else 0.0
        left: Words = (
            (" profile ", "title"),
            (f"{fit(self.opening.title, max(16, width // 3)).rstrip()}  ", "text"),
            (f"{counted(len(self.found.gpus), 'GPU')}, idle {format_share(idle)}  ", "muted"),
        )
        verdict: Words = ((self.message, "accent"),)
        if not self.message and self.found.findings:
            finding = self.found.findings[0]
            verdict = ((f"{finding.title} ", finding.severity.value if finding.lost_s else "muted"),)
        self.draw_bars(left, verdict, width)

    def do_snapshot(self) -> None:
        """Save the report in this folder."""
        from perfmon.reports import profile_markdown, save

        made = datetime.now().astimezone()
        try:
            self.show_message(f"written: {save(profile_markdown(self.found), Path(), made)}")
        except InputError as error:
            self.show_message(str(error))

    def help_lines(self) -> Sequence[Words]:
        """The lanes in words."""
        head: Words = ((" Lanes: the height of a column is the share of its time", "title"),)
        return [(("", "text"),), head, *(((f"   {self.skin.spark} ", style), (name, "text")) for name, style in LANES)]

    # --- panes --------------------------------------------------------------------------------------------------------
    def _turn(self, by: int) -> None:
        panes: list[Listing] = [self.board, self.findings, self.gaps]
        small = self.size.height < 14 or self.zoomed is not None
        order = panes if small else [pane for pane in panes if pane.display]
        at = next((at for at, pane in enumerate(order) if pane.id == self._focused_name()), 0)
        to = order[(at + by) % len(order)]
        if self.zoomed:
            self.zoomed = to.id
        to.display = True
        to.focus()
        self.arrange(*self.size)

    do_next_pane = partialmethod(_turn, 1)
    do_previous_pane = partialmethod(_turn, -1)

    def _toggle(self, name: str) -> None:
        pane = {"board": self.board, "alerts": self.findings, "sources": self.gaps}[name]
        shown = name not in self.hidden and pane.display
        if shown and not self.zoomed and self._focused_name() != name:
            pane.focus()
            return
        if self.zoomed or self.size.height < 14:
            self.zoomed = None if self.zoomed == name else name
        elif {*_PANES} - self.hidden == {name}:
            self.show_message("the last pane cannot be closed")
        else:
            self.hidden ^= {name}
        if name not in self.hidden:
            pane.display = True
            pane.focus()
        elif self._focused_name() == name:
            self._turn(1)
        self.arrange(*self.size)

    do_pane_board = partialmethod(_toggle, "board")
    do_pane_alerts = partialmethod(_toggle, "alerts")
    do_pane_sources = partialmethod(_toggle, "sources")

    def do_zoom(self) -> None:
        """Give the focused pane all the room, or all panes theirs again."""
        self.zoomed = None if self.zoomed else self._focused_name()
        self.arrange(*self.size)

    def do_back(self) -> None:
        """Take back one thing: what is maximised, the cursor, the zoom."""
        if self.zoomed:
            self.do_zoom()
        elif self.board.port.cursor is not None:
            self.board.port.cursor = None
            self.board.redraw()
        else:
            self.do_zoom_reset()

    # --- time ---------------------------------------------------------------------------------------------------------
    def _step(self, columns: int) -> None:
        self.board.port.move(columns, self.board.columns)
        self.board.redraw()

    do_cursor_left = partialmethod(_step, -1)
    do_cursor_right = partialmethod(_step, 1)
    do_cursor_left_far = partialmethod(_step, -10)
    do_cursor_right_far = partialmethod(_step, 10)

    def _zoom_time(self, factor: float) -> None:
        self.board.port.zoom(factor)
        self.board.redraw()

    do_zoom_in = partialmethod(_zoom_time, 0.5)
    do_zoom_out = partialmethod(_zoom_time, 2.0)

    def do_zoom_reset(self) -> None:
        """Show the whole trace."""
        self._zoom_time(self.board.port.whole / self.board.port.span)

    def _jump(self, onward: bool) -> None:
        track, at = self.board.track, self.board.port.cursor
        starts = sorted(track.start + gap.start for gap in track.use.gaps)
        fitting = [one for one in starts if at is None or (one > at if onward else one < at)]
        if not fitting:
            self.show_message(f"no {'later' if onward else 'earlier'} long gap of this GPU")
            return
        start = fitting[0] if onward or at is None else fitting[-1]
        gap = next(gap for gap in track.use.gaps if track.start + gap.start == start)
        self._show_gap(track, gap)

    do_next_alert = partialmethod(_jump, True)
    do_previous_alert = partialmethod(_jump, False)

    def on_request(self, message: Request) -> None:
        """Show the gap that was chosen."""
        if message.action == "gap" and isinstance(message.about, tuple):
            track, gap = message.about
            self._show_gap(track, gap)
            self.board.display = True
            self.board.focus()

    def _show_gap(self, track: GpuTrack, gap: Gap) -> None:
        self.board.cursor = next(at for at, (one, lane) in enumerate(self.board.lines()) if one is track and not lane)
        self.board.port.show(track.start + gap.start, track.start + gap.end)
        self.board.reveal()
        self.board.redraw()
