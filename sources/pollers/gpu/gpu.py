"""GPUs: the poller, which looks for a way to them, and what all ways share: visible devices, processes, throttling."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

from perfmon.core import evidence_text

from ...shell import Shell
from ..reading import Area, Machine, NotAvailableError, Poller, Reading

# --- Which GPUs a run was given: CUDA_VISIBLE_DEVICES, and what Slurm states ---

VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
"""The first that is set counts: what a process sees is narrower than its step, and that than its job."""
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")
_NAMED = ("GPU-", "MIG-")


@dataclass(frozen=True, slots=True)
class VisibleDevices:
    """The GPUs that a run was given: indices, or prefixes of UUIDs."""

    indices: frozenset[str]
    uuids: tuple[str, ...]
    local: bool
    """Indices count the GPUs that the process can see; else those of the machine."""

    def mark(self, reading: Reading, seen: int = 0) -> Reading:
        """Return the reading of a GPU with the word `mine`; `seen` GPUs are there."""
        word = self.word(reading.name, reading.words.get("uuid", ""), "", seen)
        return replace(reading, words={**reading.words, "mine": word})

    def word(self, index: str, uuid: str, parent: str = "", seen: int = 0) -> str:
        """`yes` or `no` for a GPU, or an instance `parent` of which is the GPU's UUID, where `seen` are there."""
        if not self.local and self.indices and seen == len(self.indices):
            return "yes"  # the others are fenced off, and these are numbered from 0
        whole = index.partition(":")[0]
        names = (uuid, parent, f"MIG-{parent}")
        named = any(name and name.startswith(wanted) for name in names for wanted in self.uuids)
        return "yes" if named or index in self.indices or whole in self.indices else "no"


def visible_devices(environment: Mapping[str, str]) -> VisibleDevices | None:
    """Read the environment; None if no GPUs are assigned there."""
    for name in VARIABLES:
        if name in environment and (environment[name].strip() or not name.startswith("SLURM")):
            return _read(environment[name], local=not name.startswith("SLURM"))
    return None


def _read(text: str, *, local: bool) -> VisibleDevices:
    indices: set[str] = set()
    uuids: list[str] = []
    for part in re.split(r"[,\s]+", text.strip()):
        if part.startswith(_NAMED):
            uuids.append(_uuid(part))
        elif match := _RANGE.fullmatch(part):
            low, high = int(match[1]), int(match[2] or match[1])
            indices.update(map(str, range(low, high + 1)))
        else:
            break  # CUDA looks at nothing behind what it cannot read: `-1` hides all
    return VisibleDevices(frozenset(indices), tuple(uuids), local)


def _uuid(part: str) -> str:
    """`MIG-GPU-<uuid>/1/0`, as older drivers name an instance, is one of the GPU with that UUID."""
    return part.partition("/")[0]


# --- What computes on the GPUs of this machine: a reading for each process, however many GPUs it is on ---

_LONGEST = 120
NOBODY: Mapping[int, tuple[str, float | None]] = {}


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """One process on one GPU."""

    pid: int
    gpu: str
    mem_mb: float | None
    util_pct: float | None
    """Of the GPU's time."""
    command: str = ""


