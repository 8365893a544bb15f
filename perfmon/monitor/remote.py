"""Logs on other machines, beside logs on this one, as what a monitor reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing

from perfmon.sources.files import LogFile
from perfmon.sources.remote.fleet import Fleet
from perfmon.sources.remote.states import HostState
from perfmon.sources.replay import Player

from .feeds import Feed, Item, elapsed
from .merging import Merging


class RemoteFeed:
    """What hosts print that are connected already; closed with them."""

    def __init__(self, fleet: Fleet, beside: Feed | None = None) -> None:
        self._fleet, self._beside = fleet, beside
        self._merging = Merging()
        self._caught_up = False
        self._began = time.time() - elapsed()

    async def items(self) -> AsyncIterator[Item]:
        """Everything that is there, then what comes."""
        self._fleet.follow()
        streams = [self._fleet.items(), *([] if self._beside is None else [self._beside.items()])]
        async with aclosing(self._merging.items(streams)) as items:
            async for item in items:
                yield item

    async def close(self) -> None:
        """Ends all connections."""
        await asyncio.to_thread(self._fleet.close)
        if self._beside is not None:
            await self._beside.close()

    def clock(self) -> float:
        """Seconds since 1970, here, as it was when it began: a clock that is set later does not move it."""
        return self._began + elapsed()

    @property
    def hosts(self) -> tuple[HostState, ...]:
        """What becomes of the hosts."""
        return self._fleet.states

    @property
    def caught_up(self) -> bool:
        """The history was read, of all hosts that answer, and handed over."""
        if not self._caught_up:
            read = self._fleet.caught_up and (self._beside is None or self._beside.caught_up)
            self._caught_up = read and self._merging.idle
        return self._caught_up

    @property
    def of_past(self) -> bool:
        """The history is being read."""
        return not self.caught_up

    @property
    def behind(self) -> int:
        """Bytes of the history that are left."""
        return self._fleet.behind + (0 if self._beside is None else self._beside.behind)

    def changed_at(self, log: LogFile) -> float | None:
        """When a log was written to last, by the clock of this machine."""
        for host in self._fleet.hosts:
            tail = host.logs.tails.get(log.member or "")
            if tail is not None and tail.log.path == log.path and tail.changed_s is not None:
                clock = host.clock.offset
                return tail.changed_s - (0.0 if clock is None else clock.seconds)
        return None if self._beside is None else self._beside.changed_at(log)

    @property
    def player(self) -> Player | None:
        """Time goes by itself."""
        return None
