"""Writes to the terminal: at once where it takes what is written, so that no other thread has to be woken for it."""

from __future__ import annotations

import os
from contextlib import suppress
from queue import Queue
from threading import RLock
from typing import TextIO

from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread


class Output(WriterThread):
    """Textual's own hands every text to its thread; here the thread has what a terminal is too slow for.

    The terminal is opened once more for that: what never blocks here still blocks for everybody else who has it.
    Where that is not allowed, the thread writes everything.
    """

    def __init__(self, file: TextIO) -> None:
        super().__init__(file)
        self._encoding, self._errors = file.encoding or "utf-8", file.errors or "replace"
        self._left: Queue[bytes | None] = Queue(MAX_QUEUED_WRITES)
        self._waiting = 0
        self._lock = RLock()  # a signal that suspends the app writes, too, whatever it has interrupted
        self._own = _opened_again(file.fileno())

    def write(self, text: str) -> None:
        """Writes `text` after all that was written before; waits only where the thread is far behind."""
        data = text.encode(self._encoding, self._errors)
        with self._lock:
            if not self._waiting:
                data = data[self._taken(data) :]
            if not data:
                return
            self._waiting += 1
            if not self.ident:
                self.start()
        self._left.put(data)

    def _taken(self, data: bytes) -> int:
        """How many bytes the terminal takes now."""
        if self._own < 0:
            return 0
        try:
            return os.write(self._own, data)
        except BlockingIOError:
            return 0
        except OSError:  # it has hung up: whoever reads the keys hears of that
            return len(data)

    def run(self) -> None:
        """Writes what is left over."""
        while (data := self._left.get()) is not None:
            with suppress(OSError):
                while data:
                    data = data[os.write(self.fileno(), data) :]
            with self._lock:
                self._waiting -= 1

    def stop(self) -> None:
        """Ends it, once everything is written."""
        if self.ident:
            self._left.put(None)
            self.join()
        if self._own >= 0:
            os.close(self._own)
            self._own = -1


def _opened_again(descriptor: int) -> int:
    """The same terminal, never blocking; -1 where it cannot be opened."""
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return -1
