"""Actions on the view: which panes are shown, moving in time, steering a replay."""

from __future__ import annotations

from functools import partialmethod
from typing import TYPE_CHECKING

from perfmon.core import evidence_text
from perfmon.viewmodel import AlertState, Bar

from ..app_base import PANES, BaseApp
from ..layout import PRESETS
from ..plain_app import BACK
from ..render.hosts.layout import VIEWS
from ..time_view import MOST_S

if TYPE_CHECKING:
    from perfmon.sources import Player

_TURNING = (AlertState.FIRING, AlertState.RESOLVED)


class PaneActions(BaseApp):
    """Visibility and focus of panes."""

    def _turn_focus(self, by: int) -> None:
        if self.zoomed:  # the next one has all the room then
            panes = [pane for pane in PANES if pane != "collectives" or self.picture.collectives is not None]
            self.zoomed = panes[(panes.index(self.zoomed) + by) % len(panes)]
            self.arrange()
            self.focus_first()
        elif by > 0:
            self.screen.focus_next()
        else:
            self.screen.focus_previous()

    do_next_pane = partialmethod(_turn_focus, 1)
    do_previous_pane = partialmethod(_turn_focus, -1)

    def _toggle(self, pane: str) -> None:
        """Of an arrangement with fewer panes this makes one's own; in a strip, panes are shown one at a time."""
        shown = self.shown_panes()
        if self.zoomed or self.strip:
            self.zoomed = None if self.zoomed == pane else pane
        elif shown == {pane}:
            self.show_message("the last pane cannot be closed")
        else:
            self.preset, self.hidden = "overview", (set(PANES) - shown - self._absent_panes()) ^ {pane}
        self.arrange()
        if self.zoomed:
            self.focus_first()

    def _go_to(self, pane: str) -> None:
        """Focus a pane, shown for it if it was hidden; hide the one that is focused already."""
        if pane == "collectives" and self.picture.collectives is None:
            self.show_message("no logs of NCCL Inspector (perfmon watch nccl=DIR)")
        elif pane not in self.shown_panes() or self.pane_name == pane or self.zoomed:
            self._toggle(pane)
        if pane in self.shown_panes():
            self.query_one(f"#{pane}").focus()

    do_pane_board = partialmethod(_go_to, "board")
    do_pane_alerts = partialmethod(_go_to, "alerts")
    do_pane_sources = partialmethod(_go_to, "sources")
    do_pane_collectives = partialmethod(_go_to, "collectives")
    do_pane_log = partialmethod(_go_to, "log")

    def _absent_panes(self) -> set[str]:
        return {"collectives"} if self.picture.collectives is None else set()

    def _open_pane(self, pane: str) -> None:
        """Show a pane, whatever was shown, and close what is open over it."""
        self.close_overlays()
        if self.strip or self.zoomed:
            self.zoomed = pane
        elif pane not in self.shown_panes():
            self._toggle(pane)
        self.arrange()

    def _show_view(self, view: str) -> None:
        """Show pane 3 with one kind of thing in it, and focus it."""
        if view != self.sources.view:
            self.sources.show_view(view)
        self._open_pane("sources")
        self.sources.show(self.monitor.picture)
        self.sources.focus()

    do_machines = partialmethod(_show_view, "auto")
    do_gpus = partialmethod(_show_view, "gpus")
    do_hosts = partialmethod(_show_view, "hosts")
    do_queues = partialmethod(_show_view, "queues")
    do_sources = partialmethod(_show_view, "sources")

    def do_next_view(self) -> None:
        """Show the next kind of thing in pane 3; a hidden pane is only shown."""
        at = VIEWS.index(self.sources.view) + self.sources.display
        self._show_view(VIEWS[at % len(VIEWS)])

    def do_processes(self) -> None:
        """Show or hide the processes of each GPU."""
        self.sources.do_processes()

    def do_zoom(self) -> None:
        """Give the focused pane all the room, or all panes theirs again."""
        self.zoomed = None if self.zoomed else self.pane_name
        self.arrange()

    def do_preset(self) -> None:
        """Switch to the next layout."""
        at = PRESETS.index(self.preset) if self.preset in PRESETS else 0
        self.choose_preset(PRESETS[(at + 1) % len(PRESETS)])

    def choose_preset(self, name: str) -> None:
        """Switch to a layout by name."""
        self.preset, self.zoomed, self.hidden = name, None, set()
        self.arrange()

    def jump_to_line(self, source: str, line: int, text: str = "") -> None:
        """Show a line of a log; `text` distinguishes it from others that had its number before a rotation."""
        self.show_log()
        self.log_pane.jump(source, line, evidence_text(text))

    def show_log(self) -> None:
        """Show the log, whatever was shown, and focus it."""
        self._open_pane("log")
        self.log_pane.focus()

    def _in_log(self, name: str) -> None:
        """Do an action of the log pane, which is shown and focused for it: / and n then mean the same pane."""
        if self.log_pane.display:
            self.log_pane.focus()
        else:
            self.show_log()
        getattr(self.log_pane, f"do_{name}")()

    do_next_match = partialmethod(_in_log, "next_match")
    do_previous_match = partialmethod(_in_log, "previous_match")
    do_next_error = partialmethod(_in_log, "next_error")
    do_previous_error = partialmethod(_in_log, "previous_error")


