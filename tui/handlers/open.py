"""Actions that open something or answer an alert: help, palette, pages, recordings."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from perfmon.core import InputError, PerfmonError, evidence_text, plain
from perfmon.viewmodel import Alert, AlertState, Bar, MetricLane, MonitorState, SourceStatus, little_is_recognised

from ..actions import Action
from ..app_base import Base
from ..messages import AlertAcked, AlertOpened, AlertSilenceAsked, AlertUndone, JumpToLine, LineYanked, PagerAsked
from ..panes.logs import LineOpened
from ..render.rows import short_duration
from ..widgets.pane import Asked
from .view import Replaying, Travelling

if TYPE_CHECKING:
    from perfmon.diagnosis import EvidenceLine

    from ..render.lanes import Lane
    from ..terminal.suspend import Opened


# --- Help, palette, themes, pages and recordings ---


class General(Base):
    """General actions."""

    def do_help(self) -> None:
        """Every key."""
        from ..screens.pages import HelpScreen

        self.push_screen(HelpScreen(self.skin, self.pane_name, self.opening.keys))

    def do_snapshot(self, path: str = "") -> None:
        """Writes a page."""
        self.run_worker(self._keep_page(self.picture, path))

    async def _keep_page(self, picture: MonitorState, path: str) -> None:
        from ..render.svg import keep_page

        try:
            self.say(f"written: {await asyncio.to_thread(keep_page, picture, path)}")
        except InputError as error:
            self.say(str(error))

    def do_learn(self, log: str = "") -> None:
        """Learns a format from a log: without a name from the one of which least is recognised."""
        unread = [source for source in self.picture.sources if little_is_recognised(source)]
        chosen = log or next((source.name for source in sorted(unread, key=lambda s: -(s.lines - s.events))), "")
        if chosen:
            self.run_worker(self._learn(chosen))
        else:
            self.say("every log is recognised: name one to learn from")

    async def _learn(self, log: str) -> None:
        from ..render.svg import keep_format

        try:
            self.say(f"{await asyncio.to_thread(keep_format, log)}; used from the next start")
        except PerfmonError as error:
            self.say(str(error))

    def do_record(self) -> None:
        """Begins or ends a recording."""
        self.monitor.toggle_recording(f"perfmon-{datetime.now():%Y%m%d-%H%M%S}.pmrec")

    def do_theme(self) -> None:
        """The next theme."""
        names = list(self.opening.themes)
        self.choose_theme(names[(names.index(self.theme_name) + 1) % len(names)])

    def choose_theme(self, name: str) -> None:
        """Puts on a theme and remembers it."""
        from perfmon.core import remember

        self.dress(name)
        self.say(f"theme: {name}")
        remember("theme", name)

    def do_doctor(self) -> None:
        """Open the parse coverage of the logs."""
        from ..screens.pages import DoctorScreen

        self.push_screen(DoctorScreen(self.skin, self.monitor.picture))

    def do_suspend(self) -> None:
        """To the shell; what is watched stands still until `fg`."""
        self.action_suspend_process()

    def do_quit(self) -> None:
        """Leaves."""
        self.exit(0)


# --- Actions that open a screen or another program ---


class Showing(Travelling):
    """Opens charts, traces, alerts, prompts and other programs."""

    def asked_open_lane(self, lane: Lane) -> None:
        """A lane was opened."""
        if isinstance(lane.shown, Bar):
            self.open_trace(lane.shown)
        elif isinstance(lane.shown, MetricLane):
            self.open_chart(lane.shown.name)
        elif lane.kind == "alerts":
            self.do_pane_alerts()
        else:
            self.open_chart(lane.key)

    def open_chart(self, metric: str) -> None:
        """A metric as a chart."""
        from ..screens.chart import ChartScreen

        if any(lane.name == metric for lane in self.picture.board.metrics):
            self.push_screen(ChartScreen(self.skin, metric, lambda: self.monitor.picture))

    def open_trace(self, bar: Bar) -> None:
        """A weight update with its lines."""
        from ..screens.trace import TraceScreen

        self.push_screen(TraceScreen(self.skin, bar, self.picture, self.monitor.logbook), self._jump_to_evidence)

    def _jump_to_evidence(self, line: EvidenceLine | None) -> None:
        if line is not None:
            self.jump_to_line(line.source, line.line, line.text)

    def do_waterfall(self) -> None:
        """The trace under the cursor, else the selected or the newest one."""
        bars = self.updates()
        lane, cursor = self.board.lane, self.journey.cursor
        under = [bar for bar in bars if cursor is not None and bar.start <= cursor <= bar.end]
        if lane is not None and lane.kind == "update" and isinstance(lane.shown, Bar) and not under:
            under = [lane.shown]
        if under or bars:
            self.open_trace((under or bars)[-1])
        else:
            self.say("no weight update in view (- zooms out)")

    def page(self, source: str, line: int, text: str = "") -> None:
        """Opens a log in the user's pager, at a line."""
        from ..terminal.suspend import opened_at

        opened = opened_at(self.monitor.logbook, source, line, evidence_text(text))
        if opened is None:
            self.say(f"{plain(source, 60)}:{line} is no longer buffered, and its file is missing")
        else:
            self._show_elsewhere(opened)

    def _show_elsewhere(self, opened: Opened) -> None:
        from ..terminal.suspend import shown_elsewhere

        try:
            with self.suspend():
                problem = shown_elsewhere(opened)
        except SuspendNotSupported:
            opened.discard()
            problem = "cannot start another program on this terminal"
        if problem:
            self.say(problem)

    def do_pager(self) -> None:
        """Opens the log under the cursor in $PAGER or lnav."""
        if self.log_pane.view.current is None:
            self.say("no line to open")
        else:
            self.log_pane.do_pager()

    def do_yank(self) -> None:
        """Copies the line under the log's cursor."""
        self.log_pane.do_yank()

    def do_filter_lanes(self) -> None:
        """Asks for a part of a lane's name."""
        from ..widgets.palette import Prompt

        self.push_screen(Prompt("filter lanes", self.board.sight.wanted), lambda text: self.board.want(text or ""))

    def open_alert(self, alert: Alert) -> None:
        """Shows all of an alert."""
        from ..screens.alert import AlertScreen

        self.push_screen(AlertScreen(self.skin, alert, self.monitor.picture))

    def do_open(self) -> None:
        """Open the verdict if a pane has nothing of its own to open."""
        firing = [alert for alert in self.picture.alerts if alert.state is AlertState.FIRING]
        if firing:
            self.open_alert(firing[0])

    def ask_silence(self, alert: Alert) -> None:
        """Asks for how long."""
        name = plain(alert.finding.title, 40)

        def silence(text: str | None) -> None:
            if text is None:
                return
            try:
                minutes = float(text.strip().removesuffix("m"))
            except ValueError:
                minutes = 0.0
            if not 0 < minutes <= 10_000:
                self.say(f"{plain(text, 20)}: expected minutes, such as 15")
                return
            self.monitor.silence(alert.key, 60.0 * minutes)
            self.say(f"{name}: silenced for {short_duration(60.0 * minutes)} (u undoes it)")

        from ..widgets.palette import Prompt

        self.push_screen(Prompt(f"silence {name} for how many minutes?", "15"), silence)


