"""An HTTP client over any stream, with TLS."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from perfmon.core import UsageError, plain, without_login, without_secrets

# --- One HTTP request over any stream: a socket of this machine, or a channel of a connection to another ---

_URL = re.compile(r"(https?|tcp)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::(\d{1,5}))?(/[\x21-\x7e]*)?", re.IGNORECASE)
LIMIT = 64 << 20
"""Bytes of a body. No page of metrics comes near it; what is larger is no such page."""
_CHUNK = 1 << 16


class Reader(Protocol):
    """The reading end of a stream."""

    async def read(self, n: int = -1) -> bytes:
        """The next bytes; none at the end."""


class Writer(Protocol):
    """The writing end of a stream."""

    def write(self, data: bytes) -> None:
        """Send."""

    def close(self) -> None:
        """Close."""


Opener = Callable[[str, int], Awaitable[tuple[Reader, Writer]]]
"""Opens a stream to a host and port. Raises OSError, or what the connection raises."""


@dataclass(frozen=True, slots=True)
class Url:
    """The address of a request."""

    scheme: str
    """http or https, or tcp: whether the port is open."""
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
    """The reply to a request."""

    status: int
    """0 for a port that only was opened."""
    body: bytes
    took_s: float


class ReplyError(Exception):
    """No reply, in a few words."""


class ForbiddenError(ReplyError):
    """Forwarding is prohibited: the state of the server is unknown."""


def parse_url(text: str) -> Url:
    """Read `http://HOST[:PORT][/PATH]`, the same with https, or `tcp://HOST:PORT`. Raises UsageError."""
    match = _URL.fullmatch(text)
    shown = f"'{without_login(text)}'"
    if match is None:
        raise UsageError(f"{shown}: expected http(s)://HOST:PORT/PATH or tcp://HOST:PORT (no login)")
    scheme, host, port, path = match[1].lower(), match[2].strip("[]"), match[3], match[4] or "/"
    if (scheme == "tcp" and (not port or match[4])) or (port and not 0 < int(port) < 65536):
        raise UsageError(f"{shown}: expected a port from 1 to 65535")
    return Url(scheme, host, int(port or (443 if scheme == "https" else 80)), "" if scheme == "tcp" else path)


async def get(opener: Opener, url: Url, *, timeout_s: float = 5.0, limit: int = LIMIT) -> Reply:
    """Send a GET request. Raises ReplyError, also for a reply that was cut off or has more than `limit` bytes."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await opener(url.host, url.port)
            try:
                if url.scheme == "tcp":
                    return Reply(0, b"", time.monotonic() - began)
                if url.scheme == "https":
                    reader = writer = await secured(reader, writer, url.host)
                status, body = await _exchange(reader, writer, url, limit)
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
        if getattr(error, "code", None) == 1:  # SSH_OPEN_ADMINISTRATIVELY_PROHIBITED of RFC 4254
            raise ForbiddenError("sshd forwards no connections (AllowTcpForwarding, PermitOpen)") from None
        raise ReplyError(plain(str(error), 100).lower() or "cannot be reached") from None
    return Reply(status, body, time.monotonic() - began)


async def open_here(host: str, port: int) -> tuple[Reader, Writer]:
    """An opener on this machine."""
    return await asyncio.open_connection(host, port)


