"""Timers that go off however busy the machine is."""

from __future__ import annotations

from textual.message_pump import MessagePump
from textual.timer import Timer, TimerCallback


class Timely(MessagePump):
    """Textual drops a single timer that is late when its task begins, as if another one came after it.

    Whoever waits for it then waits for ever: so Textual's own App for a new size of the terminal, after which no size
    is taken note of any more.
    """

    def set_timer(
        self, delay: float, callback: TimerCallback | None = None, *, name: str | None = None, pause: bool = False
    ) -> Timer:
        """As Textual's own, but it is never dropped."""
        timer = super().set_timer(delay, callback, name=name, pause=pause)
        timer._skip = False
        return timer
