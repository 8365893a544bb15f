"""What `/proc` says of a host, read here or printed by one command there, as counters and levels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from glob import glob

_FILES = (
    "/proc/stat", "/proc/meminfo", "/proc/loadavg", "/proc/net/dev",
    "/proc/pressure/cpu", "/proc/pressure/memory", "/proc/pressure/io",
)  # fmt: skip
_SPEEDS = "/sys/class/net/*/speed"
_WANTED = r"^(cpu|MemT|MemA|MemF|Buff|Cached|SwapT|SwapF|some|-?[0-9])|: *[0-9]+ +[0-9]"
SCRIPT = f"grep -sE '{_WANTED}' {' '.join(_FILES)} {_SPEEDS}"
"""Prints `FILE:LINE` for all that is read: one process a round."""
_MEMORY = frozenset(("MemTotal", "MemAvailable", "MemFree", "Buffers", "Cached", "SwapTotal", "SwapFree"))
_SHORT = {"cpu": "cpu", "memory": "mem", "io": "io"}
_AVERAGE = re.compile(r"\bavg10=(\d+(?:\.\d+)?)")
_PARTS = 8
"""user nice system idle iowait irq softirq steal; time of guests is in that of users."""
_IDLE, _WAIT = 3, 4
_MOST_CPUS, _MOST_NICS = 4096, 256
KIB_A_MIB = 1024.0


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Since the machine started, in ticks."""

    busy: float
    iowait: float
    total: float


@dataclass(frozen=True, slots=True)
class NicCounts:
    """Since the machine started."""

    rx_bytes: float
    tx_bytes: float
    errors: float
    drops: float


@dataclass(slots=True)
class HostFacts:
    """All of one round; what the machine does not tell is missing."""

    cpus: dict[str, CpuTimes] = field(default_factory=dict)
    """`cpu` is all of them together."""
    levels: dict[str, float] = field(default_factory=dict)
    """load1 mem_used_mb mem_total_mb swap_used_mb psi_cpu_pct psi_mem_pct psi_io_pct."""
    nics: dict[str, NicCounts] = field(default_factory=dict)
    speeds: dict[str, float] = field(default_factory=dict)
    """MB/s, of interfaces that have a speed."""


def read_here() -> HostFacts:
    """The facts of this machine. Raises OSError where it has no `/proc`."""
    return facts_of(_lines_here())


def facts_of(lines: Iterator[tuple[str, str]]) -> HostFacts:
    """Reads (file, line) pairs."""
    facts, memory = HostFacts(), dict[str, float]()
    for path, line in lines:
        if path == "/proc/stat":
            _cpu(line, facts)
        elif path == "/proc/meminfo":
            _memory(line, memory)
        elif path == "/proc/net/dev":
            _nic(line, facts)
        elif path.startswith("/proc/pressure/"):
            average = _AVERAGE.search(line) if line.startswith("some ") else None
            if average is not None:
                facts.levels[f"psi_{_SHORT.get(path[15:], 'other')}_pct"] = float(average[1])
        elif path == "/proc/loadavg":
            load = _numbers(line.split()[:1])
            facts.levels.update({"load1": load[0]} if load else {})
        elif path.endswith("/speed"):
            _speed(path, line, facts)
    facts.levels.update(_memory_levels(memory))
    return facts


def printed(text: str) -> Iterator[tuple[str, str]]:
    """What `SCRIPT` printed."""
    for line in text.split("\n"):
        path, found, rest = line.partition(":")
        if found:
            yield path, rest


def _lines_here() -> Iterator[tuple[str, str]]:
    for path in (*_FILES, *glob(_SPEEDS)):
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                text = file.read()
        except OSError:
            if path == _FILES[0]:
                raise
            continue  # a kernel without pressure, an interface without a speed
        for line in text.split("\n"):
            yield path, line


def _cpu(line: str, facts: HostFacts) -> None:
    name, *rest = line.split()[: _PARTS + 1] or [""]
    if not name.startswith("cpu") or len(facts.cpus) > _MOST_CPUS:
        return
    parts = _numbers(rest)
    if len(parts) > _WAIT:
        total = sum(parts)
        facts.cpus[name] = CpuTimes(total - parts[_IDLE] - parts[_WAIT], parts[_WAIT], total)


def _memory(line: str, memory: dict[str, float]) -> None:
    key, _, rest = line.partition(":")
    value = _numbers(rest.split()[:1]) if key in _MEMORY else None
    if value:
        memory[key] = value[0] / KIB_A_MIB


def _memory_levels(memory: Mapping[str, float]) -> dict[str, float]:
    levels: dict[str, float] = {}
    total = memory.get("MemTotal")
    left = memory.get("MemAvailable")
    if left is None and "MemFree" in memory:  # kernels before 3.14
        left = memory["MemFree"] + memory.get("Buffers", 0.0) + memory.get("Cached", 0.0)
    if total and left is not None:
        levels["mem_used_mb"], levels["mem_total_mb"] = max(0.0, total - left), total
    if memory.get("SwapTotal"):
        levels["swap_used_mb"] = max(0.0, memory["SwapTotal"] - memory.get("SwapFree", 0.0))
    return levels


def _nic(line: str, facts: HostFacts) -> None:
    name, found, rest = line.partition(":")
    counts = _numbers(rest.split())
    if found and len(counts) >= 12 and len(facts.nics) < _MOST_NICS:
        # Received: bytes packets errs drop fifo frame compressed multicast; sent: bytes packets errs drop ...
        facts.nics[name.strip()] = NicCounts(counts[0], counts[8], counts[2] + counts[10], counts[3] + counts[11])


def _speed(path: str, line: str, facts: HostFacts) -> None:
    speed = _numbers(line.split()[:1])
    if speed and 0 < speed[0] < 1e7:  # -1 where there is no link
        facts.speeds[path.split("/")[4]] = speed[0] / 8.0


def _numbers(words: list[str]) -> list[float]:
    try:
        return [float(word) for word in words]
    except ValueError:
        return []
