"""Fetches a page of metrics, and says in one line why there is none."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from perfmon.errors import UsageError
from perfmon.text import plain, without_secrets

from ...remote.http import LIMIT, Opener, ReplyError, Url, get, parse_url
from ..poller import PollError

TIMEOUT_S = 15.0
_INLINE = 1 << 14
_GZIP = b"\x1f\x8b"
_HTML = re.compile(rb"\s*<(?:!doctype|html|head|body)", re.IGNORECASE)
_WHY = {
    401: "it requires a login, which is not supported",
    403: "access denied",
    404: "wrong path? metrics are usually at /metrics",
    405: "wrong path? metrics are usually at /metrics",
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A page of metrics that is asked for again and again."""

    kind: str
    url: Url

    @classmethod
    def parse(cls, kind: str, text: str) -> Endpoint:
        """Of `http://HOST:PORT[/PATH]`, or https; without a path it is /metrics. Raises UsageError."""
        url = parse_url(text)
        if url.scheme == "tcp":
            shown = without_secrets(plain(text, 200))
            raise UsageError(f"'{kind}={shown}': expected http(s)://HOST:PORT or http(s)://HOST:PORT/PATH")
        return cls(kind, Url(url.scheme, url.host, url.port, "/metrics") if url.path == "/" else url)

    @property
    def shown(self) -> str:
        """For display, as a SPEC begins: `vllm http://gpu-1:8000`."""
        return f"{self.kind} {self.url.shown.removesuffix('/metrics')}"

    @property
    def short(self) -> str:
        """What begins the names of readings: `gpu-1:8000`."""
        return self.url.shown.removesuffix("/metrics").partition("://")[2]

    async def fetch(self, opener: Opener) -> bytes:
        """The page. Raises PollError."""
        try:
            reply = await get(opener, self.url, timeout_s=TIMEOUT_S)
        except ReplyError as error:
            raise self.trouble(str(error)) from None
        if reply.status != 200:
            raise self.trouble(f"answered {reply.status}: {_WHY.get(reply.status, 'see its log')}")
        page = self._unpacked(reply.body) if reply.body.startswith(_GZIP) else reply.body
        if _HTML.match(page):
            raise self.trouble("returned a web page instead of metrics: give the path of its metrics")
        return page

    def _unpacked(self, body: bytes) -> bytes:
        """Of a server that packs without being asked to."""
        packed = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            page = packed.decompress(body, LIMIT)
        except zlib.error:
            page = b""
        if packed.unconsumed_tail:
            raise self.trouble(f"more than {LIMIT >> 20} MiB")
        if not packed.eof:
            raise self.trouble("returned corrupt gzip data")
        return page

    def trouble(self, why: str) -> PollError:
        """The error that says what and why."""
        return PollError(f"{self.shown}: {why}")


async def off_loop(page: bytes, read: Callable[[bytes], T]) -> T:
    """What is read of a page: of a large one in a thread, so that the loop of the polls goes on meanwhile."""
    return read(page) if len(page) <= _INLINE else await asyncio.to_thread(read, page)
