"""The GPUs of a machine through amd-smi or rocm-smi: programs that take a second to start, so they are asked rarely."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

from perfmon.text import plain, without_secrets

from ...remote.runner import Runner
from ..poller import AbsentError, PollError
from ..reading import Reading
from .amd import amd_models, amd_readings, amd_uses, rocm_readings
from .mine import Mine
from .processes import readings_of
from .smi import PATHS

_ROCM = (
    "rocm-smi --showuse --showmemuse --showpower --showmaxpower --showtemp --showfan --showclocks --showmeminfo vram "
    "--showproductname --showuniqueid --json"
)
_ASK_S = 40.0
_PROCESSES = 3
"""Every so many polls it is asked what runs there."""
_BIG = 1 << 17
"""An answer that is longer is read in a thread."""


class AmdRoad:
    """Asks one of AMD's tools, through a shell on the machine."""

    every_s = 5.0

    def __init__(self, runner: Runner, mine: Mine | None, tool: Literal["amd-smi", "rocm-smi"]) -> None:
        """`runner` is this road's own."""
        self._runner, self._mine, self._tool = runner, mine, tool
        self._models: dict[str, str] | None = None
        self._turn = 0

    async def poll(self) -> Sequence[Reading]:
        """All GPUs, and every few times what runs on them. Raises PollError, AbsentError."""
        found = [self._told(reading) for reading in await self._gpus()]
        if not found and not self._turn:
            raise AbsentError(f"{self._tool} reports no GPU")
        if self._tool == "amd-smi" and self._turn % _PROCESSES == 0:
            found += await self._processes()
        self._turn += 1
        return found

    async def close(self) -> None:
        """Ends the shell."""
        await self._runner.close()

    async def _gpus(self) -> list[Reading]:
        if self._tool == "rocm-smi":
            text = await self._said(_ROCM)
            return await self._read(lambda: rocm_readings(text), text)
        if self._models is None:
            self._models = await self._named()
        models, text = self._models, await self._said("amd-smi metric --json")
        return await self._read(lambda: amd_readings(text, models), text)

    async def _named(self) -> dict[str, str]:
        try:
            return amd_models(await self._said("amd-smi static --asic --json"))
        except ValueError:
            return {}

    async def _processes(self) -> list[Reading]:
        try:
            return readings_of(amd_uses(await self._said("amd-smi process --json")))
        except ValueError:
            return []

    async def _said(self, command: str) -> str:
        return (await self._runner.run(PATHS + command, timeout_s=_ASK_S)).text

    async def _read(self, read: Callable[[], list[Reading]], text: str) -> list[Reading]:
        try:
            return await asyncio.to_thread(read) if len(text) > _BIG else read()
        except ValueError:
            said = plain(without_secrets(next(filter(None, map(str.strip, text.splitlines())), "nothing")), 120)
            raise PollError(f"{self._tool} on {self._runner.name} returned invalid JSON: {said}") from None

    def _told(self, reading: Reading) -> Reading:
        if self._mine is None:
            return reading
        word = self._mine.word(reading.name, reading.words.get("uuid", ""))
        return Reading(reading.area, reading.name, reading.values, {**reading.words, "mine": word})
