"""Feeds made of others: pollers, remote machines, recordings, logs with their history."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, suppress

from perfmon.core import MARKS, Block, Notice
from perfmon.sources import ARCHIVES, LogFile, Player
from perfmon.sources.pollers import DiskPaths, Poller, PollRequest, no_disk_paths, pollers_for
from perfmon.sources.remote import Fleet, HostState

from .feeds import Feed, Item, MergedStream, PlayerFeed, ResetMarker, elapsed

# --- What pollers find out on this machine, beside the logs that are watched, as what a monitor reads ---

_PATIENCE_S, _LOOK_S = 2.0, 0.1
"""The history of logs is read first: so long at most is waited for it."""


class PollingFeed:
    """Logs, if there are any, and pollers of this machine."""

    def __init__(self, beside: Feed | None, asked: Sequence[PollRequest], places: DiskPaths = no_disk_paths) -> None:
        self._beside, self._asked, self._places = beside, tuple(dict.fromkeys(asked)), places
        self._merging = MergedStream()
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
        from perfmon.sources.pollers import LocalMachine, PollScheduler

        machine = LocalMachine()
        pollers: list[Poller] = []
        for asked in self._asked:
            pollers += pollers_for(machine, asked, self._places)
        await PollScheduler(machine, pollers, self._emit).run()

    @property
    def _calm(self) -> bool:
        return self._beside is None or self._beside.caught_up

    async def _emit(self, items: list[tuple[LogFile, Block | Notice]]) -> None:
        for item in items:
            await self._merging.put(item)


# --- Logs on other machines, beside logs on this one, as what a monitor reads ---


class RemoteFeed:
    """What hosts print that are connected already; closed with them."""

    def __init__(self, fleet: Fleet, beside: Feed | None = None) -> None:
        self._fleet, self._beside = fleet, beside
        self._merging = MergedStream()
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


# --- A recording that is played: what was there when it began is no more waited for than it was then ---


class RecordingFeed(PlayerFeed):
    """Heeds the marks of `marked.HistoryTaggedFeed`; a recording without them is played as if all of it had been
    live.
    """

    def __init__(self, player: Player) -> None:
        super().__init__(player)
        self._begin()

    def _begin(self) -> None:
        self._loading, self._marked = True, False
        self._written: dict[str, float] = {}
        self._present_s = 0.0

    async def items(self) -> AsyncIterator[Item]:
        """What is played, without the marks."""
        async for log, item in super().items():
            if isinstance(item, ResetMarker):
                self._begin()
            elif isinstance(item, Notice) and item.kind in MARKS:
                self._heed(log, item)
                continue
            elif not self._marked:
                self._loading = False
            yield log, item

    def _heed(self, log: LogFile, mark: Notice) -> None:
        self._marked, self._loading = True, mark.kind != "present"
        self._present_s = self._player.last_item_s(log) or 0.0
        if mark.kind == "written":
            with suppress(ValueError):
                self._written[log.name] = float(mark.text)

    @property
    def caught_up(self) -> bool:
        """A seek is over, and so is what was there already."""
        return super().caught_up and (not self._loading or self._player.ended)

    @property
    def of_past(self) -> bool:
        """It was there when the recording began."""
        return self._loading

    def changed_at(self, log: LogFile) -> float | None:
        """When it was written to last, perhaps before the recording began."""
        written, told_s = self._written.get(log.name), self._player.last_item_s(log)
        if written is None or (told_s is not None and told_s > self._present_s):
            return super().changed_at(log)
        return written


# --- Says which of what comes of logs was there before: whoever plays a recording is to know what nobody waited for ---
#
# The marks are notices: "history" before the first item; and once all that was there has been read, for each log
# "written", with the seconds since 1970 at which its file was written to last, then "present".

_MARKED_LOOK_S = 0.1


class HistoryTaggedFeed:
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
                    await asyncio.wait((coming,), timeout=_MARKED_LOOK_S)
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
