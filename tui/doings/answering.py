"""Requests of panes and screens to the app."""

from __future__ import annotations

from perfmon.picture import SourceNow

from ..actions import Action
from ..messages import (
    AlertAcked,
    AlertOpened,
    AlertSilenceAsked,
    AlertUndone,
    JumpToLine,
    LineYanked,
    PagerAsked,
)
from ..pane import Asked
from ..panes.logs import LineOpened
from .showing import Showing


class Answering(Showing):
    """Each message that comes up from a pane has its answer here."""

    def on_asked(self, message: Asked) -> None:
        """A pane wants something done."""
        message.stop()
        getattr(self, f"asked_{message.action}")(message.about)

    def asked_action(self, action: Action) -> None:
        """A key of the footer was clicked: it is for the pane that the footer names them of."""
        self.do(action)

    def asked_doctor(self, about: SourceNow | None) -> None:
        """A source was opened."""
        from ..screens.doctor import DoctorScreen

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
