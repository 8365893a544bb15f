"""Reads the keys: sleeps until there is one, answers Escape soon, and ends when the terminal hangs up.

What is written goes to the terminal at once, where that takes it (`perfmon.tui.output`).
"""

from __future__ import annotations

import os
import select
import time
from codecs import getincrementaldecoder
from contextlib import suppress

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

from .output import Output

_READ = 4096


class QuietDriver(LinuxDriver):
    """Textual's own looks for keys ten times a second, which also makes Escape wait for its next look."""

    _stop = -1

    def start_application_mode(self) -> None:
        """Takes the terminal."""
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if self._writer_thread is not None and self._file is not None:
            self._writer_thread.stop()
            self._writer_thread = Output(self._file)

    def run_input_thread(self) -> None:
        """Hands on what is typed until the app ends, or the terminal."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        wake, self._stop = os.pipe()
        poll = select.poll()
        poll.register(self.fileno, select.POLLIN)
        poll.register(wake, select.POLLIN)
        try:
            while not self.exit_event.is_set():
                for descriptor, _ in poll.poll(_left_ms(parser)):
                    if descriptor != self.fileno:
                        continue
                    typed = self._typed()
                    if not typed:
                        self._hung_up()
                        return
                    for message in parser.feed(decode(typed)):
                        self.process_message(message)
                for message in parser.tick():
                    self.process_message(message)
        finally:
            stop, self._stop = self._stop, -1
            os.close(stop)
            os.close(wake)

    def _typed(self) -> bytes:
        try:
            return os.read(self.fileno, _READ)
        except OSError:
            return b""

    def _hung_up(self) -> None:
        """Nobody will press a key any more."""
        gone = getattr(self._app, "terminal_gone", None)
        if gone is not None:
            self._loop.call_soon_threadsafe(gone)

    def disable_input(self) -> None:
        """Wakes the thread, so that it sees that it is to end."""
        if not self.exit_event.is_set() and self._key_thread is not None:
            self.exit_event.set()
            with suppress(OSError):
                os.write(self._stop, b"\0")
            self._key_thread.join()
            self.exit_event.clear()
            self._key_thread = None
        super().disable_input()


def _left_ms(parser: XTermParser) -> float | None:
    """Until what was typed so far is taken as it is; None: for as long as it takes."""
    until = parser._timeout_time
    return None if until is None else max(0.0, 1000.0 * (until - time.monotonic())) + 1.0
