"""Exits without a key: signals, terminal hangups, exceptions."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from textual.app import App

if TYPE_CHECKING:
    from perfmon.monitor import Monitor

_LEAVE_S = 3.0


def terminal_is_gone() -> bool:
    """Return true if the terminal has hung up."""
    stream = sys.__stderr__
    try:
        return stream is None or not os.isatty(stream.fileno())
    except (OSError, ValueError):
        return True


class Leaving(App[int]):
    """An app that gives the terminal back, whatever ends it."""

    monitor: Monitor

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.fault: Exception | None = None
        """Exception that caused the exit, if any."""

    def heed_signals(self) -> None:
        """They end it from now on."""
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            with suppress(ValueError, RuntimeError, NotImplementedError):  # not in the main thread: tests
                loop.add_signal_handler(name, self._leave, 128 + name)

    def _leave(self, code: int) -> None:
        """A signal ends it, at the latest after a while: Textual waits for ever to write to a terminal that is gone."""
        self.exit(code)
        late = threading.Timer(_LEAVE_S, self._end, (code,))
        late.daemon = True
        late.start()

    def terminal_gone(self) -> None:
        """Nobody looks any more, and no signal said so."""
        self._leave(128 + signal.SIGHUP)

    def _end(self, code: int) -> None:
        self.monitor.stop()
        os._exit(code)

    def _handle_exception(self, error: Exception) -> None:
        """A fault of perfmon ends it; whoever runs the app tells of it in a line, once the terminal is as it was."""
        self.fault = self.fault or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Instead of Textual's pages of local variables, among them lines of logs."""
        self._close_messages_no_wait()
