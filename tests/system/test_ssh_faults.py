"""What may happen to a real SSH host while its logs are followed: every line arrives, and none twice."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from remotely import Proxy, Writer, following, through, until
from sshd import AVAILABLE, Sshd

from perfmon.sources.remote.states import Phase

pytestmark = [pytest.mark.system, pytest.mark.skipif(not AVAILABLE, reason="needs sshd")]


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A server that a test may treat badly."""
    made = Sshd(tmp_path / "sshd", extra="")
    made.start()
    yield made
    made.stop()


async def test_the_connection_is_killed_again_and_again(sshd: Sshd, tmp_path: Path) -> None:
    async def kill(_: Writer) -> None:
        for _again in range(3):
            await asyncio.sleep(0.25)
            await asyncio.to_thread(sshd.cut)

    await through(sshd, tmp_path, kill)


async def test_the_connection_is_killed_while_a_long_history_is_read(sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(1_500_000)
    async with following(sshd, writer.path) as (seen, host):

        def beyond(size: float) -> bool:
            return len(seen.of("run.log")) > size

        for part in (0.1, 0.4, 0.7):
            await until(partial(beyond, part * writer.path.stat().st_size))
            await asyncio.to_thread(sshd.cut)
        await until(lambda: host.logs.caught_up and host.logs.behind == 0)
        assert seen.of("run.log") == writer.path.read_bytes()
        assert host.state.reconnects >= 1


async def test_the_server_is_away_for_a_while(sshd: Sshd, tmp_path: Path) -> None:
    async def away(_: Writer) -> None:
        await asyncio.to_thread(sshd.stop)
        await asyncio.sleep(float(os.environ.get("PERFMON_TEST_AWAY_S", "4")))
        await asyncio.to_thread(sshd.start)

    host = await through(sshd, tmp_path, away)
    assert host.state.error == ""


async def test_a_log_is_rotated_while_disconnected(sshd: Sshd, tmp_path: Path) -> None:
    async def rotate(writer: Writer) -> None:
        await asyncio.to_thread(sshd.stop)
        for at in (2, 1):
            await asyncio.sleep(0.2)
            await until(lambda: not writer.within)
            writer.path.rename(f"{writer.path}.{at}")
            writer.write(20)
        await asyncio.to_thread(sshd.start)

    await through(sshd, tmp_path, rotate)


async def test_a_log_is_truncated_while_disconnected(sshd: Sshd, tmp_path: Path) -> None:
    async def truncate(writer: Writer) -> None:
        await asyncio.to_thread(sshd.stop)
        await asyncio.sleep(0.5)
        await until(lambda: not writer.within)
        shutil.copy(writer.path, f"{writer.path}.1")
        os.truncate(writer.path, 0)
        writer.write(20)
        await asyncio.to_thread(sshd.start)

    await through(sshd, tmp_path, truncate)


async def test_the_user_is_logged_out(sshd: Sshd, tmp_path: Path) -> None:
    async def log_out(_: Writer) -> None:
        await asyncio.sleep(0.3)
        for process in reversed(sshd.sessions()):
            try:
                os.kill(process, 1)
            except ProcessLookupError:
                continue

    await through(sshd, tmp_path, log_out)


async def test_the_network_forwards_nothing_any_more(sshd: Sshd, tmp_path: Path) -> None:
    proxy = Proxy(sshd.port)
    async with proxy:
        config = sshd.config.read_text().replace(f"Port {sshd.port}", f"Port {proxy.port}\n  HostKeyAlias box")
        sshd.config.write_text(config + "  ServerAliveInterval 1\n  ServerAliveCountMax 2\n  ConnectTimeout 2\n")
        key = sshd.known.read_text().split(" ", 1)[1]
        sshd.known.write_text(f"box {key}")

        async def cut(_: Writer) -> None:
            await asyncio.sleep(0.3)
            proxy.forwarding = False
            await asyncio.sleep(3.5)
            proxy.forwarding = True

        await through(sshd, tmp_path, cut)


async def test_a_host_key_that_changed_meanwhile_ends_it(sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(3)
    async with following(sshd, writer.path) as (seen, host):
        await until(lambda: len(seen.lines) == 3)
        await asyncio.to_thread(sshd.stop)
        sshd.rekey()
        await asyncio.to_thread(sshd.start)
        await until(lambda: host.state.phase is Phase.REFUSED, host.state)
        assert "host key has changed" in host.state.error
        assert "not tried again" in seen.notices[-1].text
