"""What TRL generates with: a vLLM server with its metrics, or `trl vllm-serve`, which only says that it is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...remote.http import ReplyError, Url, get
from ..pages.endpoint import TIMEOUT_S, Endpoint
from ..pages.poller import PagePoller
from ..poller import Machine, PollError
from ..reading import Area, Reading
from .dialects import load_dialect
from .server import EnginePoller

HEALTH = "/health/"
"""`trl vllm-serve` has this and no metrics (read in trl/scripts/vllm_serve.py)."""
_AGAIN = 12
"""Polls after which a server that had no metrics is asked for them again: it may have been replaced."""


class TrlPoller(PagePoller):
    """Asks for metrics; where there are none, how long the server takes to say that it is well."""

    def __init__(self, machine: Machine, endpoint: Endpoint, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(machine, endpoint, clock)
        self._engines = EnginePoller(machine, endpoint, replace(load_dialect("vllm"), kind="trl"), clock)
        self._without = 0

    async def poll(self) -> Sequence[Reading]:
        """Asks once."""
        if self._without:
            self._without -= 1
            return [await self._health(None)]
        try:
            return await self._engines.poll()
        except PollError as error:
            reading = await self._health(error)
            self._without = _AGAIN
            return [reading]

    async def _health(self, error: PollError | None) -> Reading:
        asked = self._endpoint.url
        url = Url(asked.scheme, asked.host, asked.port, HEALTH)
        try:
            reply = await get(self._machine.opener, url, timeout_s=TIMEOUT_S)
        except ReplyError as why:
            raise error or self._endpoint.trouble(str(why)) from None
        if reply.status != 200:
            raise error or self._endpoint.trouble(f"{HEALTH} answered {reply.status}")
        words = {"kind": "trl", "state": "ok"}
        return Reading(Area.QUEUE, self._endpoint.short, {"health_ms": round(1e3 * reply.took_s, 1)}, words)
