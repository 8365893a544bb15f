"""Blocks handed from one thread's event loop to another's, no more of them at a time than a limit."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from perfmon.core import Block

from .discovery import LogFile

_Item = TypeVar("_Item", bound=tuple[LogFile, object])
_LEAST = 64
"""Bytes for which an item counts at least."""


class ThreadQueue(Generic[_Item]):
    """Between one loop that puts and one that takes; both may be the same."""

    def __init__(self, limit: int = 32 << 20) -> None:
        """`limit` is in bytes of blocks."""
        self._limit, self._lock = limit, threading.Lock()
        self._items: deque[_Item] = deque()
        self._ended = self._waiting = self._full = False
        self._error: BaseException | None = None
        self._wake_taker: Callable[[], None] = lambda: None
        self._wake_putter: Callable[[], None] = lambda: None
        self._room: asyncio.Event | None = None
        self.size = 0
        """Bytes that wait to be taken."""
        self.put_count = self.done_count = 0
        """Items that were put; of them, those with which the other side has finished."""

    async def put(self, items: Sequence[_Item]) -> None:
        """Hand over items; waits while the other side has more than the limit."""
        if self._room is None:
            self._room = asyncio.Event()
            self._wake_putter = _waker(self._room)
        with self._lock:
            self._items += items
            self.put_count += len(items)
            self.size += sum(map(_size_of, items))
            # It stays full until the other side has woken those that wait, whatever another one puts in the meantime.
            waiting, self._full = self._waiting, self._full or self.size > self._limit
            if self._full:
                self._room.clear()
        if waiting:
            self._wake_taker()
        if self._full:
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

    def drain(self) -> list[_Item]:
        """Take all at once, after the other side has stopped taking."""
        with self._lock:
            items = list(self._items)
            self._items.clear()
            self.size, self._full = 0, False
        self._wake_putter()
        return items

    async def take(self) -> AsyncGenerator[_Item, None]:
        """All items, as they come, until the end."""
        ready = asyncio.Event()
        self._wake_taker = _waker(ready)
        while True:
            ready.clear()
            ended = self._ended
            while (item := self._next()) is not None:
                yield item
                self.done_count += 1
            if ended:
                if self._error is not None:
                    raise self._error
                return
            await ready.wait()
            self._waiting = False

    def _next(self) -> _Item | None:
        """The next item; None where there is none, which is waited for from then on."""
        with self._lock:
            if not self._items:
                self._waiting = True
                return None
            item = self._items.popleft()
            self.size -= _size_of(item)
            wakes = self._full and self.size <= self._limit // 2
            self._full = self._full and not wakes
        if wakes:
            self._wake_putter()
        return item


def _size_of(item: tuple[LogFile, object]) -> int:
    return _LEAST + (len(item[1].data) if isinstance(item[1], Block) else 0)


def _waker(event: asyncio.Event) -> Callable[[], None]:
    """Set an event of the loop that runs here, from any thread."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop has closed in between
            loop.call_soon_threadsafe(event.set)

    return wake
