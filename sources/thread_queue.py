"""Blocks handed from one thread's event loop to another's, no more of them at a time than a limit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from perfmon.core import Block, Notice

from .discovery import LogFile

Item = tuple[LogFile, Block | Notice]


class ThreadQueue:
    """Between one loop that puts and one that takes."""

    def __init__(self, limit: int = 32 << 20) -> None:
        self._limit, self._lock = limit, threading.Lock()
        self._items: list[Item] = []
        self._size, self._ended, self._waiting = 0, False, False
        self._error: BaseException | None = None
        self._wake_taker: Callable[[], None] = lambda: None
        self._wake_putter: Callable[[], None] = lambda: None
        self._room: asyncio.Event | None = None

    async def put(self, items: list[Item]) -> None:
        """Hand over items; waits while the other side has more than the limit."""
        if self._room is None:
            self._room = asyncio.Event()
            self._wake_putter = _waker(self._room)
        with self._lock:
            self._items += items
            self._size += sum(len(item.data) for _, item in items if isinstance(item, Block))
            full = self._size > self._limit
            if full:
                self._room.clear()
        self._wake_taker()
        if full:
            await self._room.wait()

    @property
    def idle(self) -> bool:
        """All that was put has been taken, and the other side waits for more."""
        with self._lock:
            return self._waiting and not self._items

    def end(self, error: BaseException | None = None) -> None:
        """Nothing more will come; `error` is raised on the other side."""
        self._error = self._error or error
        self._ended = True
        self._wake_taker()

    async def take(self) -> AsyncIterator[Item]:
        """All items, as they come, until the end."""
        ready = asyncio.Event()
        self._wake_taker = _waker(ready)
        while True:
            ready.clear()
            ended = self._ended
            with self._lock:
                items, self._items, self._size = self._items, [], 0
            self._wake_putter()
            for item in items:
                yield item
            if ended and not items:
                if self._error is not None:
                    raise self._error
                return
            if not items:
                self._waiting = True
                await ready.wait()
                self._waiting = False


def _waker(event: asyncio.Event) -> Callable[[], None]:
    """Set an event of the loop that runs here, from any thread."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop has closed meanwhile
            loop.call_soon_threadsafe(event.set)

    return wake
