"""Logs of a real SSH server, followed through rotation, truncation and lost connections: no line lost, none twice."""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from sshd import AVAILABLE, Sshd

from perfmon.sources.blocks import Block, Notice
from perfmon.sources.remote.address import Address
from perfmon.sources.remote.following import HostLogs
from perfmon.sources.remote.host import Host
from perfmon.sources.remote.login import Login
from perfmon.sources.remote.runner import RunnerError
from perfmon.sources.remote.states import Phase
from perfmon.sources.remote.tail import Item

pytestmark = [pytest.mark.system, pytest.mark.skipif(not AVAILABLE, reason="needs sshd")]
SHELLS = ["dash", "bash", "busybox sh"]
PATIENCE_S = 15.0


@pytest.fixture(scope="module", params=SHELLS)
def any_sshd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A server on which `sh` is this one, and nothing is there but it and coreutils or BusyBox."""
    words = request.param.split()
    program = shutil.which(words[0])
    if program is None:
        pytest.skip(f"needs {words[0]}")
    folder = tmp_path_factory.mktemp("sshd")
    tools = folder / "bin"
    tools.mkdir()
    if len(words) > 1:
        for name in ("sh", "stat", "dd", "head", "tail", "find", "gzip", "date", "sleep", "ls"):
            (tools / name).symlink_to(program)
    else:
        (tools / "sh").symlink_to(program)
    made = Sshd(folder, forced=f'PATH={tools}:$PATH; eval "$SSH_ORIGINAL_COMMAND"')
    made.start()
    yield made
    made.stop()


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A server that a test may treat badly."""
    made = Sshd(tmp_path / "sshd", extra="")
    made.start()
    yield made
    made.stop()


class Seen:
    """What came of a host."""

    def __init__(self) -> None:
        self.items: list[Item] = []

    async def emit(self, items: list[Item]) -> None:
        """Takes what came."""
        self.items += items

    @property
    def lines(self) -> list[str]:
        """All lines, in the order in which they came."""
        data = b"".join(item.data for _, item in self.items if isinstance(item, Block))
        return data.decode().splitlines()

    @property
    def notices(self) -> list[Notice]:
        """All notices."""
        return [item for _, item in self.items if isinstance(item, Notice)]

    def of(self, name: str) -> bytes:
        """All text of one log."""
        return b"".join(item.data for log, item in self.items if isinstance(item, Block) and log.name.endswith(name))


async def until(true: Callable[[], object], what: object = "") -> None:
    """Until that is so."""
    limit = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < limit, f"it never came to that: {what}"
        await asyncio.sleep(0.02)


@asynccontextmanager
async def following(
    sshd: Sshd, *paths: Path | str, history: int | None = None, poll_s: float = 0.05, config: str = ""
) -> AsyncIterator[tuple[Seen, Host]]:
    """A host that is followed."""
    if config:
        sshd.config.write_text(sshd.config.read_text() + config)
    login = Login(config=(str(sshd.config),), known_hosts=(str(sshd.known),))
    seen = Seen()
    host = Host(Address("box"), login, HostLogs("box", [str(path) for path in paths], history), seen.emit)
    await host.connect()
    running = asyncio.create_task(host.run(poll_s))
    try:
        yield seen, host
        if running.done():
            running.result()
    finally:
        running.cancel()
        await asyncio.wait((running,))
        await host.close()


