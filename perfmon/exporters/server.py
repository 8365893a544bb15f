"""A small HTTP server for pages that are made when they are asked for; it answers GET and HEAD, and nothing else."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from perfmon.errors import InputError, UsageError
from perfmon.text import evidence_text, plain

TIMEOUT_S = 10.0
"""Timeout for a client to send its request, or to read a part of the response."""
TOGETHER = 16
"""Requests that are answered at the same time."""
_LOOPBACK = ("127.", "::1")


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    body: bytes
    media_type: str = "text/plain; charset=utf-8"
    status: int = 200


Page = Callable[[str], Answer]
"""Makes an answer, given what the client accepts (its `Accept` header); called in a thread of its own."""


class Server:
    """Has its port from the moment that it was made; `start` begins to answer."""

    def __init__(self, host: str, port: int) -> None:
        """Raises UsageError for an address that means nothing, InputError for a port that cannot be had."""
        family, address = _address(host, port)

        class Handler(_Handler):
            """Of this server alone."""

            room = threading.BoundedSemaphore(TOGETHER)

        class Listener(ThreadingHTTPServer):
            """Waits for no client when it ends."""

            address_family = family
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *_: object) -> None:
                """A client that goes away in the middle of an answer is no news."""

        try:
            self._listener = Listener(address, Handler)
        except OSError as error:
            why = os.strerror(error.errno or 0)
            raise InputError(f"{shown(host, port)}: cannot listen: {why} ({_mend(error)})") from None
        self._handler = Handler
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Its URL, with the assigned port if 0 was requested."""
        host, port = self._listener.server_address[:2]
        return f"http://{shown(str(host), port)}"

    @property
    def loopback(self) -> bool:
        """Only this machine can ask."""
        return str(self._listener.server_address[0]).startswith(_LOOPBACK)

    def start(self, pages: Mapping[str, Page]) -> None:
        """Answers with the page of each path, in a thread of its own."""
        self._handler.pages = pages
        self._thread = threading.Thread(target=self._listener.serve_forever, name="perfmon-http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listens no more."""
        if self._thread is not None:
            self._listener.shutdown()
            self._thread.join(2.0)
        self._listener.server_close()


def shown(host: str, port: int) -> str:
    """`127.0.0.1:9477`, `[::1]:9477`."""
    host = plain(host, 100)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _address(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise UsageError(f"--listen {plain(host, 100)}: no such address (127.0.0.1, ::1, 0.0.0.0, or a name)") from None
    family, *_, address = found[0]
    return family, address


def _mend(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "ports below 1024 need root: choose another with --port"
    if error.errno == errno.EADDRINUSE:
        return "already in use: choose another with --port, or --port 0 for any"
    return "--listen must be an address of this machine"


class _Handler(BaseHTTPRequestHandler):
    pages: ClassVar[Mapping[str, Page]] = {}
    room: ClassVar[threading.BoundedSemaphore] = threading.BoundedSemaphore(TOGETHER)
    timeout = TIMEOUT_S
    server_version = "perfmon"
    sys_version = ""
    error_message_format = "%(code)d %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def do_GET(self) -> None:
        """Answers."""
        if not self.room.acquire(blocking=False):
            self._send(Answer(b"too many requests at once\n", status=503))
            return
        try:
            self._send(self._answer(self.path.partition("?")[0]))
        finally:
            self.room.release()

    do_HEAD = do_GET

    def _answer(self, path: str) -> Answer:
        make = self.pages.get(path)
        if make is None:
            return Answer(f"not found; available: {', '.join(sorted(self.pages))}\n".encode(), status=404)
        try:
            return make(self.headers.get("Accept", ""))
        except Exception as error:  # the next page may be whole again
            said = evidence_text(f"{type(error).__name__}: {error}")
            return Answer(f"internal error: {said}\n".encode(), status=500)

    def _send(self, answer: Answer) -> None:
        with suppress(OSError):  # the client went away, or takes too long
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.media_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

    def log_message(self, *_: object) -> None:
        """Scrapes are no news."""
