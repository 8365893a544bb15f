"""Feeds made of others: logs with pollers, with remote hosts, with marks of their history."""

from __future__ import annotations

import asyncio
import glob
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from perfmon.core import Block, InputError, Notice, UsageError
from perfmon.nccl import LiveJob
from perfmon.sources import ARCHIVES, INSPECTOR, LineSplitter, LogFile, Player, ThreadQueue, discover
from perfmon.sources.pollers import DiskPaths, Poller, PollRequest, make_pollers, no_disk_paths
from perfmon.sources.remote import Fleet, HostState
from perfmon.viewmodel import CollectivesState

from .feeds import Feed, FollowFeed, Item, ResetMarker, elapsed

if TYPE_CHECKING:
    from perfmon.sources import Opener
    from perfmon.sources.remote import Selection


_T = TypeVar("_T")
_QUEUED_BYTES = 1 << 20
_COPY_S = 20.0
_PATIENCE_S, _CHECK_S = 2.0, 0.1
"""The history of logs is read first: pollers wait for it, but not longer than this."""


class MergedStream:
    """Several streams, and what is put in, as one stream in the order of arrival."""

    def __init__(self) -> None:
        self._queue: ThreadQueue[Item] = ThreadQueue(_QUEUED_BYTES)
        self._pumping = 0
        """Streams that have not ended."""

    @property
    def idle(self) -> bool:
        """True if all that came was taken, and more is waited for."""
        return self._queue.idle

    async def put(self, item: Item) -> None:
        """Add an item; waits while much is before it."""
        await self._queue.put([item])

    def drain(self) -> list[tuple[LogFile, Block | Notice]]:
        """Take all at once that is before what the streams give."""
        return [(log, item) for log, item in self._queue.drain() if not isinstance(item, ResetMarker)]

    async def items(
        self, streams: Sequence[AsyncIterator[Item]], *background: Coroutine[Any, Any, None]
    ) -> AsyncGenerator[Item, None]:
        """Yield items until all streams have ended, for ever without streams; `background` is cancelled at the end."""
        async with asyncio.TaskGroup() as tasks, aclosing(self._queue.take()) as items:
            self._pumping = len(streams)
            pumps = [tasks.create_task(self._pump(stream)) for stream in streams]
            others = [tasks.create_task(work) for work in background]
            try:
                async for item in items:
                    yield item
            except GeneratorExit:
                pass  # a task group would take it for an error; the tasks are cancelled in any case
            finally:
                for task in (*pumps, *others):
                    task.cancel()

    async def _pump(self, stream: AsyncIterator[Item]) -> None:
        async with aclosing(stream) as items:  # type: ignore[type-var]  # all are generators
            async for item in items:
                await self.put(item)
        self._pumping -= 1
        if not self._pumping:
            self._queue.end()


class WrappedFeed(Feed):
    """A feed around another one, if there is one."""

    def __init__(self, inner: Feed | None) -> None:
        self._inner = inner
        self._started = time.time() - elapsed()
        self._caught_up = False

    async def close(self) -> None:
        if self._inner is not None:
            await self._inner.close()

    def finish(self) -> Sequence[tuple[LogFile, Block | Notice]]:
        return () if self._inner is None else self._inner.finish()

    def clock(self) -> float:
        return self._started + elapsed() if self._inner is None else self._inner.clock()

    @property
    def caught_up(self) -> bool:
        self._caught_up = self._caught_up or self._has_caught_up()
        return self._caught_up

    def _has_caught_up(self) -> bool:
        return self._inner is None or self._inner.caught_up

    @property
    def behind(self) -> int:
        return 0 if self._inner is None else self._inner.behind

    def changed_at(self, log: LogFile) -> float | None:
        return None if self._inner is None else self._inner.changed_at(log)

    @property
    def hosts(self) -> tuple[HostState, ...]:
        return () if self._inner is None else self._inner.hosts

    @property
    def collectives(self) -> CollectivesState | None:
        return None if self._inner is None else self._inner.collectives

    @property
    def specs(self) -> tuple[str, ...]:
        return () if self._inner is None else self._inner.specs

    def through(self, host: str, work: Callable[[Opener], Coroutine[Any, Any, _T]]) -> _T:
        return super().through(host, work) if self._inner is None else self._inner.through(host, work)

    def copy(self, own: Path, shared: Path, selection: Selection) -> int:
        return 0 if self._inner is None else self._inner.copy(own, shared, selection)