class Writer:
    """Writes numbered lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self.within = False
        """A line is written in part."""

    def write(self, count: int = 1) -> None:
        """The next lines."""
        with self.path.open("a") as file:
            file.write("".join(f"line {self.count + at} of the run\n" for at in range(count)))
        self.count += count

    async def go_on(self, for_s: float) -> None:
        """Writes for a while, some lines cut in two."""
        limit = time.monotonic() + for_s
        while time.monotonic() < limit:
            self.write(7)
            with self.path.open("a") as file:
                file.write(f"line {self.count} ")
            self.within = True
            await asyncio.sleep(0.01)
            with self.path.open("a") as file:
                file.write("of the run\n")
            self.within = False
            self.count += 1
            await asyncio.sleep(0)

    @property
    def lines(self) -> list[str]:
        """All that it wrote."""
        return [f"line {at} of the run" for at in range(self.count)]

    async def arrived(self, seen: Seen) -> None:
        """Waits for the last line, then counts: every line once, in its order."""
        await until(lambda: f"line {self.count - 1} of the run" in seen.lines, f"line {self.count - 1}: {seen.notices}")
        twice = {line: count for line, count in Counter(seen.lines).items() if count > 1}
        assert (twice, set(self.lines) - set(seen.lines)) == ({}, set())
        assert seen.lines == self.lines


async def test_what_is_there_and_what_comes_byte_for_byte(any_sshd: Sshd, tmp_path: Path) -> None:
    log = tmp_path / "it's $(touch bad) `x` [a]*.log"
    data = bytes([9, 10, *range(32, 127), *range(128, 256)]) * 400 + b"\n"
    log.write_bytes(b"head of a log\n" * 2000 + data * 30)
    async with following(any_sshd, f"{tmp_path}/it's $(touch bad) `x` *.log") as (seen, host):
        await until(lambda: host.logs.caught_up)
        for _ in range(3):
            with log.open("ab") as file:
                file.write(data)
        await until(lambda: len(seen.of(".log")) == log.stat().st_size, seen.notices)
        assert seen.of(".log") == log.read_bytes()
        assert seen.notices == []
    assert os.listdir(tmp_path) == [log.name]


async def test_lines_arrive_whole_and_once_while_they_are_written(any_sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(10)
    async with following(any_sshd, writer.path) as (seen, _):
        await writer.go_on(1.0)
        await writer.arrived(seen)


async def test_rotation_by_name_many_times(any_sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(10)
    async with following(any_sshd, tmp_path) as (seen, _):
        for at in range(6):
            await writer.go_on(0.15)
            writer.path.rename(tmp_path / f"run.log.{6 - at}")
        await writer.go_on(0.3)
        await writer.arrived(seen)
        assert any(notice.kind == "rotated" for notice in seen.notices)


async def test_a_slow_writer_still_writes_to_the_rotated_file(any_sshd: Sshd, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    with path.open("a") as slow:
        print("line 0", file=slow, flush=True)
        async with following(any_sshd, path) as (seen, _):
            await until(lambda: "line 0" in seen.lines)
            path.rename(tmp_path / "run.log.1")
            path.write_text("line 2\n")
            await until(lambda: "line 2" in seen.lines)
            print("line 1", file=slow, flush=True)
            await until(lambda: "line 1" in seen.lines)
            assert sorted(seen.lines) == ["line 0", "line 1", "line 2"]
            assert seen.of("run.log (rotated)") == b"line 1\n"


async def test_deleted_and_made_anew(any_sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    async with following(any_sshd, writer.path) as (seen, _):
        await until(lambda: [notice.kind for notice in seen.notices] == ["gone"])
        for _ in range(4):
            await writer.go_on(0.1)
            await until(lambda: f"line {writer.count - 1} of the run" in seen.lines)
            writer.path.unlink()
        writer.write(5)
        await writer.arrived(seen)


async def test_truncated_in_place_with_a_copy(any_sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(5)
    async with following(any_sshd, writer.path) as (seen, _):
        await until(lambda: len(seen.lines) == 5)
        for at in range(4):
            writer.write(200)
            if at % 2:
                await until(lambda: f"line {writer.count - 1} of the run" in seen.lines)
            writer.write(3)
            shutil.copy(writer.path, tmp_path / f"run.log.{at}")
            os.truncate(writer.path, 0)
            writer.write(50)
            await until(lambda: f"line {writer.count - 1} of the run" in seen.lines, seen.notices)
        await writer.arrived(seen)


async def test_history_is_bounded_and_begins_with_a_whole_line(any_sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(50_000)
    async with following(any_sshd, writer.path, history=200_000) as (seen, host):
        await until(lambda: host.logs.caught_up)
        writer.write(3)
        await until(lambda: seen.lines and seen.lines[-1] == writer.lines[-1])
        assert 190_000 < len(seen.of("run.log")) <= 200_100
        assert seen.lines == writer.lines[-len(seen.lines) :]
        assert "left out" in seen.notices[0].text


async def test_no_history(any_sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(50_000)
    async with following(any_sshd, writer.path, history=0) as (seen, host):
        await until(lambda: host.logs.caught_up)
        writer.write(3)
        await until(lambda: len(seen.lines) >= 3)
        assert seen.lines == writer.lines[-3:]


async def test_folders_patterns_and_logs_that_appear(any_sshd: Sshd, tmp_path: Path) -> None:
    for name in ("a/logs/x.log", "b/c/logs/y.log", "a/checkpoint-1/z.log", "a/.h/w.log", "a/logs/model.bin"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")
    async with following(any_sshd, tmp_path, f"{tmp_path}/**/logs/*.log") as (seen, host):
        await until(lambda: host.logs.caught_up and len(seen.lines) == 2, seen.lines)
        (tmp_path / "b" / "new.log").write_text("new\n")
        await until(lambda: "new" in seen.lines)
        assert sorted(seen.lines) == ["a/logs/x.log", "b/c/logs/y.log", "new"]


async def test_what_cannot_be_read_is_told(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "real.log").write_bytes(gzip.compress(b"x" * 1000))
    (tmp_path / "link.log").symlink_to(tmp_path / "real.log")
    async with following(sshd, tmp_path / "link.log", "/dev/null", "/nowhere/x.log") as (seen, _):
        await until(lambda: len(seen.notices) == 3, seen.notices)
        told = " ".join(sorted(notice.text for notice in seen.notices))
        assert "no log" in told
        assert "not there yet" in told


async def test_a_log_that_may_not_be_read_until_it_may(tmp_path: Path) -> None:
    nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups " if os.geteuid() == 0 else ""
    sshd = Sshd(tmp_path / "sshd", forced=f'exec {nobody}sh -c "$SSH_ORIGINAL_COMMAND"')
    for folder in (tmp_path, *tmp_path.parents):
        if folder.name.startswith(("test_", "popen", "pytest-")):
            folder.chmod(0o755)
    log = tmp_path / "secret.log"
    log.write_text("line 0\n")
    log.chmod(0)
    sshd.start()
    try:
        async with following(sshd, log) as (seen, _):
            await until(lambda: [notice.kind for notice in seen.notices] == ["lost"], seen.notices)
            assert "permission denied" in seen.notices[0].text
            log.chmod(0o644)
            await until(lambda: seen.lines == ["line 0"])
    finally:
        sshd.stop()


async def test_a_shell_that_hangs_holds_nobody_up(sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    async with following(sshd, writer.path) as (seen, host):
        other = await host.runner()
        hanging = asyncio.create_task(other.run("sleep 30", timeout_s=0.5))
        writer.write(3)
        await writer.arrived(seen)
        with pytest.raises(RunnerError, match="no answer"):
            await hanging
        assert other.closed
        assert host.state.phase is Phase.LIVE


async def test_more_logs_than_a_shell_can_hold_open(any_sshd: Sshd, tmp_path: Path) -> None:
    writers = [Writer(tmp_path / f"{at}.log") for at in range(20)]
    for writer in writers:
        writer.write(3)
    async with following(any_sshd, *(writer.path for writer in writers)) as (seen, host):
        await until(lambda: host.logs.caught_up)
        for writer in writers:
            writer.path.rename(f"{writer.path}.1")
            writer.write(4)
        await until(lambda: len(seen.lines) == 20 * 7, len(seen.lines))
        for writer in writers:
            assert seen.of(f"/{writer.path.name}").decode().splitlines() == writer.lines


# --- faults -------------------------------------------------------------------------------------------------------
async def through(sshd: Sshd, tmp_path: Path, fault: Callable[[Writer], Awaitable[None]], config: str = "") -> Host:
    """Lines are written while something happens to the connection; every one arrives once."""
    (tmp_path / "logs").mkdir()
    writer = Writer(tmp_path / "logs" / "run.log")
    writer.write(100)
    async with following(sshd, tmp_path / "logs", config=config) as (seen, host):
        await until(lambda: len(seen.lines) == 100)
        writing = asyncio.create_task(writer.go_on(1.0))
        await fault(writer)
        await writing
        await until(lambda: host.state.phase is Phase.LIVE)
        writer.write(10)
        await writer.arrived(seen)
        assert host.state.reconnects >= 1
        assert any("connecting again" in notice.text for notice in seen.notices)
        assert any("connected again" in notice.text for notice in seen.notices)
        return host


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


async def test_nothing_is_left_behind(sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(3)
    async with following(sshd, writer.path) as (seen, _):
        await until(lambda: len(seen.lines) == 3)
    await until(lambda: not sshd.sessions(), "sessions")
    assert sorted(os.listdir(tmp_path)) == ["run.log", "sshd"]


async def test_the_clock_of_a_host_is_estimated(sshd: Sshd, tmp_path: Path) -> None:
    async with following(sshd, tmp_path) as (_, host):
        clock = host.state.clock
        assert clock is not None
        assert abs(clock.seconds) <= clock.uncertainty_s + 0.01


class Proxy:
    """A network in between, which can stop to forward without a word."""

    def __init__(self, port: int) -> None:
        self.forwarding = True
        self.port = 0
        self._to = port
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            writer.close()
        await asyncio.sleep(0.05)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers += [writer, back]
        for source, sink in ((reader, back), (there, writer)):
            self._tasks.add(asyncio.create_task(self._pump(source, sink)))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        lost = False
        while data := await source.read(65536):
            lost = lost or not self.forwarding  # what was dropped once never comes
            if not lost:
                sink.write(data)
