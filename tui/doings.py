"""What the actions of `tui.actions` do that are not a single pane's affair."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

from textual.app import App, SuspendNotSupported

from perfmon.errors import InputError
from perfmon.picture import Alert, AlertState, Bar, Level, MetricLane, Picture, Transition
from perfmon.text import evidence_text, plain

from .journey import Journey
from .layout import PRESETS
from .timely import Timely

if TYPE_CHECKING:
    from perfmon.monitor import Monitor
    from perfmon.snapshot import EvidenceLine
    from perfmon.sources.replay import Player

    from .app import Opening
    from .outside import Opened
    from .panes.alerts import AlertPane
    from .panes.board import BoardPane
    from .panes.logs import LogPane
    from .render.lanes import Lane
    from .skin import Skin

PANES = ("board", "alerts", "sources", "log")
_TURNING = (AlertState.FIRING, AlertState.RESOLVED)


class Doings(Timely, App[int]):
    """The app's half of the actions; `PerfmonApp` has the other things that it is made of."""

    monitor: Monitor
    opening: Opening
    picture: Picture
    journey: Journey
    preset: str
    hidden: set[str]
    zoomed: str | None
    theme_name: str
    board: BoardPane
    alerts: AlertPane
    log_pane: LogPane
    skin: Skin

    def say(self, text: str) -> None:
        """Says something for a few seconds."""
        raise NotImplementedError

    def arrange(self) -> None:
        """Lays the panes out anew."""
        raise NotImplementedError

    def dress(self, name: str) -> None:
        """Puts on a theme."""
        raise NotImplementedError

    @property
    def pane_name(self) -> str:
        """The pane that has the keys."""
        raise NotImplementedError

    @property
    def strip(self) -> bool:
        """There is room for the timeline only."""
        raise NotImplementedError

    def shown_panes(self) -> set[str]:
        """The panes that have rows."""
        raise NotImplementedError

    def focus_first(self) -> None:
        """Gives the keys to the first pane that is shown."""
        raise NotImplementedError

    def uncover(self) -> None:
        """Leaves what is open over the panes."""
        while len(self.screen_stack) > 1:
            self.pop_screen()

    # --- general ----------------------------------------------------------------------------------------------
    def do_help(self) -> None:
        """Every key."""
        from .screens.help import HelpScreen

        self.push_screen(HelpScreen(self.skin, self.pane_name, self.opening.keys))

    def do_palette(self) -> None:
        """Everything by name."""
        from .palette import Palette

        self.push_screen(Palette(self.skin, self.picture, self.opening), self._chosen)

    def _chosen(self, command: str | None) -> None:
        if command:
            from .commands import obey

            problem = obey(self, command)
            if problem:
                self.say(problem)

    def do_snapshot(self, path: str = "") -> None:
        """Writes a page."""
        self.run_worker(self._keep_page(self.picture, path))

    async def _keep_page(self, picture: Picture, path: str) -> None:
        from .keeping import keep_page

        try:
            self.say(f"written: {await asyncio.to_thread(keep_page, picture, path)}")
        except InputError as error:
            self.say(str(error))

    def do_record(self) -> None:
        """Begins or ends a recording."""
        if self.monitor.picture.recording is not None:
            self.monitor.stop_recording()
        else:
            self.monitor.record(f"perfmon-{datetime.now():%Y%m%d-%H%M%S}.pmrec")

    def do_theme(self) -> None:
        """The next theme."""
        names = list(self.opening.themes)
        self.choose_theme(names[(names.index(self.theme_name) + 1) % len(names)])

    def choose_theme(self, name: str) -> None:
        """Puts on a theme and remembers it."""
        from perfmon.remembered import remember

        self.dress(name)
        self.say(f"theme: {name}")
        remember("theme", name)

    def do_doctor(self) -> None:
        """How well the logs are understood."""
        from .screens.doctor import DoctorScreen

        self.push_screen(DoctorScreen(self.skin, self.monitor.picture))

    def do_suspend(self) -> None:
        """To the shell; what is watched stands still until `fg`."""
        self.action_suspend_process()

    def do_quit(self) -> None:
        """Leaves."""
        self.exit(0)

    # --- panes ------------------------------------------------------------------------------------------------
    def do_next_pane(self) -> None:
        """The keys go on."""
        self._turn_focus(1)

    def do_previous_pane(self) -> None:
        """The keys go back."""
        self._turn_focus(-1)

    def _turn_focus(self, by: int) -> None:
        if self.zoomed:  # the next one has all the room then
            self.zoomed = PANES[(PANES.index(self.zoomed) + by) % len(PANES)]
            self.arrange()
            self.focus_first()
        elif by > 0:
            self.screen.focus_next()
        else:
            self.screen.focus_previous()

    def _toggle(self, pane: str) -> None:
        """Of an arrangement with fewer panes this makes one's own; in a strip, panes are shown one at a time."""
        shown = self.shown_panes()
        if self.zoomed or self.strip:
            self.zoomed = None if self.zoomed == pane else pane
        elif shown == {pane}:
            self.say("the last pane stays")
        else:
            self.preset, self.hidden = "overview", (set(PANES) - shown) ^ {pane}
        self.arrange()
        if self.zoomed:
            self.focus_first()

    def do_pane_board(self) -> None:
        """The timeline comes or goes."""
        self._toggle("board")

    def do_pane_alerts(self) -> None:
        """The alerts come or go."""
        self._toggle("alerts")

    def do_pane_sources(self) -> None:
        """The sources come or go."""
        self._toggle("sources")

    def do_pane_log(self) -> None:
        """The log comes or goes."""
        self._toggle("log")

    def do_zoom(self) -> None:
        """The pane with the keys has all the room, or all have theirs again."""
        self.zoomed = None if self.zoomed else self.pane_name
        self.arrange()

    def do_preset(self) -> None:
        """The next arrangement."""
        at = PRESETS.index(self.preset) if self.preset in PRESETS else 0
        self.choose_preset(PRESETS[(at + 1) % len(PRESETS)])

    def choose_preset(self, name: str) -> None:
        """An arrangement by name."""
        self.preset, self.zoomed, self.hidden = name, None, set()
        self.arrange()

    def do_back(self) -> None:
        """Up by one: what is zoomed, then the cursor, then the pause."""
        if self.zoomed:
            self.do_zoom()
        elif self.board.sight.wanted:
            self.board.want("")
        elif self.journey.cursor is not None:
            self.journey.cursor = None
            self._moved()
        elif self.journey.paused:
            self.do_live()

    # --- time -------------------------------------------------------------------------------------------------
    def _moved(self) -> None:
        self._look()
        if self.journey.cursor is not None and self.log_pane.display:
            self.log_pane.jump_time(self.journey.cursor)

    def _look(self) -> None:
        journey = self.journey
        self.board.point(journey.cursor)
        self.monitor.look(journey.end, journey.span_s, self.board.columns)

    def do_pause(self) -> None:
        """Freezes the view, or lets it go on; a replay stands still itself."""
        player = self.monitor.feed.player if self.monitor.feed is not None else None
        if player is not None:
            if player.paused:
                player.resume()
            else:
                player.pause()
        elif self.journey.paused:
            self.do_live()
        else:
            self.journey.pause(self.picture)
            self._moved()

    def do_live(self) -> None:
        """Back to the present."""
        self.journey.live()
        self._moved()
        self.log_pane.follow()

    def do_cursor_left(self) -> None:
        """A column back."""
        self._step(-1)

    def do_cursor_right(self) -> None:
        """A column on."""
        self._step(1)

    def do_cursor_left_far(self) -> None:
        """Ten columns back."""
        self._step(-10)

    def do_cursor_right_far(self) -> None:
        """Ten columns on."""
        self._step(10)

    def _step(self, columns: int) -> None:
        self.journey.move(columns, self.picture)
        self._moved()

    def do_zoom_in(self) -> None:
        """Half the time."""
        self.journey.zoom(0.5)
        self._moved()

    def do_zoom_out(self) -> None:
        """Twice the time."""
        self.journey.zoom(2.0)
        self._moved()

    def do_zoom_reset(self) -> None:
        """The time that is judged."""
        self.journey.usual()
        self._moved()

    def updates(self) -> list[Bar]:
        """The weight updates in sight."""
        lanes = [lane for lane in self.picture.board.spans if lane.kind == "weight-update"]
        return list(lanes[0].bars) if lanes else []

    def _jump(self, moments: list[float], onward: bool, what: str) -> None:
        if self.journey.jump(moments, onward, self.picture):
            self._moved()
        else:
            self.say(f"no {'later' if onward else 'earlier'} {what} in sight (- shows more time)")

    def do_next_update(self) -> None:
        """The next weight update."""
        self._jump([bar.start for bar in self.updates()], True, "weight update")

    def do_previous_update(self) -> None:
        """The one before."""
        self._jump([bar.start for bar in self.updates()], False, "weight update")

    def _turns(self) -> list[Transition]:
        return [tick for tick in self.picture.board.ticks if tick.state in _TURNING]

    def do_next_alert(self) -> None:
        """The next change of an alert."""
        self._jump([tick.time for tick in self._turns()], True, "alert")

    def do_previous_alert(self) -> None:
        """The one before."""
        self._jump([tick.time for tick in self._turns()], False, "alert")

    def asked_cursor(self, moment: float) -> None:
        """A column was clicked."""
        self.point(moment)
        if self.log_pane.display:
            self.log_pane.jump_time(moment)

    def point(self, moment: float) -> None:
        """Puts the time cursor somewhere; the log stays where it is."""
        self.journey.pause(self.picture)
        self.journey.put(moment)
        self._look()

    def critical_moments(self) -> list[float]:
        """When alerts fired and spans began that were critical, of what is in sight."""
        board = self.picture.board
        ticks = [tick.time for tick in board.ticks if tick.level is Level.CRITICAL and tick.state is AlertState.FIRING]
        bars = [bar.start for lane in board.spans for bar in lane.bars if bar.level is Level.CRITICAL]
        return ticks + bars

    # --- what opens -------------------------------------------------------------------------------------------
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
        from .screens.chart import ChartScreen

        if any(lane.name == metric for lane in self.picture.board.metrics):
            self.push_screen(ChartScreen(self.skin, metric, lambda: self.monitor.picture))

    def open_trace(self, bar: Bar) -> None:
        """A weight update with its lines."""
        from .screens.trace import TraceScreen

        self.push_screen(TraceScreen(self.skin, bar, self.picture, self.monitor.logbook), self._jump_to_evidence)

    def _jump_to_evidence(self, line: EvidenceLine | None) -> None:
        if line is not None:
            self.jump_to_line(line.source, line.line, line.text)

    def jump_to_line(self, source: str, line: int, text: str = "") -> None:
        """Shows a line of a log where it stands; `text` tells it from others that had its number before a rotation."""
        self.show_log()
        self.log_pane.jump(source, line, evidence_text(text))

    def show_log(self) -> None:
        """Shows the log, whatever was shown, and gives it the keys."""
        self.uncover()
        if self.strip or self.zoomed:
            self.zoomed = "log"
        elif "log" not in self.shown_panes():
            self._toggle("log")
        self.arrange()
        self.log_pane.focus()

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
            self.say("no weight update in sight (- shows more time)")

    def page(self, source: str, line: int, text: str = "") -> None:
        """Opens a log in the user's pager, at a line."""
        from .outside import opened_at

        opened = opened_at(self.monitor.logbook, source, line, evidence_text(text))
        if opened is None:
            self.say(f"{plain(source, 60)}:{line} is not kept any more, nor is its file there")
        else:
            self._show_elsewhere(opened)

    def _show_elsewhere(self, opened: Opened) -> None:
        from .outside import shown_elsewhere

        try:
            with self.suspend():
                problem = shown_elsewhere(opened)
        except SuspendNotSupported:
            problem = "no other program can be shown on this terminal"
        if problem:
            self.say(problem)

    def do_pager(self) -> None:
        """Opens the log under the cursor in $PAGER or lnav."""
        if self.log_pane.view.current is None:
            self.say("there is no line to open")
        else:
            self.log_pane.do_pager()

    def do_yank(self) -> None:
        """Copies the line under the log's cursor."""
        self.log_pane.do_yank()

    # --- the log, wherever the keys are -----------------------------------------------------------------------
    def _log_in_sight(self) -> LogPane:
        if not self.log_pane.display:
            self.show_log()
        return self.log_pane

    def do_next_match(self) -> None:
        """The next line that has what is searched."""
        self._log_in_sight().do_next_match()

    def do_previous_match(self) -> None:
        """The one before."""
        self._log_in_sight().do_previous_match()

    def do_next_error(self) -> None:
        """The next error."""
        self._log_in_sight().do_next_error()

    def do_previous_error(self) -> None:
        """The one before."""
        self._log_in_sight().do_previous_error()

    # --- lanes ------------------------------------------------------------------------------------------------
    def do_filter_lanes(self) -> None:
        """Asks for a part of a lane's name."""
        from .screens.prompt import Prompt

        self.push_screen(Prompt("lanes with", self.board.sight.wanted), lambda text: self.board.want(text or ""))

    def open_alert(self, alert: Alert) -> None:
        """Shows all of an alert."""
        from .screens.alert import AlertScreen

        self.push_screen(AlertScreen(self.skin, alert, self.monitor.picture))

    def do_open(self) -> None:
        """Where a pane has nothing of its own to open: what the verdict says."""
        firing = [alert for alert in self.picture.alerts if alert.state is AlertState.FIRING]
        if firing:
            self.open_alert(firing[0])

    # --- alerts -----------------------------------------------------------------------------------------------
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
            self.say(f"{name}: silent for {minutes:g} minutes (u takes it back)")

        from .screens.prompt import Prompt

        self.push_screen(Prompt(f"silence {name} for how many minutes?", "15"), silence)

    # --- replay -----------------------------------------------------------------------------------------------
    def _player(self) -> Player | None:
        player = self.monitor.feed.player if self.monitor.feed is not None else None
        if player is None:
            self.say("this run is live: only a replay can be steered")
        return player

    def do_faster(self) -> None:
        """Twice the speed."""
        player = self._player()
        if player is not None:
            player.speed = player.speed * 2

    def do_slower(self) -> None:
        """Half the speed."""
        player = self._player()
        if player is not None:
            player.speed = player.speed / 2

    def do_seek_back(self) -> None:
        """Half a minute back."""
        player = self._player()
        if player is not None:
            player.seek(player.position_s - 30)

    def do_seek_on(self) -> None:
        """Half a minute on."""
        player = self._player()
        if player is not None:
            player.seek(player.position_s + 30)

    def do_step(self) -> None:
        """The next moment."""
        player = self._player()
        if player is not None:
            player.step()
