"""Actions that open a screen or another program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from perfmon.picture import Alert, AlertState, Bar, MetricLane
from perfmon.text import evidence_text, plain

from ..render.moments import brief_seconds
from .travelling import Travelling

if TYPE_CHECKING:
    from perfmon.snapshot import EvidenceLine

    from ..outside import Opened
    from ..render.lanes import Lane


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
        from ..outside import opened_at

        opened = opened_at(self.monitor.logbook, source, line, evidence_text(text))
        if opened is None:
            self.say(f"{plain(source, 60)}:{line} is no longer buffered, and its file is missing")
        else:
            self._show_elsewhere(opened)

    def _show_elsewhere(self, opened: Opened) -> None:
        from ..outside import shown_elsewhere

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
        from ..screens.prompt import Prompt

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
            self.say(f"{name}: silenced for {brief_seconds(60.0 * minutes)} (u undoes it)")

        from ..screens.prompt import Prompt

        self.push_screen(Prompt(f"silence {name} for how many minutes?", "15"), silence)
