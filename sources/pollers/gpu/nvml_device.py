"""One GPU or MIG instance through NVML: its readings, and the throughput of its links."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from ..reading import Reading
from .common import gpu_reading

# --- What goes through a GPU's links, out of the driver's counters where it has them ---

_ALL_LINKS = 0xFFFFFFFF
_NVLINK_TX, _NVLINK_RX, _PCIE_TX, _PCIE_RX = 138, 139, 197, 198
_COUNTERS = {
    "nvlink_rx_mb_s": ((_NVLINK_RX, _ALL_LINKS), 1024e-6),
    "nvlink_tx_mb_s": ((_NVLINK_TX, _ALL_LINKS), 1024e-6),
    "pcie_rx_mb_s": ((_PCIE_RX, 0), 1e-6),
    "pcie_tx_mb_s": ((_PCIE_TX, 0), 1e-6),
}
"""Name → (field of nvml.h and its scope, MB of one unit). NVLink counts KiB, PCIe bytes."""
_WIDE = frozenset({2, 3, 4})
"""Types of values with 64 bits: narrower counters of bytes wrap several times within seconds."""
_TX, _RX = 0, 1


class LinkThroughput:
    """MB per second between two looks."""

    def __init__(self, nvml: ModuleType) -> None:
        self._nvml = nvml
        self._before: dict[str, tuple[float, int]] = {}

    def read(self, device: Device) -> Mapping[str, float | None]:
        """By name of the value; None for what the driver does not tell. Blocks for some ms."""
        counted = self._counted(device)
        if "pcie_rx_mb_s" not in self._before:
            # It takes a sample of 20 ms for each: only where there is no counter.
            counted["pcie_rx_mb_s"] = _megabytes(device.ask("nvmlDeviceGetPcieThroughput", _RX))
            counted["pcie_tx_mb_s"] = _megabytes(device.ask("nvmlDeviceGetPcieThroughput", _TX))
        return {
            name: counted.get(name) for name in ("pcie_rx_mb_s", "pcie_tx_mb_s", "nvlink_rx_mb_s", "nvlink_tx_mb_s")
        }

    def _counted(self, device: Device) -> dict[str, float | None]:
        fields = tuple(field for field, _ in _COUNTERS.values())
        answers = device.ask("nvmlDeviceGetFieldValues", fields)
        if answers is None:
            return {}
        now = time.monotonic()
        found: dict[str, float | None] = {}
        for (name, (_, unit)), answer in zip(_COUNTERS.items(), answers, strict=True):
            if answer.nvmlReturn == 0 and answer.valueType in _WIDE:
                found[name] = self._rate(name, int(answer.value.ullVal), unit, now)
        return found

    def _rate(self, name: str, count: int, unit: float, now: float) -> float | None:
        before = self._before.get(name)
        self._before[name] = (now, count)
        if before is None or count < before[1] or now <= before[0]:
            return None
        return unit * (count - before[1]) / (now - before[0])


def _megabytes(kilobytes: float | None) -> float | None:
    return None if kilobytes is None else kilobytes * 1e-3


# --- One GPU, or one MIG instance, asked through NVML: what it answers becomes a reading, what it does not is left out
# ---

MIB = float(1 << 20)
_SM, _MEMORY_CLOCK, _UNCORRECTED, _VOLATILE, _SENSOR = 1, 2, 1, 0, 0
_NOT_SUPPORTED, _NO_FUNCTION = 3, 13
_GONE = frozenset({1, 15, 16})
"""Uninitialized, GPU is lost, reset required: nothing can be had of this handle any more."""


class LostError(Exception):
    """The GPU has fallen off the bus, or wants a reset."""


class Device:
    """A handle, and what is remembered about it. Everything here may block: it is called in a thread."""

    def __init__(self, nvml: ModuleType, handle: Any, name: str) -> None:
        self.name = name
        self.uuid = ""
        self.model = ""
        self.parent = ""
        """UUID of the GPU that a MIG instance is a part of."""
        self.mig = ""
        """`on` for a GPU that is split into instances; for one of these its profile, `1g.10gb`."""
        self.parts: list[Device] = []
        self._nvml, self._handle = nvml, handle
        self._without: set[tuple[object, ...]] = set()
        self._links = LinkThroughput(nvml)
        self._slow: dict[str, float] = {}
        self._since = 0

    def ask(self, function: str, *arguments: object) -> Any:
        """Call a function of NVML; None if the driver or this GPU does not support it. Raises LostError.

        What is not supported is not asked again: each refusal takes the driver's lock, too.
        """
        key = (function, *arguments)
        if key in self._without:
            return None
        try:
            return getattr(self._nvml, function)(self._handle, *arguments)
        except self._nvml.NVMLError as error:
            if error.value in _GONE:
                raise LostError(str(error)) from None
            if error.value in (_NOT_SUPPORTED, _NO_FUNCTION):
                self._without.add(key)
            return None
        except (AttributeError, UnicodeDecodeError):  # a binding older than the function; a name of odd bytes
            self._without.add(key)
            return None

    def introduce(self) -> None:
        """Learns what does not change."""
        self.uuid = str(self.ask("nvmlDeviceGetUUID") or "")
        self.model = str(self.ask("nvmlDeviceGetName") or "")

    def look_closely(self) -> None:
        """Asks what is dear, or changes slowly: every few seconds. Raises LostError."""
        figures = {
            "power_limit_w": _scaled(self.ask("nvmlDeviceGetEnforcedPowerLimit"), 1e-3),
            "temp_c": self._temperature(),
            "fan_pct": self.ask("nvmlDeviceGetFanSpeed"),
            "sm_max_mhz": self.ask("nvmlDeviceGetMaxClockInfo", _SM),
            **self._links.read(self),
            "ecc_errors": self.ask("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE),
            "energy_j": _scaled(self.ask("nvmlDeviceGetTotalEnergyConsumption"), 1e-3),
        }
        self._slow = {name: float(value) for name, value in figures.items() if value is not None}
        mode = self.ask("nvmlDeviceGetMigMode")
        self.mig = "on" if mode and mode[0] else ""
        self.parts = self._found_parts() if self.mig else []

    def _found_parts(self) -> list[Device]:
        """The instances that there are now; those known already stay the same objects."""
        known = {part.uuid: part for part in self.parts}
        found = []
        for at in range(int(self.ask("nvmlDeviceGetMaxMigDeviceCount") or 0)):
            handle = self.ask("nvmlDeviceGetMigDeviceHandleByIndex", at)
            if handle is not None:
                part = Device(self._nvml, handle, f"{self.name}:{at}")
                part.introduce()
                part.parent, part.mig = self.uuid, part.model.rpartition("MIG ")[2]
                found.append(known.get(part.uuid, part))
        return found

    def reading(self, words: Mapping[str, str]) -> Reading:
        """Asks what is cheap, and adds what was seen last of the rest. Raises LostError."""
        use, memory = self.ask("nvmlDeviceGetUtilizationRates"), self._memory()
        figures = {
            "util_pct": None if use is None else use.gpu,
            "mem_util_pct": None if use is None else use.memory,
            "mem_used_mb": None if memory is None else memory.used / MIB,
            "mem_total_mb": None if memory is None else memory.total / MIB,
            "power_w": _scaled(self.ask("nvmlDeviceGetPowerUsage"), 1e-3),
            "sm_mhz": self.ask("nvmlDeviceGetClockInfo", _SM),
            "mem_mhz": self.ask("nvmlDeviceGetClockInfo", _MEMORY_CLOCK),
        }
        reading = gpu_reading(self.name, figures, {**self.identity, "mig": self.mig, **words}, self._mask())
        return replace(reading, values={**reading.values, **self._slow})

    @property
    def identity(self) -> dict[str, str]:
        """Words that hold whether it answers or not."""
        return {"model": self.model, "uuid": self.uuid}

    def processes(self) -> dict[int, tuple[float | None, float | None]]:
        """Pid → (MiB of its memory, % of its time), of what computes on it. Raises LostError."""
        running = self.ask("nvmlDeviceGetComputeRunningProcesses_v3")
        if running is None:
            running = self.ask("nvmlDeviceGetComputeRunningProcesses_v2")
        busy = self._busy() if running else {}
        return {
            int(one.pid): (_scaled(one.usedGpuMemory, 1 / MIB), busy.get(int(one.pid)) if busy else None)
            for one in running or ()
        }

    def _busy(self) -> dict[int, float]:
        """The newest sample of each process since the last time."""
        samples = self.ask("nvmlDeviceGetProcessUtilization", self._since) or ()
        newest = {int(s.pid): s for s in sorted(samples, key=lambda s: s.timeStamp) if s.pid}
        self._since = max((int(s.timeStamp) for s in samples), default=self._since)
        return {pid: float(s.smUtil) for pid, s in newest.items() if s.smUtil <= 100}

    def _memory(self) -> Any:
        """Memory in use, without what the driver reserves if it reports that separately."""
        found = self.ask("nvmlDeviceGetMemoryInfo", self._nvml.nvmlMemory_v2)
        return found if found is not None else self.ask("nvmlDeviceGetMemoryInfo")

    def _temperature(self) -> Any:
        found = self.ask("nvmlDeviceGetTemperatureV", _SENSOR)
        return found if found is not None else self.ask("nvmlDeviceGetTemperature", _SENSOR)

    def _mask(self) -> int | None:
        found = self.ask("nvmlDeviceGetCurrentClocksEventReasons")
        if found is None:
            found = self.ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return None if found is None else int(found)


def _scaled(value: Any, factor: float) -> float | None:
    return None if value is None else float(value) * factor
