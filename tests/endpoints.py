"""A server for tests whose page of metrics can be changed, or that misbehaves."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Endpoint:
    """What is served, by path."""

    port: int
    scheme: str = "http"
    pages: dict[str, bytes] = field(default_factory=dict)
    """Whole answers, head and all."""
    requested: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Without a path."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def serve(self, text: str, path: str = "/metrics") -> None:
        """From now on this is the page."""
        self.pages[path] = ok(text.encode())


def ok(body: bytes, head: str = "Content-Type: text/plain") -> bytes:
    """An answer."""
    return f"HTTP/1.1 200 OK\r\n{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def endpoint(tls: ssl.SSLContext | None = None) -> AsyncIterator[Endpoint]:
    """It answers 404 to what it does not have; with `tls` it speaks that."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        here.requested.append(path)
        writer.write(here.pages.get(path, b"HTTP/1.1 404 Not Found\r\n\r\nno such page"))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    async with server:
        here = Endpoint(server.sockets[0].getsockname()[1], "http" if tls is None else "https")
        yield here
