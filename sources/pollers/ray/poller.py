"""Asks a Ray cluster's pages of metrics, without joining it: no client, no driver, nothing that Ray would notice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from ...remote.runner import Runner, RunnerError
from ..pages.endpoint import Endpoint, off_loop
from ..pages.openmetrics import Sample, Samples, read_samples
from ..poller import Machine, PollError
from ..reading import Reading
from .discovery import Place, cluster_on, targets_by, targets_in
from .waits import NAMES, RayWaits

EVERY_S = 10.0
"""Ray's own metrics are as old as that."""
_LOOK_EVERY = 6
"""Polls after which it is looked anew where the pages are: nodes come and go."""


class RayPoller:
    """Asks one cluster."""

    every_s = EVERY_S

    def __init__(self, machine: Machine, place: Place, clock: Callable[[], float] = time.monotonic) -> None:
        self._machine, self._place, self._clock = machine, place, clock
        self._waits = RayWaits()
        self._targets: list[str] = []
        self._polls = 0
        self._runner: Runner | None = None

    @property
    def name(self) -> str:
        """`ray`, and where."""
        where = self._place.url.shown if self._place.url is not None else self._place.folder
        return f"ray {where}".rstrip()

    async def poll(self) -> Sequence[Reading]:
        """Readings of queues, datasets and the object store. Raises PollError when no page answers."""
        if not self._targets or self._polls % _LOOK_EVERY == 0:
            self._targets = await self._look()
        self._polls += 1
        pages = await asyncio.gather(*(self._page(target) for target in self._targets), return_exceptions=True)
        troubles = [page for page in pages if isinstance(page, BaseException)]
        if len(troubles) == len(pages):
            self._targets = []
            raise troubles[0]
        samples = [sample for page in pages if not isinstance(page, BaseException) for sample in page]
        if not samples:
            where, self._targets = self._targets[0], []
            raise PollError(f"{self.name}: no Ray metrics on {where} yet")
        return self._waits.take(samples, self._clock())

    async def close(self) -> None:
        """Ends its shell."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.close()

    async def _look(self) -> list[str]:
        if self._place.url is not None:
            return await targets_by(self._machine.opener, self._place.url)
        if self._runner is None or self._runner.closed:
            self._runner = await self._machine.runner()
        try:
            folder = self._place.folder or (await cluster_on(self._runner)).folder
            return await targets_in(self._runner, folder)
        except RunnerError as error:
            with suppress(RunnerError):
                await self.close()
            raise PollError(f"ray: {error}") from None

    async def _page(self, target: str) -> Sequence[Sample]:
        page = await Endpoint.parse("ray", f"http://{target}").fetch(self._machine.opener)
        return (await off_loop(page, _read)).told


def _read(page: bytes) -> Samples:
    return read_samples(page, NAMES)
