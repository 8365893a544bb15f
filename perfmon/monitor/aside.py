"""Lets a slow listener take its time: the monitor goes on, and what it missed meanwhile it is not told."""

from __future__ import annotations

import threading
from collections.abc import Callable

from perfmon.picture import Picture


class Aside:
    """Calls a listener in a thread of its own, with the newest picture only."""

    def __init__(self, listener: Callable[[Picture], None]) -> None:
        self._listener = listener
        self._newest: Picture | None = None
        self._ready = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    def __call__(self, picture: Picture) -> None:
        """Hands over a picture; returns at once."""
        self._newest = picture
        self._ready.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="perfmon-aside", daemon=True)
            self._thread.start()

    def close(self, patience_s: float = 1.0) -> None:
        """Ends the thread; a listener that hangs is left alone after `patience_s`."""
        self._closing = True
        self._ready.set()
        if self._thread is not None:
            self._thread.join(patience_s)

    def _work(self) -> None:
        while not self._closing:
            self._ready.wait()
            self._ready.clear()
            picture, self._newest = self._newest, None
            if picture is not None and not self._closing:
                self._listener(picture)