# --- Requests of panes and screens to the app ---


class Answering(Showing):
    """Each message that comes up from a pane has its answer here."""

    def on_asked(self, message: Asked) -> None:
        """A pane wants something done."""
        message.stop()
        getattr(self, f"asked_{message.action}")(message.about)

    def asked_action(self, action: Action) -> None:
        """A key of the footer was clicked: it is for the pane that the footer names them of."""
        self.do(action)

    def asked_doctor(self, about: SourceStatus | None) -> None:
        """A source was opened."""
        from ..screens.pages import DoctorScreen

        self.push_screen(DoctorScreen(self.skin, self.monitor.picture, about))

    def on_alert_opened(self, message: AlertOpened) -> None:
        """Shows all of an alert."""
        self.open_alert(message.alert)

    def on_alert_acked(self, message: AlertAcked) -> None:
        """Somebody looks after it."""
        self.monitor.ack(message.alert.key)

    def on_alert_silence_asked(self, message: AlertSilenceAsked) -> None:
        """For how long?"""
        self.ask_silence(message.alert)

    def on_alert_undone(self, message: AlertUndone) -> None:
        """Neither acknowledged nor silenced any more."""
        self.monitor.undo(message.alert.key)

    def on_jump_to_line(self, message: JumpToLine) -> None:
        """Leaves what is open and shows the line."""
        self.jump_to_line(message.source, message.line, message.text)

    def on_line_opened(self, message: LineOpened) -> None:
        """Shows the weight update that a line is about, else when it was printed."""
        bars = [bar for bar in self.updates() if message.trace and bar.key == message.trace]
        if bars:
            when = message.when
            self.open_trace(bars[-1] if when is None else min(bars, key=lambda bar: abs(bar.start - when)))
        elif message.when is not None:
            self.point(message.when)
        else:
            self.say("the time of this line is unknown")

    def on_line_yanked(self, message: LineYanked) -> None:
        """Copies it."""
        self.copy_to_clipboard(message.copied)
        self.say("copied")

    def on_pager_asked(self, message: PagerAsked) -> None:
        """Opens its log."""
        self.page(message.source, message.line, message.text)


# --- Actions of `tui.actions` that concern more than one pane, a module per topic ---
#
# `do_NAME` is what the action of that name does.


class ActionHandlers(General, Answering, Replaying):
    """The app's half of the actions; `PerfmonApp` has the other things that it is made of."""

    def do_palette(self) -> None:
        """Everything by name."""
        from ..widgets.palette import Palette

        self.push_screen(Palette(self.skin, self.picture, self.opening), self._chosen)

    def _chosen(self, command: str | None) -> None:
        if command:
            from ..commands import obey

            self.say("")  # what was said of the command before is over
            problem = obey(self, command)
            if problem:
                self.say(problem)
