"""Serves what a monitor knows to Prometheus, until it is told to end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from perfmon.monitor import Monitor
from perfmon.parts import Part
from perfmon.picture import Picture, RunState
from perfmon.rules.schema import Signature
from perfmon.text import evidence_text, plain

from .families import Places
from .page import Known, metrics_of
from .server import text

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    from perfmon.monitor.watch import Watch

FRESH_S = 0.9
"""Maximum age of a page that is served again, for several Prometheus servers."""
PATIENCE_S = 2.0
"""Time to wait for the monitor, which may be reading a long history; after that its last values are served."""
_PAGES = "/, /-/healthy, /metrics"


class Exporter(Collector):
    """Makes the pages of one monitor; its methods may be called from any thread."""

    def __init__(self, monitor: Monitor, signatures: Sequence[Signature]) -> None:
        self._monitor, self._signatures = monitor, signatures
        self._places = Places()
        self._lock = threading.Lock()
        self._parts: tuple[Part, ...] = ()
        self._made_at, self._made = float("-inf"), list[Metric]()
        registry = CollectorRegistry()
        registry.register(self)
        self._metrics = make_wsgi_app(registry)

    def app(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """The pages, by path: the metrics, one line for people, and one for a supervisor."""
        path = environ.get("PATH_INFO")
        if path == "/metrics" or environ["REQUEST_METHOD"] != "GET":
            pages: Iterable[bytes] = self._metrics(environ | {"QUERY_STRING": ""}, start)
            return pages
        if path == "/":
            return text(start, "200 OK", f"perfmon: {told(self._monitor.picture)}; metrics are at /metrics")
        if path != "/-/healthy":
            return text(start, "404 Not Found", f"not found; available: {_PAGES}")
        if self._monitor.running:
            return text(start, "200 OK", "perfmon is healthy")
        return text(start, "503 Service Unavailable", "the monitor has stopped")

    def describe(self) -> Iterator[Metric]:
        """Nothing: which metrics there are shows when they are asked for."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """All metrics of now."""
        with self._lock:
            if time.monotonic() - self._made_at > FRESH_S:
                self._made = self._measured()
                self._made_at = time.monotonic()
            return iter(self._made)

    def _measured(self) -> list[Metric]:
        began = time.perf_counter()
        current = self._measure()
        took_s = time.perf_counter() - began
        known = Known(self._monitor.picture, self._parts, self._signatures, took_s, current)
        return list(metrics_of(known, self._places))

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


def told(picture: Picture) -> str:
    """State of a run in one line."""
    if picture.snapshot is None:
        return "reading the logs" if picture.state is RunState.LOADING else "nothing recognised yet"
    return evidence_text(picture.snapshot.summary).removesuffix(".")


__all__ = ["Exporter", "told"]
