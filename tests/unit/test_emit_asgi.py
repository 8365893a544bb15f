"""The middleware tells when a request arrived and lets everything through as it is."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx
import pytest
import uvicorn
import websockets

from perfmon import emit

Message = MutableMapping[str, Any]


@pytest.fixture
def lines() -> Iterator[list[str]]:
    result: list[str] = []
    emit.configure(result.append)
    yield result
    emit.configure()


async def serve(app: Any, scope: Message, *messages: Message) -> list[Message]:
    """Hands a connection with its messages to an app; what it sent."""
    inbox, sent = list(messages), []

    async def receive() -> Message:
        return inbox.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


def scope(path: str = "/update_weights", kind: str = "http", **more: Any) -> Message:
    return {"type": kind, "path": path, "headers": [(b"x-perfmon-trace", b"abc123")], **more}


async def answer(_scope: Message, receive: Any, send: Any) -> None:
    """An app that loads weights and says so."""
    await receive()
    async with emit.rpc("update_weights"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
    await send({"type": "http.response.body", "body": b"done"})


async def test_the_request_is_told_before_the_app_reads_it(lines: list[str]) -> None:
    lines_before: list[int] = []

    async def app(*connection: Any) -> None:
        lines_before.append(len(lines))
        await answer(*connection)

    sent = await serve(emit.FirstByteMiddleware(app), scope(), {"type": "http.request", "body": b"{}"})
    assert lines_before == [1]
    assert re.fullmatch(r"\[weights\]\[abc123\] server\.recv path=/update_weights t=\d+\.\d{6}", lines[0])
    assert [line.split()[:2] for line in lines[1:]] == [
        ["[weights][abc123]", "rpc.start"],
        ["[weights][abc123]", "rpc.done"],
    ]
    rpc_ms = lines[2].rpartition("=")[2].encode()
    assert sent[0]["headers"] == [(b"a", b"b"), (b"x-perfmon-rpc-ms", rpc_ms)]
    assert sent[1] == {"type": "http.response.body", "body": b"done"}


async def test_other_paths_get_the_very_same_callables(lines: list[str]) -> None:
    given: list[Any] = []

    async def app(*connection: Any) -> None:
        given.extend(connection)

    async def receive() -> Message:
        return {}

    async def send(message: Message) -> None: ...

    middleware = emit.FirstByteMiddleware(app, "/load")
    for connection in (scope("/v1/completions"), scope("/update_weights"), {"type": "lifespan"}, {"type": "other"}):
        given.clear()
        await middleware(connection, receive, send)
        assert given == [connection, receive, send]
        assert (given[1] is receive, given[2] is send) == (True, True)
    assert lines == []
    await middleware(scope("/load"), receive, send)
    assert given[-2] is receive
    assert len(lines) == 1


async def test_a_websocket_is_told_when_it_connects(lines: list[str]) -> None:
    async def app(_scope: Message, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] != "websocket.disconnect":
            await send({"type": "websocket.send", "text": message["type"]})

    messages: list[Message] = [{"type": f"websocket.{kind}"} for kind in ("connect", "receive", "disconnect")]
    sent = await serve(emit.FirstByteMiddleware(app), scope(kind="websocket"), *messages)
    assert [message["text"] for message in sent] == ["websocket.connect", "websocket.receive"]
    assert [line.split()[1] for line in lines] == ["server.recv"]


@pytest.mark.parametrize("headers", [[], [(b"x-perfmon-trace", b"a] [ckpt] x")], None, [b"odd"], 7])
async def test_a_request_without_a_trace_makes_none_up(lines: list[str], headers: Any) -> None:
    await serve(emit.FirstByteMiddleware(answer), scope(headers=headers), {})
    assert [line.split()[:2] for line in lines] == [
        ["[weights]", "server.recv"],
        ["[weights]", "rpc.start"],
        ["[weights]", "rpc.done"],
    ]


async def test_an_app_below_another_path_is_known_by_its_own(lines: list[str]) -> None:
    await serve(emit.FirstByteMiddleware(answer), scope("/engine/update_weights", root_path="/engine"), {})
    assert " path=/update_weights " in lines[0]


async def test_an_app_that_raises_does_so(lines: list[str]) -> None:
    async def app(*_: Any) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await serve(emit.FirstByteMiddleware(app), scope(), {})
    with emit.rpc() as call:
        pass
    assert call.trace is None


async def test_requests_at_once_keep_their_own_trace(lines: list[str]) -> None:
    turn = asyncio.Barrier(10)

    async def app(*_: Any) -> None:
        await turn.wait()
        await asyncio.to_thread(load)

    def load() -> None:
        with emit.rpc():
            pass

    middleware = emit.FirstByteMiddleware(app)
    scopes = [scope(headers=[(b"x-perfmon-trace", b"trace-%d" % number)]) for number in range(10)]
    await asyncio.gather(*(serve(middleware, one, {}) for one in scopes))
    for number in range(10):
        own = [line for line in lines if f"[trace-{number}]" in line]
        assert [line.split()[1] for line in own] == ["server.recv", "rpc.start", "rpc.done"]


@asynccontextmanager
async def listening(app: Callable[..., Any], ws: Literal["none", "websockets-sansio"] = "none") -> AsyncIterator[str]:
    """A server with that app on a free port; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on", ws=ws, timeout_keep_alive=1))
        serving = asyncio.create_task(server.serve([listener]))
        try:
            yield "http://{}:{}".format(*listener.getsockname())
        finally:
            server.should_exit = True
            await serving


