"""What computes on the GPUs of this machine: a reading for each process, however many GPUs it is on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from perfmon.text import plain, without_secrets

from ..reading import Area, Reading

_LONGEST = 120
NOBODY: Mapping[int, tuple[str, float | None]] = {}


@dataclass(frozen=True, slots=True)
class Use:
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

    def readings(self, uses: Iterable[Use]) -> list[Reading]:
        """One for each process of this machine."""
        uses = list(uses)
        self._known = {pid: self._known.get(pid) or _looked_up(pid) for pid in {use.pid for use in uses}}
        return readings_of(uses, self._known)


def readings_of(uses: Iterable[Use], known: Mapping[int, tuple[str, float | None]] = NOBODY) -> list[Reading]:
    """One for each process: memory of all its GPUs together, and the mean of its shares of their time."""
    by_pid: dict[int, list[Use]] = {}
    for use in uses:
        by_pid.setdefault(use.pid, []).append(use)
    now = time.time()
    return [_reading(pid, mine, *known.get(pid, ("", None)), now) for pid, mine in sorted(by_pid.items())]


def _reading(pid: int, uses: list[Use], command: str, began: float | None, now: float) -> Reading:
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
    return Reading(Area.PROCESS, str(pid), values, {"gpu": gpus, "command": told_command(command)})


def told_command(command: str) -> str:
    """A command line as it may be shown: without secrets, short."""
    return plain(without_secrets(command), _LONGEST)


def _looked_up(pid: int) -> tuple[str, float | None]:
    """(command line, when it began): unknown of processes of others, and of those beyond a container's walls."""
    import psutil

    try:
        process = psutil.Process(pid)
        return " ".join(process.cmdline()) or process.name(), process.create_time()
    except (psutil.Error, OSError):
        return "", None
