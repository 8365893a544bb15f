"""The part of the past that is in sight, and the cursor in it."""

from __future__ import annotations

from perfmon.picture import AlertState, Bar, Level, Transition

from .arranging import Arranging

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