class PollingFeed(WrappedFeed):
    """Logs, if there are any, and pollers of this machine."""

    def __init__(self, logs: Feed | None, requests: Sequence[PollRequest], places: DiskPaths = no_disk_paths) -> None:
        super().__init__(logs)
        self._requests, self._places = tuple(dict.fromkeys(requests)), places
        self._merged = MergedStream()

    async def items(self) -> AsyncIterator[Item]:
        """Yield everything until the logs have ended."""
        streams = [] if self._inner is None else [self._inner.items()]
        async with aclosing(self._merged.items(streams, self._poll())) as items:
            async for item in items:
                yield item

    def _has_caught_up(self) -> bool:
        return self._inner is None or (self._inner.caught_up and self._merged.idle)

    def finish(self) -> Sequence[tuple[LogFile, Block | Notice]]:
        return (*self._merged.drain(), *super().finish())

    async def _poll(self) -> None:
        started = time.monotonic()
        while self._inner is not None and not self._inner.caught_up:
            if time.monotonic() - started >= _PATIENCE_S:
                break
            await asyncio.sleep(_CHECK_S)
        from perfmon.sources.pollers import LocalMachine, PollScheduler

        machine = LocalMachine()
        pollers: list[Poller] = []
        for request in self._requests:
            pollers += make_pollers(machine, request, self._places)
        await PollScheduler(machine, pollers, self._emit).run()

    async def _emit(self, items: list[tuple[LogFile, Block | Notice]]) -> None:
        for item in items:
            await self._merged.put(item)


class RemoteFeed(WrappedFeed):
    """Logs and pollers of hosts that are connected already, and local ones; connections end with it."""

    def __init__(self, fleet: Fleet, local: Feed | None = None) -> None:
        super().__init__(local)
        self._fleet, self._merged = fleet, MergedStream()

    async def items(self) -> AsyncIterator[Item]:
        """Yield what is there, then what comes."""
        self._fleet.follow()
        streams = [self._fleet.items(), *([] if self._inner is None else [self._inner.items()])]
        async with aclosing(self._merged.items(streams)) as items:
            async for item in items:
                yield item

    async def close(self) -> None:
        await asyncio.to_thread(self._fleet.close)
        await super().close()

    def finish(self) -> Sequence[tuple[LogFile, Block | Notice]]:
        return (*self._merged.drain(), *self._fleet.finish(), *super().finish())

    @property
    def hosts(self) -> tuple[HostState, ...]:
        return self._fleet.states

    def through(self, host: str, work: Callable[[Opener], Coroutine[Any, Any, _T]]) -> _T:
        return self._fleet.through(host, work)

    def copy(self, own: Path, shared: Path, selection: Selection) -> int:
        from perfmon.sources.remote import copy_selected

        copying = self._fleet.call(copy_selected(self._fleet.hosts, own, shared, selection))
        try:
            return copying.result(_COPY_S)
        except TimeoutError:  # what is here stays; the next look continues
            copying.cancel()
            return 0

    def _has_caught_up(self) -> bool:
        """True once the history of all hosts that answer was read and taken."""
        return self._fleet.caught_up and super()._has_caught_up() and self._merged.idle

    @property
    def behind(self) -> int:
        return self._fleet.behind + super().behind

    def changed_at(self, log: LogFile) -> float | None:
        """Return the time of the last write to a log, by the clock of this machine."""
        for host in self._fleet.hosts:
            tail = host.logs.tails.get(log.member or "")
            if tail is not None and tail.log.path == log.path and tail.changed_s is not None:
                clock = host.clock.offset
                return tail.changed_s - (0.0 if clock is None else clock.seconds)
        return super().changed_at(log)


class HistoryTaggedFeed(WrappedFeed):
    """A feed whose history is marked, so that a recording of it can be played as it was; without history no marks.

    The marks are notices: "history" before the first item; and once all that was there has been read, for each log
    "written", with the seconds since 1970 at which its file was written to last, then "present".
    """

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed)
        self._feed = feed
        self._logs: dict[LogFile, None] = {}

    async def items(self) -> AsyncIterator[Item]:
        """Yield everything, and the marks."""
        async with aclosing(self._feed.items()) as items:  # type: ignore[type-var]  # all are generators
            async with aclosing(self._history(items)) as history:
                async for item in history:
                    yield item
            async for item in items:
                yield item

    async def _history(self, items: AsyncIterator[Item]) -> AsyncGenerator[Item, None]:
        """Yield the history with its marks, and the first item after it."""
        while True:
            following = asyncio.ensure_future(anext(items, None))
            try:
                while not (following.done() or self._feed.caught_up):
                    await asyncio.wait((following,), timeout=_CHECK_S)
                if self._feed.caught_up:
                    for mark in self._marks():
                        yield mark
                item = await following
            finally:
                if not following.done():
                    following.cancel()
                    await asyncio.gather(following, return_exceptions=True)
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
        """Yield the marks of the end of the history, once."""
        logs, self._logs = list(self._logs), {}
        for log in logs:
            changed = self._feed.changed_at(log)
            if changed is not None:
                yield log, Notice(repr(changed), "written")
        if logs:
            yield logs[-1], Notice("", "present")

    @property
    def caught_up(self) -> bool:
        return self._feed.caught_up

    @property
    def of_past(self) -> bool:
        return self._feed.of_past

    @property
    def player(self) -> Player | None:
        return self._feed.player


