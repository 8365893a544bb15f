"""Serves what a monitor knows to Prometheus, until it is told to end."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perfmon.monitor import Monitor
from perfmon.parts import Part
from perfmon.picture import Picture, RunState
from perfmon.rules.schema import Signature
from perfmon.text import evidence_text, plain

from .families import Places
from .page import Known, page, wanted
from .server import Answer, Page

if TYPE_CHECKING:
    from perfmon.monitor.watch import Watch

FRESH_S = 0.9
"""Maximum age of a page that is served again, for several Prometheus servers."""
PATIENCE_S = 2.0
"""Time to wait for the monitor, which may be reading a long history; after that its last values are served."""


class Exporter:
    """Makes the pages of one monitor; its methods may be called from any thread."""

    def __init__(self, monitor: Monitor, signatures: Sequence[Signature]) -> None:
        self._monitor, self._signatures = monitor, signatures
        self._places = Places()
        self._lock = threading.Lock()
        self._parts: tuple[Part, ...] = ()
        self._made: dict[str, tuple[float, bytes]] = {}

    @property
    def pages(self) -> dict[str, Page]:
        """By path."""
        return {"/": self._front, "/metrics": self._metrics, "/-/healthy": self._healthy}

    def _metrics(self, accept: str) -> Answer:
        media_type = wanted(accept)
        with self._lock:
            at, body = self._made.get(media_type, (float("-inf"), b""))
            if time.monotonic() - at > FRESH_S:
                body = self._page(media_type)
                self._made[media_type] = time.monotonic(), body
        return Answer(body, media_type)

    def _page(self, media_type: str) -> bytes:
        began = time.perf_counter()
        current = self._measure()
        took_s = time.perf_counter() - began
        known = Known(self._monitor.picture, self._parts, self._signatures, took_s, current)
        return page(known, self._places, media_type)

    def _measure(self) -> bool:
        """Asks the monitor, in its own thread, for what it measured; whether it answered in time."""
        done = threading.Event()

        def look(watch: Watch) -> None:
            try:
                self._parts = watch.parts()
                done.set()
            except Exception as error:  # whatever a page lacks, the monitor goes on
                said = plain(f"{type(error).__name__}: {error}", 200)
                self._monitor.notices.append(f"metrics could not be exported: {said}")

        self._monitor.ask(look)
        return done.wait(PATIENCE_S)

    def _healthy(self, _: str) -> Answer:
        if self._monitor.running:
            return Answer(b"perfmon is healthy\n")
        return Answer(b"the monitor has stopped\n", status=503)

    def _front(self, _: str) -> Answer:
        return Answer(f"perfmon: {told(self._monitor.picture)}; metrics are at /metrics\n".encode())


def told(picture: Picture) -> str:
    """State of a run in one line."""
    if picture.snapshot is None:
        return "reading the logs" if picture.state is RunState.LOADING else "nothing recognised yet"
    return evidence_text(picture.snapshot.summary).removesuffix(".")


__all__ = ["Exporter", "told"]
