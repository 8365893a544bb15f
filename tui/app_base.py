"""The screen of a monitor without its actions: panes, their layout, and the picture that they show."""

from __future__ import annotations

import os
import time
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.events import Resize
from textual.geometry import Size
from textual.widget import Widget

from perfmon.core import Progress
from perfmon.diagnosis import Diagnosis
from perfmon.monitor import Monitor
from perfmon.viewmodel import MonitorState

from .actions import ACTIONS, HINTS, keys_of, spelled
from .layout import Layout, Room, layout_for, shares
from .panes.lists import AlertPane, CollectivesPane, SourcesPane
from .panes.logs import LogPane
from .panes.main import AnswerPane, BoardPane, FooterPane, HeaderPane
from .plain_app import AppOptions, ThemedApp
from .render.header_footer import HeaderInfo
from .time_view import TimeNavigation
from .widgets.pane import Pane

PANES = ("board", "alerts", "sources", "log", "collectives")
_MESSAGE_S = 6.0
_SLOW_S = 0.9
"""Ages and rates are updated this far apart."""
_TICK_S = 2.0
_ROOM_FOR_HINTS = 80
_HEADER_S = 1.5
"""The header is updated with every picture; without any for this long it is updated for its own sake."""


class BaseApp(ThemedApp):
    """The panes of a monitor, laid out for the terminal and updated from pictures."""

    CSS = """
    Screen { layout: vertical; overflow: hidden; background: $background; }
    Prompt { background: transparent; }
    #lower { width: 1fr; }
    """

    def __init__(self, monitor: Monitor, opening: AppOptions) -> None:
        super().__init__(opening)
        self.monitor = monitor
        self.picture: MonitorState = monitor.picture
        """The state that is shown; the newest one unless the view is frozen."""
        self.time_view = TimeNavigation()
        self.preset = opening.layout
        self.hidden: set[str] = set()
        self.zoomed: str | None = None
        self._layout: Layout | None = None
        self._room = Room()
        self._collective_rows = 0
        self._listed_at = 0.0
        self._listed: tuple[object, ...] = (None,)
        self._cost = OwnCost()
        self._message, self._message_at = "", 0.0
        self._notices: tuple[str, ...] = ()
        self._header: HeaderInfo | None = None
        """The last contents of header and footer."""
        self._diagnosis: Diagnosis | None = None

    def compose(self) -> ComposeResult:
        """Header, summary, timeline, alerts and sources, log, footer."""
        info = self._header_info()
        self.header = HeaderPane(self.skin, self.picture, info)
        self.answer = AnswerPane(self.skin, self.picture)
        self.board = BoardPane(self.skin, self.picture)
        self.alerts = AlertPane(self.skin)
        self.collectives = CollectivesPane(self.skin)
        self.sources = SourcesPane(self.skin)
        self.log_pane = LogPane(self.skin, self.monitor.logbook)
        self.footer = FooterPane(self.skin, info, self.opening.keys)
        yield self.header
        yield self.answer
        yield self.board
        yield self.collectives
        with Horizontal(id="lower"):
            yield self.alerts
            yield self.sources
        yield self.log_pane
        yield self.footer

    def on_mount(self) -> None:
        """Lay out, and keep the header up to date."""
        self.arrange()
        self.board.focus()
        self.set_interval(_TICK_S, self._tick)
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # the shell had the screen
        self.exit_on_signals()

    def on_resize(self, event: Resize) -> None:
        """Another size, perhaps another layout."""
        if event.size == self.size and self._layout is not None:
            self.refresh(layout=True)  # it had other sizes in between: what was on it may be gone
        self.arrange(event.size)  # `self.size` is still the old one

    def stop_work(self) -> None:
        """Close the recording."""
        self.monitor.stop()

    # --- pictures -------------------------------------------------------------------------------------------------
    def show(self, newest: MonitorState) -> None:
        """Show a picture. Of a frozen view the timeline and the log stand still; all else is about the present."""
        self.picture = newest
        self._show_notices(newest)
        self._highlight_evidence(newest)
        rows = self.collectives.wanted(newest)
        if self._room.update(newest, len(self.picture.alerts), strip=self.strip) or rows > self._collective_rows:
            self._collective_rows = max(rows, self._collective_rows)
            self.arrange()
        self.board.show(self.picture)
        port = self.picture.board.viewport
        self.log_pane.look(port.start, port.end)
        due = self._lists_are_due(newest)
        if due:
            self.answer.show(self.picture)
            if self.alerts.display:
                self.alerts.show(self.picture)
            if self.collectives.display:
                self.collectives.show(self.picture)
            if self.sources.display:
                self.sources.show(newest)
        if newest.board.courses and not self.covered:
            self.request_view()
        show = getattr(self.screen, "show", None)
        if show is not None:  # what is open is given pictures, too
            show(newest)
        if due or self._header_info() != self._header:
            self._show_header()

    def _lists_are_due(self, newest: MonitorState) -> bool:
        """Return true if more than the time has changed, or a second is over."""
        now, states = time.monotonic(), tuple((alert.key, alert.state) for alert in self.picture.alerts)
        listed = (self.picture.snapshot, self.picture.state, newest.recording is None, states)
        same = listed[0] is self._listed[0] and listed[1:] == self._listed[1:]
        if same and now - self._listed_at < _SLOW_S:
            return False
        self._listed_at, self._listed = now, listed
        return True

    def _show_notices(self, newest: MonitorState) -> None:
        """Show new notices once, for a while."""
        if newest.notices != self._notices:
            known = newest.notices[: len(self._notices)] == self._notices
            fresh = newest.notices[len(self._notices) :] if known else newest.notices[-1:]
            self._notices = newest.notices
            self.show_message(" · ".join(fresh))

    def _highlight_evidence(self, newest: MonitorState) -> None:
        """Mark the lines of the log that findings rest on, and show the one that the run has failed by."""
        snapshot, found = newest.snapshot, newest.verdict_finding
        if snapshot is not self._diagnosis and snapshot is not None:
            self._diagnosis = snapshot
            failed = snapshot.run.state is Progress.FAILED and newest.progress is None
            self.log_pane.show_cause(found.evidence[0] if failed and found is not None and found.evidence else None)
            firing = [finding for finding in snapshot.findings if finding.state == "firing"]
            self.log_pane.evidence(line for finding in firing for line in finding.evidence)

    # --- header and footer ----------------------------------------------------------------------------------------
    def show_message(self, text: str) -> None:
        """Show a text for a few seconds: in the header, or on top of what is open."""
        self._message, self._message_at = text, time.monotonic()
        self._show_header()

    def _tick(self) -> None:
        """Update the cost, and let an old message go."""
        self._cost.measure()
        if time.monotonic() - self._header_at > _HEADER_S:
            self._show_header()

    def _show_header(self) -> None:
        if self.is_running and self._layout is not None:
            self._header_at = time.monotonic()
            info = self._header = self._header_info()
            self.header.show(self.monitor.picture, info)
            self.footer.show(info, self._named(self.screen_stack[0].focused))  # also while something is open over it
            covering = self.focused if self.covered else None
            if isinstance(covering, Pane):
                covering.set_note(info.message)
            self.answer.set_note("" if self.header.display else info.message)

    def _header_info(self) -> HeaderInfo:
        time_view, port = self.time_view, self.picture.board.viewport
        layout = "strip" if self.strip else self.preset
        layout = "maximised" if self.zoomed else layout
        return HeaderInfo(
            self.opening.title,
            port.end - port.start,
            time_view.stands_at,
            max(0, self.monitor.picture.lines - time_view.lines_then) if time_view.paused else 0,
            self._cost.cpu_percent,
            self._cost.rss_bytes,
            self._message if time.monotonic() - self._message_at < _MESSAGE_S else "",
            self._hint() or ("overview" if layout == "auto" else layout),
            self._key("live"),
            self._key("pause"),
        )

    def _hint(self) -> str:
        """The first hint that is left, where there is room for it."""
        if not self.opening.hints or self.strip or self.size.width < _ROOM_FOR_HINTS:
            return ""
        first = self.opening.hints[0]
        return f"new here? {self._key(first)} {HINTS[first]}"

    def _key(self, name: str) -> str:
        """The key of an action, as it is shown."""
        action = next(action for action in ACTIONS if action.id == name)
        return spelled(keys_of(action, self.opening.keys)[0])

    def show_moments(self) -> None:
        """Of a frozen view each pane shows of which moment it is."""
        paused = self.time_view.paused
        for pane in (self.answer, self.alerts, self.sources, self.collectives):
            pane.set_moment("NOW" if paused else "")
        self.board.set_moment(f"PAUSED: {self._key('live')} live" if paused else "")

    # --- layout ---------------------------------------------------------------------------------------------------
    def arrange(self, size: Size | None = None) -> None:
        """Give every pane its rows, on a terminal of that size or of the one that is known."""
        if not self.is_running:
            return
        width, height = size or self.size
        room, machines = self._room, bool(self.picture.seen or self.picture.links)
        layout = layout_for(
            width,
            height,
            self.preset,
            self.hidden,
            self.zoomed,
            room.listed,
            machines=machines,
            lanes=room.lanes,
            collectives=self._collective_rows,
        )
        self.sources.whole = self.zoomed == "sources"
        if layout == self._layout:
            self._show_header()
            return
        before, self._layout = self._layout, layout
        rows: dict[Pane, int] = {
            self.header: layout.header, self.answer: layout.answer, self.board: layout.board,
            self.log_pane: layout.log, self.footer: layout.footer, self.alerts: layout.alerts,
            self.sources: layout.sources, self.collectives: layout.collectives,
        }  # fmt: skip
        hidden_before = [pane for pane in (self.alerts, self.sources, self.collectives) if not pane.display]
        for pane, count in rows.items():
            pane.display = count > 0
            pane.styles.height = max(1, count)
        for listing in hidden_before:  # they got no pictures in between
            if listing.display:
                listing.show(self.picture)
        lower = self.query_one("#lower")
        both = (layout.alerts, layout.sources)
        lower.display = any(both)
        lower.styles.height = max(both)
        self.alerts.styles.width, self.sources.styles.width = shares(width, machines)
        self.board.bare = layout.bare
        if before is None or before.bare != layout.bare:
            below = self.screen_stack[0]  # something may be open over it
            # In a strip the summary comes first: there the header only shows how the run goes.
            if layout.bare:
                below.move_child(self.header, after=self.board)
            else:
                below.move_child(self.header, before=self.answer)
            self.board.redraw()  # its size may be that of before
        if self.focused is None or not self.focused.display:
            self.focus_first()
        self._show_header()

    def focus_first(self) -> None:
        """Focus the first pane that is shown."""
        for pane in (self.board, self.log_pane, self.alerts, self.sources, self.collectives):
            if pane.display:
                pane.focus()
                return

    def request_view(self, about: object = None) -> None:
        """Request a timeline for the size of its pane."""
        if self.board.size.width:
            charted = getattr(self.focused, "charted", ((), 0)) if self.covered else ((), 0)
            self.monitor.look(self.time_view.end, self.time_view.span_s, self.board.columns, *charted)

    @property
    def pane_name(self) -> str:
        """The focused pane."""
        return self._named(self.focused)

    @staticmethod
    def _named(focused: Widget | None) -> str:
        name = focused.id if focused is not None else None
        return name if name in (*PANES, "chart") else "board"

    @property
    def covered(self) -> bool:
        """Something is open over the panes."""
        return len(self.screen_stack) > 1

    @property
    def strip(self) -> bool:
        """There is room for the timeline only."""
        return self._layout is not None and self._layout.bare

    def shown_panes(self) -> set[str]:
        """The panes that have rows."""
        layout = self._layout
        return set() if layout is None else {name for name in PANES if getattr(layout, name)}

    def close_overlays(self) -> None:
        """Close what is open over the panes."""
        while self.covered:
            self.pop_screen()

    def on_descendant_focus(self) -> None:
        """Show the keys of the newly focused pane in the footer."""
        self._show_header()


# --- Resource usage of perfmon itself, shown because a monitor must not slow the run down ---

_STATM = Path("/proc/self/statm")
_LEAST_S = 1.5


class OwnCost:
    """Processor time and memory of this process."""

    def __init__(self) -> None:
        self._at, self._used = time.monotonic(), _cpu_s()
        self.cpu_percent: float | None = None
        """Of one core, since the measurement before; None before the second one."""
        self.rss_bytes: int | None = None

    def measure(self) -> None:
        """Measure again, but not over less than some seconds: processor time is counted in ticks."""
        now = time.monotonic()
        if now - self._at < _LEAST_S and self.cpu_percent is not None:
            return
        used = _cpu_s()
        if now > self._at:
            self.cpu_percent = 100.0 * (used - self._used) / (now - self._at)
        self._at, self._used = now, used
        self.rss_bytes = _rss()


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system


def _rss() -> int | None:
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import psutil  # elsewhere than on Linux

        return int(psutil.Process().memory_info().rss)
