"""Reads the keys: survives bytes that are no text, answers Escape soon, and ends when the terminal hangs up."""

from __future__ import annotations

import os
import select
from codecs import getincrementaldecoder

from textual._xterm_parser import XTermParser
from textual.constants import ESCAPE_DELAY
from textual.drivers.linux_driver import LinuxDriver

_READ = 4096
_LOOK_MS = 100.0
"""How soon the end of the app is noticed."""
_ESCAPE_MS = 1000.0 * ESCAPE_DELAY + 1.0
"""After this a lone Escape is no longer the begin of a longer key."""


class SturdyDriver(LinuxDriver):
    """Textual's own ends the app at a byte that is no UTF-8, and reads on and on where the terminal hung up."""

    def run_input_thread(self) -> None:
        """Hands on what is typed until the app ends, or the terminal."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        poll = select.poll()
        poll.register(self.fileno, select.POLLIN)
        wait_ms = _LOOK_MS
        while not self.exit_event.is_set():
            ready = bool(poll.poll(wait_ms))
            if ready:
                typed = self._typed()
                if not typed:
                    self._hung_up()
                    return
                for message in parser.feed(decode(typed)):
                    self.process_message(message)
            for message in parser.tick():
                self.process_message(message)
            wait_ms = min(_ESCAPE_MS, _LOOK_MS) if ready else _LOOK_MS

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
