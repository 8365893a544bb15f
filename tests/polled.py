"""Pollers, and what comes of them, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from perfmon.core.model import Block, Notice
from perfmon.sources.discovery import LogFile
from perfmon.sources.pollers.reading import Area, Machine, Poller, Reading, parse_reading
from perfmon.sources.pollers.scheduler import PollScheduler


class Collected:
    """Takes what is emitted."""

    def __init__(self) -> None:
        self.items: list[tuple[LogFile, Block]] = []

    async def __call__(self, items: list[tuple[LogFile, Block | Notice]]) -> None:
        """As a conveyor does."""
        self.items += [(log, item) for log, item in items if isinstance(item, Block)]

    @property
    def lines(self) -> list[str]:
        """All lines so far."""
        return [line for _, block in self.items for line in block.data.decode().splitlines()]

    def readings(self, area: Area | None = None, name: str | None = None) -> list[Reading]:
        """All readings so far, of an area and name."""
        found = [outcome[1] for line in self.lines if (outcome := parse_reading(line)) is not None]
        return [one for one in found if area in (None, one.area) and name in (None, one.name)]


async def paced(
    machine: Machine, pollers: Sequence[Poller], done: Callable[[Collected], bool], patience_s: float = 30.0
) -> Collected:
    """Asks until what was told is enough."""
    outcome = Collected()
    running = asyncio.create_task(PollScheduler(machine, pollers, outcome).run())
    try:
        async with asyncio.timeout(patience_s):
            while not done(outcome):
                if running.done():
                    running.result()
                await asyncio.sleep(0.02)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    return outcome


def gone(process: int) -> bool:
    """Whether a process has ended, though perhaps nobody asked it how."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def until(what: Callable[[], bool], patience_s: float = 10.0) -> None:
    """Waits for something to become true."""
    async with asyncio.timeout(patience_s):
        while not what():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
