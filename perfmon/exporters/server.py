"""The HTTP server of metrics pages, and the collector behind it."""

from __future__ import annotations

import errno
import io
import os
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from perfmon.core import InputError, UsageError, evidence_text, plain
from perfmon.diagnosis import Part
from perfmon.monitor import Monitor
from perfmon.rules import Signature
from perfmon.viewmodel import MonitorState, RunState

from .metric_names import Places
from .metrics_page import Known, metrics_of

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from perfmon.monitor import Watch


# --- The HTTP server: prometheus_client's own, with a bound, and one line for a port that cannot be had ---

TIMEOUT_S = 10.0
"""Timeout for a client to send its request, or to read a part of the response."""
TOGETHER = 16
"""Requests that are answered at the same time."""
_HEADERS = [("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff")]


class Server:
    """Has its port from the moment that it was made; `start` begins to answer."""

    def __init__(self, host: str, port: int, names: Iterable[str] = ()) -> None:
        """Listen; `names` are allowed in requests in addition to addresses, localhost and the name of this machine.

        Raises UsageError for an address that means nothing, InputError for a port that cannot be had.
        """
        family, address = _address(host, port)
        self._names = frozenset(name.lower() for name in ("localhost", socket.gethostname(), host, *names))

        try:
            self._listener: _Listener = type("Listener", (_Listener,), {"address_family": family})(address, _Handler)
        except OSError as error:
            why = os.strerror(error.errno or 0)
            raise InputError(f"{shown(host, port)}: cannot listen: {why} ({_fix(error)})") from None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Its URL, with the assigned port if 0 was requested."""
        host, port = self._listener.server_address[:2]
        return f"http://{shown(str(host), port)}"

    @property
    def loopback(self) -> bool:
        """Only this machine can connect."""
        return str(self._listener.server_address[0]).startswith(("127.", "::1"))

    def start(self, app: WSGIApplication) -> None:
        """Answers with the pages of `app`, each request in a thread of its own."""
        self._listener.set_app(_bounded(_for_hosts(app, self._names)))
        self._thread = threading.Thread(target=self._listener.serve_forever, name="perfmon-http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listens no more."""
        if self._thread is not None:
            self._listener.shutdown()
            self._thread.join(2.0)
        self._listener.server_close()


def text(start: StartResponse, status: str, message: str) -> list[bytes]:
    """Answers with a line of plain text."""
    start(status, [*_HEADERS])  # the server adds its own to the list
    return [f"{message}\n".encode()]


def shown(host: str, port: int) -> str:
    """`127.0.0.1:9477`, `[::1]:9477`."""
    host = plain(host, 100)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Sent(list[bytes]):
    """An answer that has its place among those that are made and sent until it is sent."""

    def __init__(self, parts: Iterable[bytes], room: threading.BoundedSemaphore) -> None:
        super().__init__(parts)
        self._room = room

    def close(self) -> None:
        """The server calls this at the end, also when the client has gone."""
        self._room.release()


def _bounded(app: WSGIApplication) -> WSGIApplication:
    """Refuse too many requests at once; report an error to the client, as the next page may be complete again."""
    room = threading.BoundedSemaphore(TOGETHER)

    def answer(environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        if not room.acquire(blocking=False):
            return text(start, "503 Service Unavailable", "too many requests at once")
        try:
            parts = app(environ, start)
        except Exception as error:
            message = evidence_text(f"{type(error).__name__}: {error}")
            parts = text(start, "500 Internal Server Error", f"internal error: {message}")
        return _Sent(parts, room)

    return answer


def _for_hosts(app: WSGIApplication, names: frozenset[str]) -> WSGIApplication:
    """Refuse requests for other hosts: a page on the web may point its own name at this machine (DNS rebinding)."""

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        requested = environ.get("HTTP_HOST", "localhost")
        if _is_allowed(requested, names):
            return app(environ, start)
        name = plain(requested, 100) or "no host"
        return text(start, "421 Misdirected Request", f"{name}: not a name of this host (--allow-host adds one)")

    return answer


def _is_allowed(requested: str, names: frozenset[str]) -> bool:
    """An address of this machine cannot be another's name; a name has to be known."""
    try:
        host = urlsplit(f"//{requested}").hostname or ""
        return host in names or bool(ip_address(host))
    except ValueError:
        return False


def _address(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise UsageError(f"--listen {plain(host, 100)}: no such address (127.0.0.1, ::1, 0.0.0.0, or a name)") from None
    return found[0][0], found[0][4]


def _fix(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "ports below 1024 need root: choose another with --port"
    if error.errno == errno.EADDRINUSE:
        return "already in use: choose another with --port, or --port 0 for any"
    return "--listen must be an address of this machine"


class _Listener(ThreadingWSGIServer):
    def handle_error(self, *_: object) -> None:
        """A client that goes away in the middle of an answer is no news."""


class _Handler(WSGIRequestHandler):
    timeout = TIMEOUT_S

    def log_message(self, *_: object) -> None:
        """Scrapes are no news."""

    def get_stderr(self) -> io.StringIO:
        """Neither is a client that takes too long."""
        return io.StringIO()


# --- The pages of a monitor for Prometheus ---

FRESH_S = 0.9
"""Maximum age of a page that is served again, for several Prometheus servers."""
PATIENCE_S = 2.0
"""Time to wait for the monitor, which may be reading a long history; after that its last values are served."""


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
            return text(start, "200 OK", f"perfmon: {status_text(self._monitor.picture)}; metrics are at /metrics")
        if path != "/-/healthy":
            return text(start, "404 Not Found", "not found; available: /, /-/healthy, /metrics")
        if self._monitor.running:
            return text(start, "200 OK", "perfmon is healthy")
        return text(start, "503 Service Unavailable", "the monitor has stopped")

    def collect(self) -> Iterator[Metric]:
        """All metrics of now."""
        with self._lock:
            if time.monotonic() - self._made_at > FRESH_S:
                began = time.perf_counter()
                current = self._measure()
                took_s = time.perf_counter() - began
                known = Known(self._monitor.picture, self._parts, self._signatures, took_s, current)
                self._made, self._made_at = list(metrics_of(known, self._places)), time.monotonic()
            return iter(self._made)

    def _measure(self) -> bool:
        """Take the measurements of the monitor, in its own thread; return true if it answered in time."""
        done = threading.Event()

        def look(watch: Watch) -> None:
            try:
                self._parts = watch.parts()
                done.set()
            except Exception as error:  # whatever a page lacks, the monitor goes on
                message = plain(f"{type(error).__name__}: {error}", 200)
                self._monitor.notices.append(f"metrics could not be exported: {message}")

        self._monitor.ask(look)
        return done.wait(PATIENCE_S)


def status_text(picture: MonitorState) -> str:
    """State of a run in one line."""
    if picture.snapshot is None:
        return "reading the logs" if picture.state is RunState.LOADING else "nothing recognised yet"
    return evidence_text(picture.snapshot.summary).removesuffix(".")
