"""A watch whose lines are given to it by hand, second by second: nothing is waited for."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from perfmon.core import ConnectError
from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.logbuffer.buffer import LogBuffer
from perfmon.monitor.feeds import Item
from perfmon.monitor.worker import Watch
from perfmon.sources.discovery import LogFile
from perfmon.viewmodel import MonitorState, TimeRange


class _Feed:
    """Nothing comes of it: the lines are given to the watch directly."""

    caught_up, of_past, behind, player = True, False, 0, None
    hosts = ()
    collectives = None
    specs: tuple[str, ...] = ()

    def __init__(self, now: float) -> None:
        self.now = now

    def clock(self) -> float:
        return self.now

    def through(self, *_given: object) -> Any:
        raise ConnectError("no hosts")

    def copy(self, *_given: object) -> int:
        return 0

    def changed_at(self, _log: LogFile) -> None:
        return None

    async def items(self) -> AsyncIterator[Item]:
        return
        yield

    def finish(self) -> list[tuple[LogFile, Block]]:
        return []

    async def close(self) -> None:
        pass


class HandFed:
    """Logs that are watched from `now` (seconds since 1970) on.

    What the watch does takes no time, however busy the machine is, unless `clock` says otherwise.
    """

    def __init__(self, now: float, clock: Callable[[], float] | None = None) -> None:
        self.feed = _Feed(now)
        self.watch = Watch(self.feed, Config(), 600.0, LogBuffer(), deque(maxlen=20), clock or self.feed.clock)
        self._at: dict[LogFile, tuple[int, int]] = {}

    def lines_of(self, log: LogFile) -> int:
        """How many lines were given of a log."""
        return self._at.get(log, (0, 1))[1] - 1

    def say(self, log: LogFile, line: str) -> None:
        """A log's next line, without its newline."""
        offset, number = self._at.get(log, (0, 1))
        data = f"{line}\n".encode()
        self._at[log] = (offset + len(data), number + 1)
        self.watch.take(log, Block(data, offset, number))

    def look(self, second: int = 1) -> MonitorState:
        """Update from a new picture."""
        self.watch.judge_if_due(self.feed.now)
        return self.watch.picture(TimeRange(), second)
