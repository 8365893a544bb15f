"""Requests over any stream, and the lines that checks make of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

import pytest

from perfmon.core.config import Config
from perfmon.core.errors import UsageError
from perfmon.core.model import Block
from perfmon.pipeline.session import Session
from perfmon.sources.http_client import ReplyError, get, open_here, parse_url
from perfmon.sources.pollers.metrics_page import Endpoint
from perfmon.sources.pollers.reading import PollError
from perfmon.sources.remote.host import HealthCheck
from perfmon.sources.remote.reader import Item


@asynccontextmanager
async def serving(answer: bytes, *, stay: bool = False) -> AsyncIterator[str]:
    """A server that always answers so; where it is."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if stay:
            await over.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/health"
        over.set()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", b"abcde"),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", b"ok"),
    ],
)
async def test_replies(answer: bytes, body: bytes) -> None:
    async with serving(answer) as url:
        reply = await get(open_here, parse_url(url))
    assert (reply.status, reply.body) == (200, body)


async def test_a_server_that_keeps_the_connection_is_not_waited_for() -> None:
    async with serving(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy", stay=True) as url:
        reply = await get(open_here, parse_url(url), timeout_s=5.0)
    assert (reply.status, reply.body) == (503, b"busy")


@pytest.mark.parametrize("coding", ["length", "chunked"])
async def test_a_large_page_is_read_from_a_server_that_ignores_connection_close(coding: str) -> None:
    body = b"jobs 7\n" * 800_000
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    if coding == "chunked":
        chunks = [body[at : at + 60_000] for at in range(0, len(body), 60_000)]
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        head += b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    async with serving(head, stay=True) as url:
        reply = await get(open_here, parse_url(url), timeout_s=20.0)
    assert reply.body == body


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 28, "its reply was cut off after 28 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc", "its reply was cut off after 3 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "its reply was cut off after 3 bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "its reply was cut off after 0 bytes"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc",
            "its reply was broken (illegal chunk header",
        ),
    ],
)
async def test_a_part_of_a_reply_is_no_reply(answer: bytes, why: str) -> None:
    async with serving(answer) as url:
        with pytest.raises(ReplyError) as caught:
            await get(open_here, parse_url(url))
    assert str(caught.value).startswith(why)
    assert "\n" not in str(caught.value)


async def test_a_truncated_page_of_metrics_is_no_reading() -> None:
    page = b"# TYPE jobs gauge\njobs 7\n"
    async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + page) as url:
        with pytest.raises(PollError, match="its reply was cut off after 25 bytes"):
            await Endpoint.parse("prometheus", url).fetch(open_here)


@pytest.mark.parametrize(
    ("answer", "stay", "why"),
    [
        (b"", False, "closed without a response"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", False, "no HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5000, False, "more than 0 MiB"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000, True, "more than 0 MiB"),
        (b"HTTP/1.1 200 OK\r\n\r\nx", True, "no answer for 0.2 s"),
    ],
)
async def test_what_is_no_reply(answer: bytes, stay: bool, why: str) -> None:
    async with serving(answer, stay=stay) as url:
        with pytest.raises(ReplyError, match=why):
            await get(open_here, parse_url(url), timeout_s=0.2, limit=2000)


async def test_nobody_listens() -> None:
    async with serving(b"") as url:
        pass
    with pytest.raises(ReplyError, match=r"refused|connect call failed"):
        await get(open_here, parse_url(url))


@pytest.mark.parametrize(
    "text",
    ["http://me:pw@x/", "http://x:0/", "http://x:99999/", "tcp://x", "ftp://x/", "http://x/ y\r\nz"],
)
def test_wrong_urls(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_url(text)
    assert "pw" not in str(caught.value)


async def test_checks_are_lines_that_the_session_understands() -> None:
    came: list[Item] = []

    async def emit(items: list[Item]) -> None:
        came.extend(items)

    moments = iter(datetime(2026, 3, 2, 8, 15, second) for second in (0, 5, 10, 15))
    async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as url:
        check = HealthCheck(parse_url(url), "gpu-1", emit, lambda: next(moments))
        assert await check.ask(open_here)
    for _ in range(3):
        assert not await check.ask(open_here)
    session = Session(Config())
    state = session.add_source(came[0][0].name)
    for _, block in came:
        assert isinstance(block, Block)
        session.feed(state, block)
    snapshot = session.snapshot()
    assert snapshot.metrics["check_failed"].last == 1.0
    assert snapshot.verdict is not None
    assert snapshot.verdict.signature == "endpoint-down"
