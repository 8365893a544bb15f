"""One HTTP request over any stream: a socket of this machine, or a channel of a connection to another."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from perfmon.errors import UsageError
from perfmon.text import plain, without_secrets

if TYPE_CHECKING:
    from .tls import TlsStream

_URL = re.compile(r"(https?|tcp)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::(\d{1,5}))?(/[\x21-\x7e]*)?", re.IGNORECASE)
LIMIT = 4 << 20
_CHUNK_HEAD = 1000
_PROHIBITED = 1
"""SSH_OPEN_ADMINISTRATIVELY_PROHIBITED of RFC 4254."""


class Reader(Protocol):
    """What is read from."""

    async def read(self, n: int = -1) -> bytes:
        """The next bytes; none at the end."""


class Writer(Protocol):
    """What is written to."""

    def write(self, data: bytes) -> None:
        """Sends."""

    def close(self) -> None:
        """Ends."""


Opener = Callable[[str, int], Awaitable[tuple[Reader, Writer]]]
"""Opens a stream to a host and port. Raises OSError, or what the connection raises."""


@dataclass(frozen=True, slots=True)
class Url:
    """What is asked for."""

    scheme: str
    """http or https, or tcp: whether somebody listens."""
    host: str
    port: int
    path: str

    @property
    def shown(self) -> str:
        """Without credentials, fit for a line of a log."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return without_secrets(f"{self.scheme}://{host}:{self.port}{self.path}")


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    """0 for a port that only was opened."""
    body: bytes
    took_s: float


class ReplyError(Exception):
    """No reply, in a few words."""


class ForbiddenError(ReplyError):
    """The way there is closed: nothing can be said of the server."""


def parse_url(text: str) -> Url:
    """Reads `http://HOST[:PORT][/PATH]`, the same with https, or `tcp://HOST:PORT`. Raises UsageError."""
    match = _URL.fullmatch(text)
    shown = f"'{without_secrets(plain(text, 200))}'"
    if match is None:
        raise UsageError(f"{shown}: expected http(s)://HOST:PORT/PATH or tcp://HOST:PORT (no login)")
    scheme, host, port, path = match[1].lower(), match[2].strip("[]"), match[3], match[4] or "/"
    if (scheme == "tcp" and (not port or match[4])) or (port and not 0 < int(port) < 65536):
        raise UsageError(f"{shown}: expected a port from 1 to 65535")
    return Url(scheme, host, int(port or (443 if scheme == "https" else 80)), "" if scheme == "tcp" else path)


async def get(opener: Opener, url: Url, *, timeout_s: float = 5.0, limit: int = LIMIT) -> Reply:
    """Asks. Raises ReplyError."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await opener(url.host, url.port)
            try:
                if url.scheme == "tcp":
                    return Reply(0, b"", time.monotonic() - began)
                if url.scheme == "https":
                    reader = writer = await _secured(reader, writer, url.host)
                host = f"[{url.host}]" if ":" in url.host else url.host
                request = (
                    f"GET {url.path} HTTP/1.1\r\nHost: {host}:{url.port}\r\nConnection: close\r\nAccept: */*\r\n\r\n"
                )
                writer.write(request.encode())
                raw = await _whole(reader, limit)
            finally:
                writer.close()
    except TimeoutError:
        raise ReplyError(f"no answer for {timeout_s:g} s") from None
    except ReplyError:
        raise
    except OSError as error:
        known = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise ReplyError((known or "cannot be reached").lower()) from None
    except Exception as error:  # what an SSH connection raises is known where that is imported
        if getattr(error, "code", None) == _PROHIBITED:
            raise ForbiddenError("sshd forwards no connections (AllowTcpForwarding, PermitOpen)") from None
        raise ReplyError(plain(str(error), 100).lower() or "cannot be reached") from None
    return _parsed(raw, time.monotonic() - began)


async def open_here(host: str, port: int) -> tuple[Reader, Writer]:
    """An opener on this machine."""
    return await asyncio.open_connection(host, port)


async def _secured(reader: Reader, writer: Writer, host: str) -> TlsStream:
    from .tls import secured  # `ssl` takes 10 ms, and few pages need it

    return await secured(reader, writer, host)


async def _whole(reader: Reader, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while data := await reader.read(65536):
        parts.append(data)
        size += len(data)
        if size > limit:
            raise ReplyError(f"more than {limit >> 20} MiB")
        if size < 1 << 16 and _is_complete(b"".join(parts)):
            break
    return b"".join(parts)


def _is_complete(raw: bytes) -> bool:
    """Whether a small reply is all there, though the server keeps the connection."""
    head, found, body = raw.partition(b"\r\n\r\n")
    length = re.search(rb"(?im)^content-length: *(\d+)\s*$", head)
    return bool(found) and length is not None and len(body) >= int(length[1])


def _parsed(raw: bytes, took_s: float) -> Reply:
    head, found, body = raw.partition(b"\r\n\r\n")
    status = re.match(rb"HTTP/1\.[01] (\d{3})", head)
    if not found or status is None:
        raise ReplyError("no HTTP" if raw else "closed without a response")
    if re.search(rb"(?im)^transfer-encoding: *chunked\s*$", head):
        body = _unchunked(body)
    return Reply(int(status[1]), body, took_s)


def _unchunked(body: bytes) -> bytes:
    parts: list[bytes] = []
    at = 0
    while True:
        end = body.find(b"\r\n", at, at + _CHUNK_HEAD)
        try:
            size = int(body[at:end].partition(b";")[0], 16) if end >= 0 else 0
        except ValueError:
            size = 0
        if size <= 0:
            return b"".join(parts)
        parts.append(body[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
