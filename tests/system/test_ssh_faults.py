"""What may happen to a real SSH host while its logs are followed: every line arrives, and none twice."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from remotely import Proxy, Writer, following, through, until
from sshd import AVAILABLE, Sshd
from terminals import wait

from perfmon.core.config import Config
from perfmon.monitor.composite_feeds import RemoteFeed
from perfmon.monitor.feeds import FollowFeed
from perfmon.monitor.monitor import Monitor
from perfmon.sources.remote.fleet import Fleet, FleetOptions
from perfmon.sources.remote.model import Address, Phase, RemoteSpec

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


async def test_the_number_of_a_deleted_log_is_given_to_the_next_one(sshd: Sshd, tmp_path: Path) -> None:
    """More logs than the host keeps open: those behind are found by name and number."""
    (tmp_path / "logs").mkdir()
    writers = [Writer(tmp_path / "logs" / f"{at}.log") for at in range(8)]
    for writer in writers:
        writer.write(100)
    async with following(sshd, tmp_path / "logs") as (seen, _):
        await until(lambda: len(seen.lines) == 800)
        for number, writer in enumerate(writers):
            os.link(writer.path, tmp_path / "same-number")
            writer.path.unlink()
            gone = f"{number}.log: deleted or renamed"
            await until(lambda gone=gone: any(gone in notice.text for notice in seen.notices))  # type: ignore[misc]
            (tmp_path / "same-number").write_text(f"next {number}\n")
            os.replace(tmp_path / "same-number", writer.path)
            await until(lambda number=number: f"next {number}" in seen.lines)  # type: ignore[misc]
        assert len(seen.lines) == 808


@pytest.mark.parametrize("moment", range(1, 25, 2))
async def test_a_log_is_rotated_at_any_moment_of_the_search_for_what_was_missed(tmp_path: Path, moment: int) -> None:
    """Behind the first, second ... look of the host after an outage in which the log was rotated twice."""
    logs, tools = tmp_path / "logs", tmp_path / "tools"
    logs.mkdir()
    tools.mkdir()
    writer = Writer(logs / "run.log")
    more = "".join(f"line {number} of the run\n" for number in range(160, 170))
    (tools / "more").write_text(more)
    for tool, arguments in (("stat", "*run.log*"), ("dd", "*skip=*")):
        (tools / tool).write_text(
            f'#!/bin/sh\n{shutil.which(tool)} "$@"\ncode=$?\ncase "$*" in {arguments})\n'
            f'  [ -e {tools}/armed ] && echo >>{tools}/looks && [ "$(wc -l <{tools}/looks)" -eq {moment} ] &&\n'
            f"  mv {logs}/run.log {logs}/run.log.0 && cat {tools}/more >{logs}/run.log;;\nesac\nexit $code\n"
        )
        (tools / tool).chmod(0o755)
    home = tmp_path / "home"
    sshd = Sshd(tmp_path / "sshd", f"SetEnv HOME={home} PATH={tools}:{os.environ['PATH']}", home=home)
    sshd.start()
    try:
        writer.write(100)
        async with following(sshd, writer.path) as (seen, _):
            await until(lambda: len(seen.lines) == 100)
            await asyncio.to_thread(sshd.stop)
            for part in (2, 1):
                writer.path.rename(f"{writer.path}.{part}")
                writer.write(30)
            (tools / "armed").touch()
            await asyncio.to_thread(sshd.start)
            writer.count += 10
            await writer.arrived(seen)
    finally:
        sshd.stop()


@pytest.mark.parametrize("others", [0, 8])
async def test_a_log_is_deleted_while_disconnected_and_its_writer_keeps_it(
    sshd: Sshd, tmp_path: Path, others: int
) -> None:
    """It has no name any more, and is read through its writer; also where it was one too many to be kept open."""
    logs = tmp_path / "logs"
    logs.mkdir()
    for number in range(others):
        (logs / f"a{number}.log").write_text("other\n")
    with (logs / "run.log").open("a", buffering=1) as kept:
        kept.writelines(f"line {number}\n" for number in range(100))
        async with following(sshd, logs) as (seen, _):
            await until(lambda: len(seen.lines) == 100 + others)
            await asyncio.to_thread(sshd.stop)
            kept.writelines(f"line {number}\n" for number in range(100, 150))
            (logs / "run.log").unlink()
            await asyncio.to_thread(sshd.start)
            await until(lambda: len(seen.lines) >= 150 + others, seen.notices)
            kept.writelines(f"line {number}\n" for number in range(150, 160))
            await until(lambda: len(seen.lines) >= 160 + others, seen.notices)
            assert [line for line in seen.lines if line != "other"] == [f"line {number}" for number in range(160)]


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
        assert "giving up" in seen.notices[-1].text


DATE = """#!/bin/sh
exec {date} -d "$(cat {folder}/ahead) seconds" "$@"
"""


class Clock:
    """The clock of the host: what its shell says of the time."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "ahead"
        program = folder / "date"
        folder.mkdir()
        program.write_text(DATE.format(date=shutil.which("date"), folder=folder))
        program.chmod(0o755)
        self.set(0)

    def set(self, ahead_s: int) -> None:
        """By so many seconds it is ahead of this machine's."""
        self.ahead_s = ahead_s
        self._file.with_suffix(".new").write_text(str(ahead_s))
        self._file.with_suffix(".new").replace(self._file)

    @property
    def stamp(self) -> str:
        """What a log says."""
        return (datetime.now(UTC) + timedelta(seconds=self.ahead_s)).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    """That of the host of `stepping`."""
    return Clock(tmp_path / "clock")


