"""Says which of what comes of logs was there before: whoever plays a recording is to know what nobody waited for.

The marks are notices: "history" before the first item; and once all that was there has been read, for each log
"written", with the seconds since 1970 at which its file was written to last, then "present".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing

from perfmon.items import Notice
from perfmon.sources.files import LogFile
from perfmon.sources.kinds import ARCHIVES
from perfmon.sources.remote.states import HostState
from perfmon.sources.replay import Player

from .feeds import Feed, Item

_LOOK_S = 0.1


class MarkedFeed:
    """A feed with those marks; a run without any history has none."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._logs: dict[LogFile, None] = {}

    async def items(self) -> AsyncIterator[Item]:
        """All that comes, and the marks."""
        async with aclosing(self._feed.items()) as items:  # type: ignore[type-var]  # all are generators
            async with aclosing(self._history(items)) as history:
                async for item in history:
                    yield item
            async for item in items:
                yield item

    async def _history(self, items: AsyncIterator[Item]) -> AsyncGenerator[Item, None]:
        """Up to the first item that is none of the history."""
        while True:
            coming = asyncio.ensure_future(anext(items, None))
            try:
                while not (coming.done() or self._feed.caught_up):
                    await asyncio.wait((coming,), timeout=_LOOK_S)
                if self._feed.caught_up:
                    for mark in self._marks():
                        yield mark
                item = await coming
            finally:
                if not coming.done():
                    coming.cancel()
                    await asyncio.gather(coming, return_exceptions=True)
            if item is None:
                return
            if self._feed.caught_up:
                yield item
                return
            if item[0].compression != ARCHIVES:  # else a folder, and no log of the run
                if not self._logs:
                    yield item[0], Notice("", "history")
                self._logs[item[0]] = None
            yield item

    def _marks(self) -> Iterator[Item]:
        """That all was read, once."""
        logs, self._logs = list(self._logs), {}
        for log in logs:
            changed = self._feed.changed_at(log)
            if changed is not None:
                yield log, Notice(repr(changed), "written")
        if logs:
            yield logs[-1], Notice("", "present")

    async def close(self) -> None:
        """Lets go of everything."""
        await self._feed.close()

    def clock(self) -> float:
        """That of the feed."""
        return self._feed.clock()

    @property
    def caught_up(self) -> bool:
        """All that was there at the start was read."""
        return self._feed.caught_up

    @property
    def of_past(self) -> bool:
        """That is being read."""
        return self._feed.of_past

    @property
    def behind(self) -> int:
        """Bytes that were there already and are not read yet."""
        return self._feed.behind

    def changed_at(self, log: LogFile) -> float | None:
        """When a log that was there already was written to last."""
        return self._feed.changed_at(log)

    @property
    def player(self) -> Player | None:
        """What steers a replay."""
        return self._feed.player

    @property
    def hosts(self) -> tuple[HostState, ...]:
        """The machines that are reached over SSH."""
        return self._feed.hosts
