"""TLS over any stream, by the standard library: the other side's certificate is always checked.

It is checked by the machine that perfmon runs on, wherever the stream begins: with its certificates, or those of
SSL_CERT_FILE and SSL_CERT_DIR.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from functools import cache

from perfmon.text import plain

from .http import Reader, ReplyError, Writer

_CHUNK = 1 << 16
_OLD = ("UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "NO_PROTOCOLS_AVAILABLE")


class TlsError(ReplyError):
    """The other side cannot be talked to in confidence."""


class TlsStream:
    """A stream inside of another one: what is written is sent at once, unless the other side has to speak first."""

    def __init__(self, reader: Reader, writer: Writer, context: ssl.SSLContext, host: str) -> None:
        self._reader, self._writer = reader, writer
        self._come, self._go = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._come, self._go, server_hostname=host)

    async def shake_hands(self) -> None:
        """Raises TlsError."""
        try:
            while True:
                try:
                    return self._tls.do_handshake()
                except ssl.SSLWantReadError:
                    await self._more()
        except ssl.SSLCertVerificationError as error:
            raise TlsError(_distrust(error)) from None
        except ssl.SSLError as error:
            raise TlsError(_unfit(error)) from None
        finally:
            self._send()

    async def read(self, n: int = -1) -> bytes:
        """The next bytes; none at the end, however the other side ends. Raises TlsError."""
        while True:
            try:
                return self._tls.read(n if n > 0 else _CHUNK)
            except ssl.SSLWantReadError:
                await self._more()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""
            except ssl.SSLError as error:
                raise TlsError(_unfit(error)) from None

    def write(self, data: bytes) -> None:
        """Sends."""
        self._tls.write(data)
        self._send()

    def close(self) -> None:
        """Ends; nobody waits for the other side's goodbye."""
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
    """TLS on a stream to `host`. Raises TlsError."""
    stream = TlsStream(reader, writer, await asyncio.to_thread(_context), host)
    await stream.shake_hands()
    return stream


def _context() -> ssl.SSLContext:
    """Reading a machine's certificates takes a while: they are read once for each place that is named."""
    return _context_of(os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", ""))


@cache
def _context_of(file: str, folder: str) -> ssl.SSLContext:
    for name, path, there in (("SSL_CERT_FILE", file, os.path.isfile), ("SSL_CERT_DIR", folder, os.path.isdir)):
        if path and not there(path):
            raise TlsError(f"{name} does not exist: {plain(path, 100)}")
    return ssl.create_default_context()


def _distrust(error: ssl.SSLCertVerificationError) -> str:
    why = plain(error.verify_message or "unknown", 120)
    mend = "" if "mismatch" in why.lower() or "expired" in why.lower() else " (set SSL_CERT_FILE to trust it)"
    return f"its certificate is not trusted: {why}{mend}"


def _unfit(error: ssl.SSLError) -> str:
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"):
        return "no TLS on this port: is it http://?"
    if error.reason in _OLD:
        return "supports insecure TLS versions only"
    if isinstance(error, ssl.SSLEOFError):
        return "closed during the TLS handshake"
    return f"TLS failed: {plain(str(error.reason or error), 80).lower().replace('_', ' ')}"
