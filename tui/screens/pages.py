"""Pages over the panes: parse coverage of the logs, the help, an alert, a weight update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partialmethod
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import TimeBase
from perfmon.diagnosis import EvidenceLine
from perfmon.logbuffer import Filter, LogBuffer, View
from perfmon.viewmodel import Alert, Bar, MonitorState, SourceStatus

from ..render.alert_page import detail, proposal_page, state_page, status
from ..render.header_footer import key_row
from ..render.help import help_lines
from ..render.logs import doctor
from ..render.rows import Entry, Row, Words, moment_text, panel_row, styled
from ..render.trace import UpdateLines, entry_row, in_order, name_of, summary, trace_page
from ..theme import ThemeStyles
from ..widgets.overlays import Page, Prompt
from ..widgets.pane import Request

if TYPE_CHECKING:
    from perfmon.sources.formats import Proposal

_LAST = 5
"""Last lines of logs on a page."""


class DoctorPage(Page):
    """Parse coverage of each log, live; it starts at the log `about`."""

    def __init__(self, skin: ThemeStyles, picture: MonitorState, about: SourceStatus | None = None) -> None:
        super().__init__(skin, id="doctor")
        self._picture = picture
        self._about = about

    def show(self, picture: MonitorState) -> None:
        """Show a newer picture."""
        self._picture = picture
        self.forget()
        self.redraw()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """Return the rows in view."""
        if self._about is not None:
            starts = doctor(self._picture, self.skin, width)[1]
            at = next((i for i, s in enumerate(self._picture.sources) if s.index == self._about.index), 0)
            self.top, self._about = starts[at] if at < len(starts) else 0, None
        return super().rows(width, height)

    def head(self, width: int, height: int) -> Sequence[Row]:
        """Return the title row."""
        right = ((f" {self.place(height - 1)}  esc back ", "footer-key"),)
        return (panel_row(((" doctor ", "title"), ("parse coverage", "muted")), right, width, self.skin),)

    def layout_entries(self, width: int) -> Sequence[Entry]:
        """Lay out all logs, one below another."""
        return [Entry(words) for words in doctor(self._picture, self.skin, width)[0]]


class HelpPage(Page):
    """Every key, command and symbol, first the keys of the pane `pane_name`; `keys` are those that the user chose.

    Then the meanings of `metrics`; `/` finds in all of it.
    """

    def __init__(self, skin: ThemeStyles, pane_name: str, keys: Mapping[str, str], metrics: Sequence[str] = ()) -> None:
        super().__init__(skin, id="help")
        self._pane, self._keys, self._metrics = pane_name, keys, metrics
        self._wanted = ""

    def head(self, width: int, height: int) -> Sequence[Row]:
        """Return the title row, with the number of further lines."""
        more = max(0, self.count() - self.top - (height - 1))
        hidden = f" {self.skin.glyph('down')} {more} more lines " if more else ""
        right = ((hidden, "muted"), (" / find ", "footer-key"), (" esc close ", "footer-key"))
        about = f"with {self._wanted}" if self._wanted else "every key, command and metric"
        return (panel_row(((" help ", "title"), (about, "muted")), right, width, self.skin),)

    def layout_entries(self, width: int) -> Sequence[Entry]:
        """Lay out all of it."""
        lines = help_lines(self._pane, self._keys, self.skin, width, self._metrics, self._wanted)
        return [Entry(words) for words in lines or [((f" nothing has {self._wanted}", "muted"),)]]

    def do_search(self) -> None:
        """Show only what has a text."""
        self.app.push_screen(Prompt("find", self._wanted), self.find)

    do_filter_lanes = do_search

    def find(self, text: str | None) -> None:
        """Show only what has this text; all for "", and no change for None."""
        if text is not None:
            self._wanted, self.top = text.strip(), 0
            self.forget()
            self.redraw()

    def do_back(self) -> None:
        """Show all again, or close it."""
        if self._wanted:
            self.find("")
        else:
            super().do_back()

    do_help = do_quit = Page.do_back


class StatePage(Page):
    """The page of a first row without an alert, with the last lines of the logs; `L` shows the present."""

    def __init__(self, skin: ThemeStyles, picture: MonitorState, book: LogBuffer) -> None:
        super().__init__(skin, id="state")
        self._picture, self._latest, self._book = picture, picture, book

    def show(self, picture: MonitorState) -> None:
        """Keep a newer picture: the page holds still while it is read."""
        self._latest = picture

    def head(self, width: int, height: int) -> Sequence[Row]:
        """Return the title row."""
        frozen = self._picture
        right = ((f"as of {moment_text(frozen.now, frozen.time_base)}  {self.place(height - 1)}  esc back ", "muted"),)
        return (panel_row(((" state ", "title"), ("of the run", "muted")), right, width, self.skin),)

    def layout_entries(self, width: int) -> Sequence[Entry]:
        """Lay out all sections of the page."""
        if self._picture.snapshot is None:
            return []
        return state_page(self._picture, self._picture.snapshot, self._last_lines(), self.skin, width)

    def _last_lines(self) -> list[EvidenceLine]:
        """The last lines of the log that was written to last; of several logs one of each."""
        names, rows = self._book.names, _LAST if len(self._picture.sources) == 1 else 1
        lines = [
            line
            for source in self._picture.sources[:_LAST]
            for line in View(self._book, Filter(sources=frozenset({source.index}))).tail(rows).lines
        ]
        return [EvidenceLine(names.get(line.source, ""), line.number, line.text) for line in lines]

    def do_live(self) -> None:
        """Show the present state."""
        self._picture = self._latest
        self.forget()
        self.redraw()


class ProposalPage(Page):
    """A format that was learned from a log; enter writes it to `target`, esc leaves it.

    With `again`, the logs that are watched are then read once more with it.
    """

    def __init__(self, skin: ThemeStyles, log: str, proposal: Proposal, target: Path, *, again: bool) -> None:
        super().__init__(skin, id="proposal")
        self._log, self._proposal, self._target, self._again = log, proposal, target, again

    def head(self, width: int, height: int) -> Sequence[Row]:
        """Return the title row."""
        right = ((" Enter applies it  esc leaves it ", "footer-key"),)
        return (panel_row(((" learn ", "title"), ("a format", "muted")), right, width, self.skin),)

    def layout_entries(self, width: int) -> Sequence[Entry]:
        """Lay out what it reads, with lines of the log as samples."""
        return proposal_page(self._log, self._proposal, self._target, self._again, self.skin, width)

    def do_open(self) -> None:
        """Apply it."""
        self.post_message(Request("keep_format", (self._proposal, self._target)))
        self.screen.dismiss(None)


# --- All of one alert: it holds still while it is open, and shows when there is news ---

_ALERT_KEYS = (
    ("esc", "back"), ("[ ]", "other alerts"), ("j k", "lines"), ("Enter", "log"), ("y", "copy"), ("O", "pager"),
    ("a", "ack"), ("S", "silence"), ("u", "undo"),
)  # fmt: skip


class AlertPage(Page):
    """The page of an alert; the cursor stops at log lines."""

    def __init__(self, skin: ThemeStyles, alert: Alert, picture: MonitorState) -> None:
        super().__init__(skin, id="alerts")
        self._latest = picture
        self._freeze(alert, picture)

    def _freeze(self, alert: Alert, picture: MonitorState) -> None:
        self.alert, self._frozen = alert, picture
        self.forget()
        self.top, self.cursor = 0, None

    def show(self, picture: MonitorState) -> None:
        """Update state and age; the page stays as it was."""
        self._latest = picture
        self.redraw()

    @property
    def news(self) -> str:
        """Changes since the page was opened; "" without any."""
        now = self._now
        if now is None:
            return "gone since"
        more = now.count - self.alert.count
        if more > 0:
            return f"{more} more since"
        return f"{now.state.value} now" if now.state is not self.alert.state else ""

    @property
    def _now(self) -> Alert | None:
        return next((alert for alert in self._latest.alerts if alert.number == self.alert.number), None)

    # --- drawing ------------------------------------------------------------------------------------------------------
    def head(self, width: int, height: int) -> Sequence[Row]:
        """The title row: the alert, the age of the data, and its current state."""
        skin = self.skin
        where = f" alerts {skin.glyph('next')} #{self.alert.number} {self.alert.key[0]} "
        right: Words = ((f"as of {moment_text(self._frozen.now, self._frozen.time_base)} ", "muted"),)
        if self.news:
            right = ((f" {self.news}: L shows it ", "badge-info"), (" ", "muted"))
        now = self._now or self.alert
        rows = [panel_row(((where, "title"),), right, width, skin)]
        return [*rows, styled(status(now, self._latest, skin, width), skin, "background")] if height > 2 else rows

    def foot(self, width: int, height: int) -> Sequence[Row]:
        """The keys."""
        if height < 6:
            return ()
        place = self.place(height - len(self.head(width, height)) - 1)
        right = [(f" {place} ", self.skin.style("muted", "panel"))] if place else []
        return [key_row(_ALERT_KEYS, right, width, self.skin)]

    def layout_entries(self, width: int) -> Sequence[Entry]:
        """Lay out all sections of the page."""
        return detail(self.alert, self._frozen, self.skin, width)

    # --- acting -------------------------------------------------------------------------------------------------------
    def do_live(self) -> None:
        """Show the present state."""
        top = self.top
        if self._now is not None:
            self._freeze(self._now, self._latest)
            self.top = top
        self.redraw()

    def _turn(self, by: int) -> None:
        alerts = self._latest.alerts
        if alerts:
            numbers = [alert.number for alert in alerts]
            at = numbers.index(self.alert.number) + by if self.alert.number in numbers else 0
            self._freeze(alerts[at % len(alerts)], self._latest)
        self.redraw()

    do_next_alert = partialmethod(_turn, 1)
    do_previous_alert = partialmethod(_turn, -1)

    def _request_alert(self, action: str) -> None:
        self.post_message(Request(action, self._now or self.alert))

    do_ack = partialmethod(_request_alert, "ack")
    do_silence = partialmethod(_request_alert, "silence")
    do_undo = partialmethod(_request_alert, "undo")


# --- One weight update: where its time went, and its lines from every log ---

_TRACE_KEYS = (
    ("esc", "back"),
    (", .", "other updates"),
    ("j k", "lines"),
    ("Enter", "log"),
    ("y", "copy"),
    ("O", "pager"),
)
_SHOWN = 200
_BUDGET_S = 0.008
_AGAIN_S = 0.015
_UPDATE = "weight-update"
_CLOSE_S = 1.0
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
        self._by_time = bar.kind != _UPDATE  # its lines carry no id: those of its time are shown
        wanted = Filter(folds=True) if self._by_time else Filter(trace=bar.key)
        self.found = UpdateLines(complete=not bar.key and not self._by_time)
        self._view: View | None = View(self._book, wanted) if bar.key or self._by_time else None
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
        around = _CLOSE_S if self._by_time else _AROUND_S
        page = view.at(bar.start - around, _SHOWN, _BUDGET_S) if self._near else view.head(_SHOWN, _BUDGET_S)
        lines = page.lines
        if self._near and not bar.open:
            lines = tuple(line for line in lines if line.time is None or line.time <= bar.end + around)
            if not self._by_time and page.complete and not lines:
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
        first = View(self._book).head(1).lines
        return not first or first[0].time is None or first[0].time > self.bar.start

    # --- drawing ------------------------------------------------------------------------------------------------------
    def head(self, width: int, height: int) -> Sequence[Row]:
        """Identity, duration and level of the update."""
        skin = self.skin
        words = (
            (
                f" {'weight sync' if self._by_time else 'weight update'} {skin.glyph('next')} {name_of(self.bar)} ",
                "title",
            ),
            *summary(self.bar, self._picture.time_base, skin),
        )
        right = ((f"{self.note} " if self.note else self._place(), "muted"),)
        return (panel_row(words, right, width, skin),)

    def _place(self) -> str:
        seqs = [bar.seq for bar in self._updates()]
        return f"{seqs.index(self.bar.seq) + 1} of {len(seqs)} in view " if self.bar.seq in seqs else ""

    def foot(self, width: int, height: int) -> Sequence[Row]:
        """The keys."""
        return (key_row(_TRACE_KEYS, (), width, self.skin),) if height >= 6 else ()

    def line(self, at: int, width: int, ground: str) -> Row:
        """A line of the page."""
        wall = self._picture.time_base is TimeBase.WALL
        return entry_row(self.entries(width)[at], self.found, wall, self.skin, width, ground)

    def layout_entries(self, width: int) -> Sequence[Entry]:
        """Lay out all sections of the page."""
        return trace_page(self.bar, self.found, self._picture, self.skin, width)

    # --- acting -------------------------------------------------------------------------------------------------------
    def _updates(self) -> list[Bar]:
        return self._picture.board.bars(self.bar.kind)

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
