"""What all pollers of a page of metrics are: a name, a pace, and the page as it was read, with the moment of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ..poller import Machine
from .endpoint import Endpoint, off_loop

EVERY_S = 5.0
T = TypeVar("T")


class PagePoller:
    """Asks one page again and again; who asks says what becomes of it."""

    every_s = EVERY_S

    def __init__(self, machine: Machine, endpoint: Endpoint, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives the moments that rates are told by, in seconds."""
        self._machine, self._endpoint, self._clock = machine, endpoint, clock

    @property
    def name(self) -> str:
        """Kind and address: `vllm http://127.0.0.1:8000`."""
        return self._endpoint.shown

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _page(self, read: Callable[[bytes], T]) -> tuple[T, float]:
        """What is read of the page, and when it came. Raises PollError."""
        page = await self._endpoint.fetch(self._machine.opener)
        at = self._clock()
        return await off_loop(page, read), at