@pytest.fixture
def stepping(tmp_path: Path, clock: Clock) -> Iterator[Sshd]:
    """A host whose clock can be set."""
    made = Sshd(tmp_path / "sshd", forced=f'PATH={tmp_path}/clock:$PATH; eval "$SSH_ORIGINAL_COMMAND"')
    made.start()
    yield made
    made.stop()


async def test_the_clock_of_the_host_is_set(
    stepping: Sshd, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfmon.sources.remote.host._CLOCK_S", 0.2)  # seconds between two looks at it

    def near(seconds: float) -> bool:
        offset = host.state.clock
        return offset is not None and abs(offset.seconds - seconds) <= offset.uncertainty_s + 0.01

    writer = Writer(tmp_path / "run.log")
    writer.write(10)
    async with following(stepping, writer.path) as (seen, host):
        await until(lambda: near(0.0))
        for ahead_s in (3600, -7200, 90, 0):
            clock.set(ahead_s)
            await until(partial(near, ahead_s), host.state.clock)
            writer.write(10)
        await writer.arrived(seen)
        assert host.state.reconnects == 0


@pytest.mark.parametrize("ahead_s", [3600, -3600])
def test_a_clock_that_is_set_tears_nothing(stepping: Sshd, clock: Clock, tmp_path: Path, ahead_s: int) -> None:
    """Two logs: that of the host, and one on this machine."""
    there, here = tmp_path / "there.log", tmp_path / "here.log"
    for path in (there, here):
        path.write_text("")
    options = FleetOptions(config=(str(stepping.config),), known_hosts=(str(stepping.known),), poll_s=0.1)
    fleet = Fleet([RemoteSpec(f"box:{there}", Address("box"), str(there))], options)
    fleet.open()
    monitor = Monitor(lambda: RemoteFeed(fleet, FollowFeed([str(here)])), Config())
    monitor.start()
    count = 0

    def write() -> None:
        nonlocal count
        with there.open("a") as far, here.open("a") as near:
            print(f"{clock.stamp} INFO [ckpt] write.done step={count} write_ms=80.0", file=far)
            now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
            print(f"{now} INFO [rollout] trunc_pct=2.0 current_step={count} ckpt_step={count} staleness=0", file=near)
        count += 1
        time.sleep(0.25)

    def go_on(until_true: Callable[[], bool]) -> None:
        limit = time.monotonic() + 60.0
        while not until_true():
            assert time.monotonic() < limit, monitor.picture
            write()

    try:
        go_on(lambda: monitor.picture.lines > 40)
        clock.set(ahead_s)
        go_on(lambda: any("clock set" in notice for notice in monitor.picture.notices))
        shown = monitor.picture.number
        go_on(lambda: monitor.picture.number > shown + 3)
        wait(lambda: monitor.picture.lines == 2 * count)
        picture = monitor.picture
    finally:
        monitor.stop()
    last = [source.last or 0.0 for source in picture.sources]
    assert abs(last[0] - last[1]) < 5.0
    assert picture.snapshot is not None
    assert picture.snapshot.run.wall_s < 120.0
    causes = {entry.cause for entry in picture.snapshot.ledger if entry.lost_s > 1.0}
    # A checkpoint holds the trainer up; what the clock leapt over may stay unproven, but is not lost.
    assert causes - {"unaccounted", "checkpoint"} == {"productive"}
    assert [source.lines for source in picture.sources] == [count, count]
