"""Pollers over a real SSH server: what they find out, that nothing of them stays, and what a lost connection does."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from certificates import Authority
from endpoints import endpoint
from polled import Collected, gone, paced, until
from remotely import Proxy, following
from sshd import AVAILABLE, Sshd

from perfmon.core.model import Block
from perfmon.sources.http_client import get, parse_url
from perfmon.sources.pollers.reading import Area, PollError, Reading, is_poll, parse_reading
from perfmon.sources.pollers.request import PollRequest
from perfmon.sources.pollers.scheduler import make_pollers
from perfmon.sources.remote.fleet import Fleet, FleetOptions
from perfmon.sources.remote.host import RemoteMachine
from perfmon.sources.remote.model import Address, RemoteSpec

pytestmark = [pytest.mark.system, pytest.mark.skipif(not AVAILABLE, reason="needs sshd")]


@pytest.fixture(params=["", "busybox"])
def sshd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sshd]:
    """A server, also one on which nothing but BusyBox is found first."""
    forced = None
    if request.param:
        program = shutil.which("busybox")
        if program is None:
            pytest.skip("needs busybox")
        tools = tmp_path / "bin"
        tools.mkdir()
        subprocess.run([program, "--install", "-s", tools], check=True)
        forced = f'PATH={tools}:$PATH; eval "$SSH_ORIGINAL_COMMAND"'
    made = Sshd(tmp_path / "sshd", forced=forced)
    made.start()
    yield made
    made.stop()


async def test_a_host_is_polled_over_its_connection(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("a\n")
    async with following(sshd, str(tmp_path / "run.log")) as (_, host):
        await until(lambda: host.logs.caught_up)
        machine = RemoteMachine(host)
        pollers = make_pollers(machine, PollRequest("host"), lambda: {str(tmp_path): "logs"})
        for poller in pollers:
            poller.every_s = 0.3  # type: ignore[misc]  # of this instance
        result = await paced(
            machine, pollers, lambda result: len(result.readings(Area.HOST)) > 1 and bool(result.readings(Area.DISK))
        )
    values = result.readings(Area.HOST)[-1].values
    assert values["cores"] == os.cpu_count()
    assert "cpu_pct" in values
    assert any("logs" in one.words.get("holds", "") for one in result.readings(Area.DISK))
    assert {one.words["state"] for one in result.readings(Area.POLLER)} <= {"ok", "stale"}
    assert all(f" host={machine.name} " in line for line in result.lines)


@pytest.mark.parametrize(
    "command", ["echo $$; exec sleep 600", "sleep 600 & echo $!; wait", "sh -c 'echo $$; sleep 600; :' | cat"]
)
async def test_of_a_command_there_nothing_is_left(sshd: Sshd, command: str) -> None:
    async with following(sshd, "nothing.log") as (_, host):
        await until(lambda: host.connection is not None)
        lines = RemoteMachine(host).lines(command)
        async with aclosing(lines):  # type: ignore[type-var]  # it is a generator
            pid = int(await anext(lines))
            assert not gone(pid)
        await until(lambda: gone(pid))


async def test_lines_of_a_command_there_end_with_it(sshd: Sshd) -> None:
    async with following(sshd, "nothing.log") as (_, host):
        await until(lambda: host.connection is not None)
        machine = RemoteMachine(host)
        async with asyncio.timeout(20):
            assert [line async for line in machine.lines("printf 'it'\\''s\\n$HOME\\n'; echo \"$((1+1))\"")] == [
                b"it's", b"$HOME", b"2",
            ]  # fmt: skip


async def test_a_port_there_is_asked_through_the_connection(sshd: Sshd) -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        writer.close()

    server = await asyncio.start_server(answers, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with following(sshd, "nothing.log") as (_, host):
        await until(lambda: host.connection is not None)
        reply = await get(RemoteMachine(host).opener, parse_url(f"http://127.0.0.1:{port}/"))
    assert reply.body == b"hi"
    server.close()


async def test_a_page_behind_https_there_is_read_and_its_certificate_checked_here(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    async with endpoint(authority.server("127.0.0.1")) as server, following(sshd, "nothing.log") as (_, host):
        server.serve("jobs 7\n")
        await until(lambda: host.connection is not None)
        (poller,) = make_pollers(RemoteMachine(host), PollRequest("prometheus", f"{server.url}#jobs"))
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        with pytest.raises(PollError, match="its certificate is not trusted"):
            await poller.poll()
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        (reading,) = await poller.poll()
    assert reading.values == {"value": 7}


class Stream:
    """What a fleet gives, until it is enough."""

    def __init__(self, fleet: Fleet) -> None:
        self._items, self.collected = fleet.items(), Collected()

    async def until(self, enough: Callable[[], object], patience_s: float = 40.0) -> None:
        """Takes more."""
        async with asyncio.timeout(patience_s):
            while not enough():
                log, item = await anext(self._items)
                if isinstance(item, Block) and is_poll(log.name):
                    self.collected.items.append((log, item))

    def of(self, area: Area) -> list[tuple[str, Reading]]:
        """What was told of an area, with its host."""
        result = [parse_reading(line) for line in self.collected.lines]
        return [one for one in result if one is not None and one[1].area is area]

    def states(self, host: str = "box") -> list[str]:
        """What became of the poller of a host."""
        return [one.words["state"] for name, one in self.of(Area.POLLER) if name == host and one.name == "host"]

    def hosts(self, host: str = "box") -> list[Reading]:
        """What was told of a host, in order."""
        return [one for name, one in self.of(Area.HOST) if name == host]


def _fleet(sshd: Sshd, log: Path, *names: str) -> Fleet:
    options = FleetOptions(requests=(PollRequest("host"),), config=(str(sshd.config),), known_hosts=(str(sshd.known),))
    return Fleet([RemoteSpec(name, Address(name), str(log)) for name in names], options)


@pytest.mark.parametrize("sshd", [""], indirect=True)
async def test_a_lost_connection_is_told_and_polling_goes_on_after_it(sshd: Sshd, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("a\n")
    fleet = _fleet(sshd, log, "box")
    await asyncio.to_thread(fleet.open)
    fleet.follow()
    stream = Stream(fleet)
    try:
        await stream.until(lambda: len(stream.hosts()) >= 2)
        assert fleet.states[0].phase == "live"
        await asyncio.to_thread(sshd.stop)
        await stream.until(lambda: set(stream.states()) & {"stale", "failed"})
        trouble = next(one for one in stream.collected.readings(Area.POLLER, "host") if one.words["state"] != "ok")
        assert trouble.values["age_s"] >= 0.0
        assert trouble.words["why"]
        before = len(stream.hosts())
        await asyncio.to_thread(sshd.start)
        await stream.until(lambda: len(stream.hosts()) >= before + 2)
        assert stream.states()[-1] == "ok"
        assert fleet.states[0].reconnects == 1
        assert fleet.states[0].clock is not None
    finally:
        await asyncio.to_thread(fleet.close)


@pytest.mark.parametrize("sshd", [""], indirect=True)
async def test_a_hung_host_is_stale_and_others_are_not(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("a\n")
    proxy = Proxy(sshd.port)
    async with proxy:
        plain, known = sshd.config.read_text(), sshd.known.read_text()
        hung = plain.replace("Host box", "Host hung").replace(f"Port {sshd.port}", f"Port {proxy.port}")
        sshd.config.write_text(plain + hung)
        sshd.known.write_text(known + known.replace(f":{sshd.port}", f":{proxy.port}"))
        fleet = _fleet(sshd, tmp_path / "run.log", "box", "hung")
        await asyncio.to_thread(fleet.open)
        fleet.follow()
        stream = Stream(fleet)
        try:
            await stream.until(lambda: {"box", "hung"} <= {host for host, _ in stream.of(Area.HOST)})
            proxy.forwarding = False
            await stream.until(lambda: "stale" in stream.states("hung"))
            count = len(stream.hosts("box"))
            await stream.until(lambda: len(stream.hosts("box")) >= count + 2)
            assert stream.states("box") == ["ok"]
        finally:
            await asyncio.to_thread(fleet.close)