class TimeActions(PaneActions):
    """The part of the past that is in view, and the cursor in it."""

    def _moved(self) -> None:
        self._update_view()
        if self.time_view.cursor is not None and self.log_pane.display:
            self.log_pane.jump_time(self.time_view.cursor)

    def _update_view(self) -> None:
        self.show_moments()
        self.board.point(self.time_view.cursor)
        self.request_view()

    def do_pause(self) -> None:
        """Freeze the view, or let it continue; a replay is paused itself."""
        player = self.player
        if player is not None:
            if player.ended:
                self.seek_to(player, 0.0)
                player.resume()
            elif player.paused:
                player.resume()
            else:
                player.pause()
        elif self.time_view.paused:
            self.do_live()
        else:
            self.time_view.pause(self.picture)
            self._moved()

    def do_live(self) -> None:
        """Return to the present."""
        self.time_view.live()
        self._moved()
        self.log_pane.follow()

    def _step(self, columns: int) -> None:
        self.time_view.move(columns, self.picture)
        self._moved()

    do_cursor_left = partialmethod(_step, -1)
    do_cursor_right = partialmethod(_step, 1)
    do_cursor_left_far = partialmethod(_step, -10)
    do_cursor_right_far = partialmethod(_step, 10)

    def _zoom(self, factor: float) -> None:
        self.time_view.zoom(factor, self.picture)
        self._moved()

    do_zoom_in = partialmethod(_zoom, 0.5)
    do_zoom_out = partialmethod(_zoom, 2.0)

    def do_zoom_reset(self) -> None:
        """Show as much time as is analysed."""
        self.time_view.span_s = None
        self._moved()

    def do_zoom_all(self) -> None:
        """Show the whole run, however long it becomes."""
        self.time_view.live()
        self.time_view.span_s = MOST_S
        self._moved()

    def request_range(self, between: tuple[float, float]) -> None:
        """Show the time between two moments."""
        self.time_view.show(*between, self.monitor.picture)
        self._moved()

    def request_centre(self, moment: float) -> None:
        """Move the view to a moment, as far as the run reaches."""
        picture, port = self.monitor.picture, self.picture.board.viewport
        half = (port.end - port.start) / 2
        begin = moment if picture.begin is None else picture.begin
        middle = min(max(moment, begin + half), picture.now - half + port.column_s)
        self.request_range((middle - half, middle + half))

    def updates(self) -> list[Bar]:
        """The weight updates in view; where the logs have none with phases, the synchronisations of weights."""
        board = self.picture.board
        return board.bars("weight-update") or board.bars("weight-sync")

    def _jump(self, what: str, onward: bool) -> None:
        if what == "alert":
            moments = [tick.time for tick in self.picture.board.ticks if tick.state in _TURNING]
        else:
            moments = [bar.start for bar in self.updates()]
        if self.time_view.jump(moments, onward, self.picture):
            self._moved()
        else:
            self.show_message(f"no {'later' if onward else 'earlier'} {what} in view (- zooms out)")

    do_next_update = partialmethod(_jump, "weight update", True)
    do_previous_update = partialmethod(_jump, "weight update", False)
    do_next_alert = partialmethod(_jump, "alert", True)
    do_previous_alert = partialmethod(_jump, "alert", False)

    def request_cursor(self, moment: float) -> None:
        """Put the time cursor on a column, and the log on its time."""
        self.point(moment)
        if self.log_pane.display:
            self.log_pane.jump_time(moment)

    def point(self, moment: float) -> None:
        """Put the time cursor somewhere; the log stays as it is."""
        self.time_view.pause(self.picture)
        self.time_view.put(moment)
        self._update_view()

    def do_back(self) -> None:
        """Take back one thing: what is maximised, the filter of lanes, the cursor, the pause."""
        if self.zoomed:
            self.do_zoom()
        elif self.board.sight.wanted:
            self.board.want("")
        elif self.time_view.cursor is not None:
            self.time_view.cursor = None
            self._moved()
        elif self.time_view.paused:
            self.do_live()
        elif self.opening.back:
            self.exit(BACK)

    # --- replay -------------------------------------------------------------------------------------------------------
    @property
    def player(self) -> Player | None:
        """The player of a replay; None in a live run."""
        return None if self.monitor.feed is None else self.monitor.feed.player

    def _replayed(self) -> Player | None:
        if self.player is None:
            self.show_message("this run is live: only for replays")
        return self.player

    def _speed(self, factor: float) -> None:
        player = self._replayed()
        if player is not None:
            player.speed = player.speed * factor

    do_faster = partialmethod(_speed, 2.0)
    do_slower = partialmethod(_speed, 0.5)

    def _seek(self, seconds: float) -> None:
        player = self._replayed()
        if player is not None:
            self.seek_to(player, player.position_s + seconds)

    do_seek_back = partialmethod(_seek, -30.0)
    do_seek_on = partialmethod(_seek, 30.0)

    def do_step(self) -> None:
        """Advance a paused replay by one frame."""
        player = self._replayed()
        if player is not None:
            self._follow()
            player.step()

    def request_share(self, share: float) -> None:
        """Go to a part of a replay, 0 to 1."""
        player = self._replayed()
        if player is not None:
            self.seek_to(player, share * player.duration_s)

    def seek_to(self, player: Player, seconds: float) -> None:
        """Go to a position of the replay, which is then in view: a frozen view follows it."""
        self._follow()
        player.seek(seconds)

    def _follow(self) -> None:
        if self.time_view.paused:
            self.do_live()