async def _exchange(reader: Reader, writer: Writer, url: Url, limit: int) -> tuple[int, bytes]:
    """Send the request; returns status and body once the reply is complete, whether the server closes or not."""
    import h11  # loaded only where a server is queried

    host = f"[{url.host}]" if ":" in url.host else url.host
    headers = [("Host", f"{host}:{url.port}"), ("Connection", "close"), ("Accept", "*/*")]
    connection = h11.Connection(h11.CLIENT)
    writer.write(connection.send(h11.Request(method="GET", target=url.path, headers=headers)) or b"")
    connection.send(h11.EndOfMessage())
    status, size, answered = 0, 0, False
    parts: list[bytes] = []
    try:
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                data = await reader.read(_CHUNK)
                if not (data or answered):
                    raise ReplyError("closed without a response")
                answered = True
                connection.receive_data(data)
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                parts.append(event.data)
                size += len(event.data)
                if size > limit:
                    raise ReplyError(f"more than {limit >> 20} MiB")
    except h11.RemoteProtocolError as error:
        unread, closed = connection.trailing_data
        if not status and not unread.startswith(b"HTTP/"):
            raise ReplyError("no HTTP") from None
        why = "cut off" if closed else f"broken ({plain(str(error), 80)})"
        raise ReplyError(f"its reply was {why} after {size} bytes") from None
    return status, b"".join(parts)


# --- TLS over any stream, by the standard library: the other side's certificate is always checked ---
#
# It is checked by the machine that perfmon runs on, wherever the stream begins: with its certificates, or those of
# SSL_CERT_FILE and SSL_CERT_DIR.


class TlsStream:
    """A stream inside of another one: what is written is sent at once, unless the other side has to send first."""

    def __init__(self, reader: Reader, writer: Writer, context: ssl.SSLContext, host: str) -> None:
        self._reader, self._writer = reader, writer
        self._come, self._go = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._come, self._go, server_hostname=host)

    async def shake_hands(self) -> None:
        """Raises ReplyError."""
        try:
            while True:
                try:
                    return self._tls.do_handshake()
                except ssl.SSLWantReadError:
                    await self._more()
        except ssl.SSLCertVerificationError as error:
            why = plain(error.verify_message or "unknown", 120)
            fix = "" if "mismatch" in why.lower() or "expired" in why.lower() else " (set SSL_CERT_FILE to trust it)"
            raise ReplyError(f"its certificate is not trusted: {why}{fix}") from None
        except ssl.SSLError as error:
            raise ReplyError(_unfit(error)) from None
        finally:
            self._send()

    async def read(self, n: int = -1) -> bytes:
        """The next bytes; none at the end, however the other side ends. Raises ReplyError."""
        while True:
            try:
                return self._tls.read(n if n > 0 else _CHUNK)
            except ssl.SSLWantReadError:
                await self._more()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""
            except ssl.SSLError as error:
                raise ReplyError(_unfit(error)) from None

    def write(self, data: bytes) -> None:
        """Send."""
        self._tls.write(data)
        self._send()

    def close(self) -> None:
        """Close without waiting for the other side."""
        self._writer.close()

    async def _more(self) -> None:
        self._send()
        data = await self._reader.read(_CHUNK)
        if data:
            self._come.write(data)
        else:
            self._come.write_eof()

    def _send(self) -> None:
        if self._go.pending:
            self._writer.write(self._go.read())


async def secured(reader: Reader, writer: Writer, host: str) -> TlsStream:
    """TLS on a stream to `host`. Raises ReplyError."""
    places = os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", "")
    stream = TlsStream(reader, writer, await asyncio.to_thread(_context, *places), host)
    await stream.shake_hands()
    return stream


@cache
def _context(file: str, folder: str) -> ssl.SSLContext:
    """Reading a machine's certificates takes a while: they are read once for each place that is named."""
    for name, path, there in (("SSL_CERT_FILE", file, os.path.isfile), ("SSL_CERT_DIR", folder, os.path.isdir)):
        if path and not there(path):
            raise ReplyError(f"{name} does not exist: {plain(path, 100)}")
    return ssl.create_default_context()


def _unfit(error: ssl.SSLError) -> str:
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"):
        return "no TLS on this port: is it http://?"
    if error.reason in ("UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "NO_PROTOCOLS_AVAILABLE"):
        return "supports insecure TLS versions only"
    if isinstance(error, ssl.SSLEOFError):
        return "closed during the TLS handshake"
    return f"TLS failed: {plain(str(error.reason or error), 80).lower().replace('_', ' ')}"
