"""Where the blocks of a watched run come from: logs that are followed, a recording, the built-in run."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Protocol

from perfmon.core import Block, Notice
from perfmon.sources import LogFile, Player, Rewound
from perfmon.sources.follow import Follower
from perfmon.sources.remote import HostState

_NO_LOG = LogFile("", Path())


def elapsed() -> float:
    """Seconds that nobody sets; while the machine sleeps they go on where the system counts that."""
    if sys.platform.startswith("linux"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class ResetMarker:
    """What comes next is the run from its beginning again: forget what was read."""


Item = tuple[LogFile, Block | Notice | ResetMarker]


class Feed(Protocol):
    """What a monitor reads."""

    def items(self) -> AsyncIterator[Item]:
        """The blocks and notices of all logs, as they come."""

    async def close(self) -> None:
        """Lets go of everything."""

    def clock(self) -> float:
        """The clock of arrival, in seconds: of the wall, or of a replay."""

    @property
    def caught_up(self) -> bool:
        """All that was there at the start was read."""

    @property
    def of_past(self) -> bool:
        """What comes was printed before anybody watched: when it comes says nothing of when that was."""

    @property
    def behind(self) -> int:
        """Bytes that were there already and are not read yet."""

    def changed_at(self, log: LogFile) -> float | None:
        """When a log that was there already was written to last, by `clock`; None when nobody can say."""

    @property
    def player(self) -> Player | None:
        """What steers a replay; None where time goes by itself."""

    @property
    def hosts(self) -> tuple[HostState, ...]:
        """The machines that are reached over SSH."""


class FollowFeed:
    """Logs on this machine that are followed by name."""

    hosts: tuple[HostState, ...] = ()

    def __init__(self, specs: Sequence[str], *, history: bool = True, polling: bool | None = None) -> None:
        """Raises UsageError for a wrong SPEC."""
        self._follower = Follower(specs, history, polling=polling)
        self._began = time.time() - elapsed()

    def items(self) -> AsyncIterator[Item]:
        """Everything that is there, then what comes."""
        return self._follower.items()

    async def close(self) -> None:
        """Stops watching."""
        self._follower.close()

    def clock(self) -> float:
        """Seconds since 1970, as it was when it began to follow: a clock that is set later does not move it."""
        return self._began + elapsed()

    @property
    def caught_up(self) -> bool:
        """The history was read."""
        return self._follower.caught_up

    @property
    def of_past(self) -> bool:
        """The history is being read."""
        return not self.caught_up

    @property
    def behind(self) -> int:
        """Bytes of the history that are left."""
        return self._follower.behind

    def changed_at(self, log: LogFile) -> float | None:
        """The file's time of modification."""
        return self._follower.changed_at(log)

    @property
    def player(self) -> Player | None:
        """Time goes by itself."""
        return None


class PlayerFeed:
    """A recording, or the built-in run, that is played."""

    hosts: tuple[HostState, ...] = ()

    def __init__(self, player: Player) -> None:
        self._player = player

    async def items(self) -> AsyncIterator[Item]:
        """What is played; `ResetMarker` where it goes back."""
        async for item in self._player:
            yield (_NO_LOG, ResetMarker()) if isinstance(item, Rewound) else item

    async def close(self) -> None:
        """Nothing is held."""

    def clock(self) -> float:
        """Seconds since 1970 as they were, or would have been."""
        player = self._player  # lines that are due together come log by log: never before it was their time
        return player.timeline.start + (player.handed_s if player.seeking else max(player.position_s, player.handed_s))

    @property
    def caught_up(self) -> bool:
        """A seek is over."""
        return not self._player.seeking

    @property
    def of_past(self) -> bool:
        """Each line comes at its time, also on the way to another one."""
        return False

    @property
    def behind(self) -> int:
        """Nobody knows."""
        return 0

    def changed_at(self, log: LogFile) -> float | None:
        """When the last of what was handed over of it came."""
        told_s = self._player.last_item_s(log)
        return None if told_s is None else self._player.timeline.start + told_s

    @property
    def player(self) -> Player | None:
        """What steers it."""
        return self._player


# --- Several streams of items as one ---

_AHEAD = 8


class MergedStream:
    """What comes of streams, and of whoever puts something in, in the order in which it comes."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[Item | None] = asyncio.Queue(_AHEAD)
        self._asked = False

    @property
    def idle(self) -> bool:
        """All that came was taken, and more was asked for."""
        return self._asked and self._ready.empty()

    async def put(self, item: Item) -> None:
        """One more; waits while a few are before it."""
        await self._ready.put(item)

    async def items(
        self, streams: Sequence[AsyncIterator[Item]], *beside: Coroutine[Any, Any, None]
    ) -> AsyncGenerator[Item, None]:
        """Everything, until all streams have ended; what runs beside them is ended then. Without streams: for ever."""
        async with asyncio.TaskGroup() as tasks:
            pumps = [tasks.create_task(self._pump(stream)) for stream in streams]
            others = [tasks.create_task(work) for work in beside]
            try:
                left = len(pumps)
                while left or not pumps:
                    self._asked = True
                    item = await self._ready.get()
                    self._asked = False
                    if item is None:
                        left -= 1
                    else:
                        yield item
            except GeneratorExit:
                pass  # a group of tasks would take it for an error; what runs is ended all the same
            finally:
                for task in (*pumps, *others):
                    task.cancel()

    async def _pump(self, stream: AsyncIterator[Item]) -> None:
        async with aclosing(stream) as items:  # type: ignore[type-var]  # all are generators
            async for item in items:
                await self._ready.put(item)
        await self._ready.put(None)
