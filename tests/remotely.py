"""What follows a real SSH host in tests, and what writes there: every line is counted."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from sshd import Sshd

from perfmon.core.model import Block, Notice
from perfmon.sources.remote.connection import Login
from perfmon.sources.remote.follow import HostLogs
from perfmon.sources.remote.host import Host
from perfmon.sources.remote.model import Address, Phase
from perfmon.sources.remote.reader import Item

PATIENCE_S = 15.0


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
        missing = sorted(int(line.split()[1]) for line in set(self.lines) - set(seen.lines))
        assert (twice, missing[:1], missing[-1:], len(missing)) == ({}, [], [], 0), seen.notices
        assert seen.lines == self.lines


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
        assert any("reconnecting" in notice.text for notice in seen.notices)
        assert any("reconnected after" in notice.text for notice in seen.notices)
        return host


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
