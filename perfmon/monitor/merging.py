"""Several streams of items as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

from .feeds import Item

_AHEAD = 8


class Merging:
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
