"""Logs of NCCL Inspector, followed next to the other logs of a run.

They are far too many lines for a session. Here they become a few lines each second that the rules know, in a log of
their own, and the state that the screen shows.
"""

from __future__ import annotations

import asyncio
import glob
import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from perfmon.core import Block, Notice
from perfmon.nccl import LiveJob
from perfmon.sources import INSPECTOR, LineSplitter, LogFile
from perfmon.viewmodel import CollectivesState

from .composite_feeds import MergedStream, WrappedFeed
from .feeds import Feed, FollowFeed, Item

INSPECTOR_HISTORY = 1 << 20
"""Bytes of each log of NCCL Inspector that are read of what is there already: the state of the last seconds."""
_EVERY_S = 0.5
LOG = LogFile("nccl-inspector", Path("nccl-inspector:/"), "nccl-inspector")
"""The virtual log of what the records show."""
_LOST = ("lost", "capped")


def absent_folders(specs: Sequence[str]) -> list[str]:
    """Those that are not there; a pattern is none."""
    return [spec for spec in specs if not glob.has_magic(spec) and not os.path.exists(os.path.expanduser(spec))]


class InspectorFeed(WrappedFeed):
    """Other logs, if there are any, and those of NCCL Inspector: in folders here, and those that `inner` marks."""

    def __init__(
        self, inner: Feed | None, folders: Sequence[str] = (), *, history: bool = True, polling: bool | None = None
    ) -> None:
        """`inner` gives logs of other hosts with INSPECTOR in place of their compression."""
        super().__init__(inner)
        kept = INSPECTOR_HISTORY if history else False
        self._followed = FollowFeed(folders, history=kept, polling=polling) if folders else None
        self._merged, self._job, self._splitter = MergedStream(), LiveJob(), LineSplitter()
        self._state: CollectivesState = self._job.state(self.clock())
        self._past_told = False
        self._files: dict[LogFile, None] = {}
        """The logs of NCCL Inspector that were read."""
        self._written: float | None = None
        """Time of the last write to the logs that were there at the start, in seconds since 1970."""

    async def items(self) -> AsyncIterator[Item]:
        """Yield the other logs, and the lines that the records give."""
        feeds = [feed for feed in (self._inner, self._followed) if feed is not None]
        streams = [self._others(feed) for feed in feeds]
        async with aclosing(self._merged.items(streams, self._advance())) as items:
            async for item in items:
                yield item

    async def close(self) -> None:
        if self._followed is not None:
            await self._followed.close()
        await super().close()

    def finish(self) -> Sequence[tuple[LogFile, Block | Notice]]:
        return [(log, item) for log, item in super().finish() if log.compression != INSPECTOR]

    @property
    def collectives(self) -> CollectivesState | None:
        """The state as of the last evaluation."""
        return self._state

    @property
    def behind(self) -> int:
        return super().behind + (0 if self._followed is None else self._followed.behind)

    def changed_at(self, log: LogFile) -> float | None:
        return self._written if log == LOG else super().changed_at(log)

    def _last_write(self) -> float | None:
        """Time of the newest record by its own clock, or of the last write to a file where that was before.

        A copy of logs is newer than its records, and the clock of a host may be ahead.
        """
        feeds = [feed for feed in (self._inner, self._followed) if feed is not None]
        times = [feed.changed_at(log) for feed in feeds for log in self._files]
        written, newest = max((at for at in times if at is not None), default=None), self._job.newest
        return written if newest is None else newest if written is None else min(written, newest)

    def _logs_read(self) -> bool:
        return super()._has_caught_up() and (self._followed is None or self._followed.caught_up)

    def _has_caught_up(self) -> bool:
        return self._past_told and self._logs_read() and self._merged.idle

    async def _others(self, feed: Feed) -> AsyncGenerator[Item, None]:
        """Take the records out of a stream."""
        async with aclosing(feed.items()) as items:  # type: ignore[type-var]  # all are generators
            async for log, item in items:
                if feed is not self._followed and log.compression != INSPECTOR:
                    yield log, item
                elif isinstance(item, Block):
                    file = (log.path, log.member)
                    if not self._past_told:
                        self._files[log] = None
                    self._job.feed(file, item.data, self.clock() if self._past_told else None)
                elif isinstance(item, Notice):
                    if item.kind in ("rotated", "truncated"):
                        self._job.restart((log.path, log.member))
                    elif item.kind in _LOST:
                        yield LOG, item

    async def _advance(self) -> None:
        """Evaluate what has come, repeatedly."""
        while True:
            read = self._logs_read()
            lines = self._job.advance(caught_up=read)
            if read and not self._past_told:
                self._written = self._last_write()
            self._state = self._job.state(self.clock(), self._written)
            if self._followed is not None and not self._state.lines:
                self._state = replace(self._state, absent=tuple(absent_folders(self._followed.specs)))
            text = "".join(f"{line}\n" for line in lines).encode()
            for block in self._splitter.feed(text):
                await self._merged.put((LOG, block))
            self._past_told = self._past_told or read
            await asyncio.sleep(_EVERY_S)
