"""GPUs: through NVML on this machine, else through the tools of NVIDIA or AMD, here or over a connection."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal

from ...shell import Shell
from ..base import Machine, NotAvailableError, Poller
from ..reading import Reading
from .common import VARIABLES, VisibleDevices, visible_devices

Tool = Literal["nvidia-smi", "amd-smi", "rocm-smi"]
_TOOLS: tuple[Tool, ...] = ("nvidia-smi", "amd-smi", "rocm-smi")
_SET = re.compile(r"env (\w+)=(.*)")
_START_S = 20.0


class GpuPoller:
    """Takes the first backend that leads to GPUs, and keeps to it."""

    name = "gpu"

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._backend: Poller | None = None

    @property
    def every_s(self) -> float:
        """A second; longer where a program has to be started for each question."""
        return 1.0 if self._backend is None else self._backend.every_s

    async def poll(self) -> Sequence[Reading]:
        """All GPUs, and from time to time what runs on them. Raises PollError, NotAvailableError."""
        if self._backend is None:
            return await self._first()
        try:
            return await self._backend.poll()
        except NotAvailableError:
            await self.close()  # the driver was taken away: next time all backends are tried again
            raise

    async def close(self) -> None:
        """Release the driver, or end the program."""
        backend, self._backend = self._backend, None
        if backend is not None:
            await backend.close()

    async def _first(self) -> Sequence[Reading]:
        """The answer of the first backend that gives one; the backend is kept even while it only gives errors."""
        why = ""
        async with aclosing(self._backends()) as backends:
            async for backend in backends:
                self._backend = backend
                try:
                    return await backend.poll()
                except NotAvailableError as error:
                    why = str(error)
                    await self.close()
        reason = f" ({why})" if why else ""
        raise NotAvailableError(f"no GPU on {self._machine.name}{reason}")

    async def _backends(self) -> AsyncGenerator[Poller, None]:
        if self._machine.here:
            from .nvml import NvmlBackend

            yield NvmlBackend()
        found = await self._tools()
        for tool in found.names:
            if tool == "nvidia-smi":
                from .nvidia_smi import NvidiaSmiBackend

                yield NvidiaSmiBackend(self._machine, await self._machine.runner(), found.mine, found.buffered)
            else:
                from .amd import AmdBackend

                yield AmdBackend(await self._machine.runner(), found.mine, tool)

    async def _tools(self) -> Tools:
        runner = await self._machine.runner()
        try:
            return await tools_of(runner)
        finally:
            await runner.close()


@dataclass(frozen=True, slots=True)
class Tools:
    """The GPU tools of a machine."""

    names: tuple[Tool, ...]
    mine: VisibleDevices | None
    """By the environment of a login there, which is rarely that of the run."""
    buffered: str
    """Prefix of a command that makes it print line by line; "" where there is no such thing."""


async def tools_of(runner: Shell) -> Tools:
    """Look for them. Raises RunnerError."""
    from .nvidia_smi import PATHS

    tools = " ".join((*_TOOLS, "stdbuf"))
    script = f"{PATHS}for t in {tools}; do command -v $t >/dev/null 2>&1 && echo $t; done; "
    script += "; ".join(f'[ -n "${{{name}+x}}" ] && printf \'env {name}=%s\\n\' "${name}"' for name in VARIABLES)
    lines = (await runner.run(script, timeout_s=_START_S)).text.splitlines()
    environment = {match[1]: match[2] for line in lines if (match := _SET.fullmatch(line))}
    names = tuple(tool for tool in _TOOLS if tool in lines)
    return Tools(names, visible_devices(environment), "stdbuf -oL " if "stdbuf" in lines else "")