class Processes:
    """Remembers the command lines of processes: they are read once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, float | None]] = {}

    def readings(self, uses: Iterable[GpuProcess]) -> list[Reading]:
        """One for each process of this machine."""
        uses = list(uses)
        self._known = {pid: self._known.get(pid) or _looked_up(pid) for pid in {use.pid for use in uses}}
        return readings_of(uses, self._known)


def readings_of(uses: Iterable[GpuProcess], known: Mapping[int, tuple[str, float | None]] = NOBODY) -> list[Reading]:
    """One for each process: memory of all its GPUs together, and the mean of its shares of their time."""
    by_pid: dict[int, list[GpuProcess]] = {}
    for use in uses:
        by_pid.setdefault(use.pid, []).append(use)
    now = time.time()
    return [_reading(pid, used, *known.get(pid, ("", None)), now) for pid, used in sorted(by_pid.items())]


def _reading(pid: int, uses: list[GpuProcess], command: str, began: float | None, now: float) -> Reading:
    memory = [use.mem_mb for use in uses if use.mem_mb is not None]
    shares = [use.util_pct for use in uses if use.util_pct is not None]
    values = {}
    if memory:
        values["gpu_mem_mb"] = sum(memory)
    if shares:
        values["gpu_util_pct"] = sum(shares) / len(shares)
    if began is not None:
        values["uptime_s"] = float(round(max(0.0, now - began)))
    gpus = "+".join(sorted({use.gpu for use in uses}, key=lambda gpu: (len(gpu), gpu)))
    command = command or next((use.command for use in uses if use.command), "")
    return Reading(Area.PROCESS, str(pid), values, {"gpu": gpus, "command": display_command(command)})


def display_command(command: str) -> str:
    """A command line as it may be shown: without secrets, short."""
    return evidence_text(command, _LONGEST)


def _looked_up(pid: int) -> tuple[str, float | None]:
    """(command line, when it began): unknown of processes of others, and of those beyond a container's walls."""
    import psutil

    try:
        process = psutil.Process(pid)
        return " ".join(process.cmdline()) or process.name(), process.create_time()
    except (psutil.Error, OSError):
        return "", None


# --- Why a GPU's clocks are lower than they could be: the driver's bits and AMD's flags, in words ---

BUSY_PCT = 20.0
"""A GPU that does less is not held back by its clocks."""
_IDLE = 0x1
_WORDS = (
    (0x80, "power-brake"),  # the power supply, or the rack, pulls the brake
    (0x40, "hw-thermal"),
    (0x20, "sw-thermal"),
    (0x08, "hw-slowdown"),
    (0x04, "power-cap"),
    (0x10, "sync-boost"),
    (0x02, "app-clocks"),  # set by a user
    (0x100, "display-clocks"),
)
"""Bits of nvmlClocksEventReasons (nvml.h), the gravest first. Bit 1, idle, is no throttling."""
_PRECISE = frozenset({"power-brake", "hw-thermal"})
HOLDS_BACK = frozenset({"power-brake", "hw-thermal", "sw-thermal", "hw-slowdown", "power-cap"})
"""Power, heat and hardware: not set by the user."""


def reasons(mask: int) -> tuple[str, ...]:
    """The words of a mask; `hw-slowdown` only where no other bit states what the hardware slows down for."""
    found = [word for bit, word in _WORDS if mask & bit]
    if _PRECISE.intersection(found):
        found = [word for word in found if word != "hw-slowdown"]
    return tuple(found)


def throttled(words: Iterable[str], util_pct: float | None) -> float:
    """1 where power, heat or hardware hold back a GPU that works, else 0."""
    busy = util_pct is None or util_pct >= BUSY_PCT
    return float(busy and not HOLDS_BACK.isdisjoint(words))


def read_mask(text: str) -> int | None:
    """The number in `0x0000000000000004`; None for `N/A`, `Not Active` and the like."""
    try:
        return int(text, 16) if text.lower().startswith("0x") else int(text)
    except ValueError:
        return None


def gpu_reading(
    index: str, figures: Mapping[str, float | None], words: Mapping[str, str], mask: int | None = None
) -> Reading:
    """Return the reading of a GPU: without the figures that are None, with the reasons in a mask of the driver."""
    values = {name: float(value) for name, value in figures.items() if value is not None}
    state = "ok" if values else "unsupported"
    why = () if mask is None else reasons(mask)
    if mask is not None:
        util_pct = 0.0 if mask & _IDLE and "util_pct" not in values else values.get("util_pct")
        values["throttled"] = throttled(why, util_pct)
    return Reading(Area.GPU, index, values, {**words, "throttle": "+".join(why), "state": state})


# --- The poller: through NVML on this machine, else through the tools of NVIDIA or AMD, here or over a connection ---

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
