"""Pages behind https: what is trusted, what is not, and why, in one line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from certificates import Authority
from endpoints import endpoint, ok

from perfmon.core.errors import UsageError
from perfmon.sources.http_client import ReplyError, get, open_here, parse_url
from perfmon.sources.pollers.base import LocalMachine
from perfmon.sources.pollers.reading import PollError, Reading
from perfmon.sources.pollers.request import PollRequest, parse_request
from perfmon.sources.pollers.scheduler import make_pollers

PAGE = "# TYPE jobs gauge\njobs 7\n"


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """One that this machine trusts while the test lasts."""
    made = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.file))
    return made


async def reply_of(url: str) -> Reading:
    """The one reading of a page."""
    (poller,) = make_pollers(LocalMachine(), PollRequest("prometheus", f"{url}#jobs"))
    (reading,) = await poller.poll()
    return reading


async def refusal(url: str) -> str:
    """What a poll of it says."""
    (poller,) = make_pollers(LocalMachine(), PollRequest("prometheus", url))
    with pytest.raises(PollError) as caught:
        await poller.poll()
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_a_page_of_one_that_is_trusted_is_read(authority: Authority) -> None:
    async with endpoint(authority.server("127.0.0.1")) as server:
        server.serve(PAGE)
        reading = await reply_of(server.url)
    assert (reading.name, reading.values) == (f"127.0.0.1:{server.port}/jobs", {"value": 7})


async def test_how_a_server_of_trl_is_asked_for_behind_it_too(authority: Authority) -> None:
    async with endpoint(authority.server("127.0.0.1")) as server:
        server.serve("", "/health/")
        server.serve("", "/health")
        (poller,) = make_pollers(LocalMachine(), PollRequest("trl", server.url))
        (reading,) = await poller.poll()
    assert reading.words["state"] == "ok"


async def test_a_large_page_comes_whole(authority: Authority) -> None:
    body = b"".join(b'jobs{n="%d"} 7\n' % n for n in range(60_000))
    async with endpoint(authority.server("127.0.0.1")) as server:
        server.pages["/metrics"] = ok(body)
        reply = await get(open_here, parse_url(f"{server.url}/metrics"))
    assert reply.body == body


async def test_one_that_nobody_vouches_for_is_not(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    async with endpoint(authority.server("127.0.0.1")) as server:
        server.serve(PAGE)
        message = await refusal(server.url)
    assert message == (
        f"prometheus {server.url}: its certificate is not trusted: unable to get local issuer certificate"
        " (set SSL_CERT_FILE to trust it)"
    )
    assert server.requested == []


async def test_one_for_another_host_or_of_another_time_is_not(authority: Authority) -> None:
    async with endpoint(authority.server("gpu-1.example")) as server:
        assert "its certificate is not trusted: IP address mismatch" in await refusal(server.url)
    async with endpoint(authority.server("127.0.0.1", days=-1)) as server:
        message = await refusal(server.url)
    assert message.endswith("its certificate is not trusted: certificate has expired")


async def test_where_its_authorities_are_said_to_be_they_must_be(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    async with endpoint(authority.server("127.0.0.1")) as server:
        message = await refusal(server.url)
    assert message.endswith(f"SSL_CERT_FILE does not exist: {tmp_path}/none.pem")


async def test_authorities_that_cannot_be_read_are_told(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    odd = tmp_path / "odd.pem"
    odd.write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(odd))
    async with endpoint(authority.server("127.0.0.1")) as server:
        assert "its certificate is not trusted: " in await refusal(server.url)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no TLS on this port: is it http://?"),
        (b"", "closed during the TLS handshake"),
        (b"\x15\x03\x01\x00\x02\x02\x28", "TLS failed: "),
    ],
)
async def test_what_answers_something_else_is_told_of(answer: bytes, why: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(ReplyError) as caught:
            await get(open_here, parse_url(url))
    assert why in str(caught.value)


async def test_one_that_does_not_shake_hands_is_waited_for_no_longer_than_any_other() -> None:
    silent = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(ReplyError, match=r"no answer for 0\.2 s"):
            await get(open_here, parse_url(url), timeout_s=0.2)
        silent.set()
        await asyncio.sleep(0.01)


def test_it_is_a_spec_like_any_other() -> None:
    assert parse_request("prometheus=https://gpu-1:9443/metrics") == PollRequest(
        "prometheus", "https://gpu-1:9443/metrics"
    )
    assert parse_request("vllm=https://gpu-1") == PollRequest("vllm", "https://gpu-1")
    assert (parse_url("https://gpu-1/x").port, parse_url("HTTP://gpu-1/x").port) == (443, 80)
    with pytest.raises(UsageError, match="https://HOST:PORT"):
        parse_request("vllm=tcp://gpu-1:8000")