async def application(scope: Message, receive: Any, send: Any) -> None:
    """A server that takes weights and streams what it generates as the client sends it."""
    if scope["type"] == "lifespan":
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        async with emit.rpc("update_weights"):
            while (message := await receive())["type"] == "websocket.receive":
                await send({"type": "websocket.send", "text": message["text"].upper()})
        return
    if scope["path"] == "/update_weights":
        async with emit.rpc("update_weights"):
            await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    more = scope["path"] != "/update_weights"
    while more:
        message = await receive()
        more = message.get("more_body", False)
        await send({"type": "http.response.body", "body": message["body"].upper(), "more_body": True})
    await send({"type": "http.response.body", "body": b"."})


async def test_a_real_server_hands_the_trace_on_and_the_time_back(lines: list[str]) -> None:
    async with (
        listening(emit.FirstByteMiddleware(application)) as url,
        httpx.AsyncClient(base_url=url) as client,
        emit.weights_update(url, "/w/step_3") as update,
    ):
        update.answered(await client.post("/update_weights", content=b"{}", headers=update.headers))
    assert [line.split()[:2] for line in lines] == [
        [f"[weights][{update.trace}]", leg]
        for leg in ("client.send", "server.recv", "rpc.start", "rpc.done", "client.done")
    ]
    assert lines[3].rpartition("=")[2] == str(update.rpc_ms)
    assert " queue_ms=" in lines[-1]


async def test_a_stream_is_not_held_back(lines: list[str]) -> None:
    async with listening(emit.FirstByteMiddleware(application, paths=["/stream"])) as url:
        address = httpx.URL(url)
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"POST /stream HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nX-Perfmon-Trace: s1\r\n\r\n")
        writer.write(b"5\r\nfirst\r\n")
        assert b"FIRST" in await reader.readuntil(b"FIRST")
        writer.write(b"6\r\nsecond\r\n0\r\n\r\n")
        assert b"SECOND" in await reader.readuntil(b"SECOND")
        writer.close()
        await writer.wait_closed()
    assert [line.split()[:2] for line in lines] == [["[weights][s1]", "server.recv"]]


async def test_a_websocket_of_a_real_server_talks_on_and_keeps_its_trace(lines: list[str]) -> None:
    async with listening(emit.FirstByteMiddleware(application), "websockets-sansio") as url:
        address = f"{url.replace('http', 'ws', 1)}/update_weights"
        async with websockets.connect(address, additional_headers=emit.trace_headers("ws-1")) as talk:
            for word in ("first", "second"):
                await talk.send(word)
                assert await talk.recv() == word.upper()
    assert [line.split()[:2] for line in lines] == [
        ["[weights][ws-1]", leg] for leg in ("server.recv", "rpc.start", "rpc.done")
    ]
