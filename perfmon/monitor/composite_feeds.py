"""What pollers find out on this machine, beside the logs that are watched, as what a monitor reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from perfmon.sources.blocks import Block, Notice
from perfmon.sources.files import LogFile
from perfmon.sources.polls.asked import Asked
from perfmon.sources.polls.poller import Places, Poller, nowhere
from perfmon.sources.polls.registry import pollers_for
from perfmon.sources.replay import Player

from .feeds import Feed, Item, elapsed
from .merging import Merging

if TYPE_CHECKING:
    from perfmon.sources.remote.states import HostState

_PATIENCE_S, _LOOK_S = 2.0, 0.1
"""The history of logs is read first: so long at most is waited for it."""


class PolledFeed:
    """Logs, if there are any, and pollers of this machine."""

    def __init__(self, beside: Feed | None, asked: Sequence[Asked], places: Places = nowhere) -> None:
        self._beside, self._asked, self._places = beside, tuple(dict.fromkeys(asked)), places
        self._merging = Merging()
        self._caught_up = beside is None
        self._began = time.time() - elapsed()

    async def items(self) -> AsyncIterator[Item]:
        """Everything, until the logs have ended."""
        streams = [] if self._beside is None else [self._beside.items()]
        async with aclosing(self._merging.items(streams, self._poll())) as items:
            async for item in items:
                yield item

    async def close(self) -> None:
        """Lets go of the logs."""
        if self._beside is not None:
            await self._beside.close()

    def clock(self) -> float:
        """Seconds since 1970, as those of the logs are."""
        return self._began + elapsed() if self._beside is None else self._beside.clock()

    @property
    def caught_up(self) -> bool:
        """The history was read, and handed over."""
        if not self._caught_up and self._beside is not None:
            self._caught_up = self._beside.caught_up and self._merging.idle
        return self._caught_up

    @property
    def of_past(self) -> bool:
        """The history is being read."""
        return not self.caught_up

    @property
    def behind(self) -> int:
        """Bytes of the history that are left."""
        return 0 if self._beside is None else self._beside.behind

    def changed_at(self, log: LogFile) -> float | None:
        """When a log was written to last."""
        return None if self._beside is None else self._beside.changed_at(log)

    @property
    def player(self) -> Player | None:
        """Time goes by itself."""
        return None

    @property
    def hosts(self) -> tuple[HostState, ...]:
        """Those of the logs."""
        return () if self._beside is None else self._beside.hosts

    async def _poll(self) -> None:
        began = time.monotonic()
        while not self._calm and time.monotonic() - began < _PATIENCE_S:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(_LOOK_S)
        from perfmon.sources.polls.machines import HereMachine
        from perfmon.sources.polls.pacing import Pacing

        machine = HereMachine()
        pollers: list[Poller] = []
        for asked in self._asked:
            pollers += pollers_for(machine, asked, self._places)
        await Pacing(machine, pollers, self._emit).run()

    @property
    def _calm(self) -> bool:
        return self._beside is None or self._beside.caught_up

    async def _emit(self, items: list[tuple[LogFile, Block | Notice]]) -> None:
        for item in items:
            await self._merging.put(item)
