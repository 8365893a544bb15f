"""Actions on the view: which panes are shown, moving in time, steering a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon.core import evidence_text
from perfmon.viewmodel import AlertState, Bar, Level, Transition

from ..app_base import Base
from ..layout import PRESETS
from ..panes.logs import LogPane
from ..render.hosts.layout import VIEWS

if TYPE_CHECKING:
    from perfmon.sources import Player


# --- Visibility and focus of panes ---

PANES = ("board", "alerts", "sources", "log")


class Arranging(Base):
    """Panes come, go, and are zoomed."""

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
            self.say("the last pane cannot be closed")
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

    def do_next_view(self) -> None:
        """Pane 3 shows the next kind of thing; it comes first where it was hidden."""
        at = VIEWS.index(self.sources.view) + self.sources.display
        self._look_at(VIEWS[at % len(VIEWS)])

    def do_machines(self) -> None:
        """Show the overview of GPUs, hosts and queues."""
        self._look_at("auto")

    def do_gpus(self) -> None:
        """Every GPU."""
        self._look_at("gpus")

    def do_hosts(self) -> None:
        """Every host."""
        self._look_at("hosts")

    def do_queues(self) -> None:
        """Every queue."""
        self._look_at("queues")

    def do_sources(self) -> None:
        """The logs, and who polls."""
        self._look_at("sources")

    def _look_at(self, view: str) -> None:
        """Shows pane 3, whatever was shown, with one kind of thing in it, and gives it the keys."""
        self.uncover()
        if view != self.sources.view:
            self.sources.look_at(view)
        if self.strip or self.zoomed:
            self.zoomed = "sources"
        elif "sources" not in self.shown_panes():
            self._toggle("sources")
        self.arrange()
        self.sources.show(self.monitor.picture)
        self.sources.focus()

    def do_processes(self) -> None:
        """The processes of each GPU."""
        self.sources.do_processes()

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


# --- The part of the past that is in sight, and the cursor in it ---

_TURNING = (AlertState.FIRING, AlertState.RESOLVED)


class Travelling(Arranging):
    """Moves in time."""

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
            self.say(f"no {'later' if onward else 'earlier'} {what} in view (- zooms out)")

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
        """Times of alert changes and of starts of critical spans in view."""
        board = self.picture.board
        ticks = [tick.time for tick in board.ticks if tick.level is Level.CRITICAL and tick.state is AlertState.FIRING]
        bars = [bar.start for lane in board.spans for bar in lane.bars if bar.level is Level.CRITICAL]
        return ticks + bars

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


# --- A replay is steered ---


class Replaying(Travelling):
    """Speed and place of a replay; a live run has neither."""

    def _player(self) -> Player | None:
        player = self.monitor.feed.player if self.monitor.feed is not None else None
        if player is None:
            self.say("this run is live: only for replays")
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
            self.seek_to(player, player.position_s - 30)

    def do_seek_on(self) -> None:
        """Half a minute on."""
        player = self._player()
        if player is not None:
            self.seek_to(player, player.position_s + 30)

    def do_step(self) -> None:
        """The next moment."""
        player = self._player()
        if player is not None:
            self._follow()
            player.step()

    def seek_to(self, player: Player, seconds: float) -> None:
        """To a moment of the replay, which is then in sight: a view that stood still goes along."""
        self._follow()
        player.seek(seconds)

    def _follow(self) -> None:
        if self.journey.paused:
            self.do_live()