# --- Logs of NCCL Inspector, followed next to the other logs of a run ---
#
# They are far too many lines for a session. Here they become a few lines each second that the rules know, in a log of
# their own, and the state that the screen shows.

INSPECTOR_HISTORY = 1 << 20
"""Bytes at least of each log of NCCL Inspector that are read of what is there: the state of the last seconds."""
_MOST_HISTORY, _ALL_HISTORY = 16 << 20, 64 << 20
"""The same at most, of one log, and of all of this machine where they are few: a second of reading."""
_EVERY_S = 0.5
LOG = LogFile("nccl-inspector", Path("nccl-inspector:/"), "nccl-inspector")
"""The virtual log of what the records show."""
_LOST = ("lost", "capped")


def absent_folders(specs: Sequence[str]) -> list[str]:
    """Those that are not there; a pattern is none."""
    return [spec for spec in specs if not glob.has_magic(spec) and not os.path.exists(os.path.expanduser(spec))]


def history_of(folders: Sequence[str]) -> int:
    """Bytes of each log that are read of what is there: of a few logs more, as dumps of a busy job may be dense."""
    try:
        count = len(discover(folders))
    except (UsageError, InputError):
        count = 0
    return max(INSPECTOR_HISTORY, min(_MOST_HISTORY, _ALL_HISTORY // max(1, count)))


class InspectorFeed(WrappedFeed):
    """Other logs, if there are any, and those of NCCL Inspector: in folders here, and those that `inner` marks."""

    def __init__(
        self, inner: Feed | None, folders: Sequence[str] = (), *, history: bool = True, polling: bool | None = None
    ) -> None:
        """`inner` gives logs of other hosts with INSPECTOR in place of their compression."""
        super().__init__(inner)
        kept = history_of(folders) if history and folders else False
        self._followed = FollowFeed(folders, history=kept, polling=polling) if folders else None
        self._merged, self._job, self._splitter = MergedStream(), LiveJob(), LineSplitter()
        self._state: CollectivesState = self._job.state(self.clock())
        self._past_read = False
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
        ended = [(log, item) for log, item in super().finish() if log.compression != INSPECTOR]
        return [*self._merged.drain(), *ended]

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
        return self._past_read and self._logs_read() and self._merged.idle

    async def _others(self, feed: Feed) -> AsyncGenerator[Item, None]:
        """Take the records out of a stream."""
        async with aclosing(feed.items()) as items:  # type: ignore[type-var]  # all are generators
            async for log, item in items:
                if feed is not self._followed and log.compression != INSPECTOR:
                    yield log, item
                elif isinstance(item, Block):
                    file = (log.path, log.member)
                    if not self._past_read:
                        self._files[log] = None
                    self._job.feed(file, item.data, self.clock() if self._past_read else None)
                elif isinstance(item, Notice):
                    if item.kind in ("rotated", "truncated"):
                        self._job.restart((log.path, log.member))
                    elif item.kind in _LOST:
                        yield LOG, item

    async def _advance(self) -> None:
        """Evaluate what has come, repeatedly."""
        while True:
            read = self._logs_read()
            lines = self._job.advance(caught_up=read, clock=self.clock())
            if read and not self._past_read:
                self._written = self._last_write()
            self._state = self._job.state(self.clock(), self._written)
            if self._followed is not None and not self._state.lines:
                self._state = replace(self._state, absent=tuple(absent_folders(self._followed.specs)))
            text = "".join(f"{line}\n" for line in lines).encode()
            for block in self._splitter.feed(text):
                await self._merged.put((LOG, block))
            self._past_read = self._past_read or read
            await asyncio.sleep(_EVERY_S)
