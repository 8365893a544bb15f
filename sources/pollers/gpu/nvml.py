"""NVIDIA GPUs of this machine through NVML: each GPU or MIG instance, read in a thread of its own."""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import Any, Generic, TypeVar

from ..reading import Area, NotAvailableError, PollError, Reading
from .gpu import GpuProcess, Processes, gpu_reading, visible_devices

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
        """By name of the value; None for what the driver does not report. Blocks for some ms."""
        counted = self._counted(device)
        if "pcie_rx_mb_s" not in self._before:
            # It takes a sample of 20 ms for each: only where there is no counter.
            counted["pcie_rx_mb_s"] = _megabytes(device.query("nvmlDeviceGetPcieThroughput", _RX))
            counted["pcie_tx_mb_s"] = _megabytes(device.query("nvmlDeviceGetPcieThroughput", _TX))
        return {
            name: counted.get(name) for name in ("pcie_rx_mb_s", "pcie_tx_mb_s", "nvlink_rx_mb_s", "nvlink_tx_mb_s")
        }

    def _counted(self, device: Device) -> dict[str, float | None]:
        fields = tuple(field for field, _ in _COUNTERS.values())
        answers = device.query("nvmlDeviceGetFieldValues", fields)
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


# --- One GPU, or one MIG instance: unsupported values are left out of its reading ---

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

    def query(self, function: str, *arguments: object) -> Any:
        """Call a function of NVML; None if the driver or this GPU does not support it. Raises LostError.

        An unsupported function is not called again: each refusal takes the driver's lock, too.
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
        except (AttributeError, UnicodeDecodeError):  # a binding older than the function; a malformed name
            self._without.add(key)
            return None

    def introduce(self) -> None:
        """Learn what does not change."""
        self.uuid = str(self.query("nvmlDeviceGetUUID") or "")
        self.model = str(self.query("nvmlDeviceGetName") or "")

    def look_closely(self) -> None:
        """Query what is expensive or changes slowly: every few seconds. Raises LostError."""
        figures = {
            "power_limit_w": _scaled(self.query("nvmlDeviceGetEnforcedPowerLimit"), 1e-3),
            "temp_c": self._temperature(),
            "fan_pct": self.query("nvmlDeviceGetFanSpeed"),
            "sm_max_mhz": self.query("nvmlDeviceGetMaxClockInfo", _SM),
            **self._links.read(self),
            "ecc_errors": self.query("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE),
            "energy_j": _scaled(self.query("nvmlDeviceGetTotalEnergyConsumption"), 1e-3),
        }
        self._slow = {name: float(value) for name, value in figures.items() if value is not None}
        mode = self.query("nvmlDeviceGetMigMode")
        self.mig = "on" if mode and mode[0] else ""
        self.parts = self._found_parts() if self.mig else []

    def _found_parts(self) -> list[Device]:
        """The instances that there are now; those known already stay the same objects."""
        known = {part.uuid: part for part in self.parts}
        found = []
        for at in range(int(self.query("nvmlDeviceGetMaxMigDeviceCount") or 0)):
            handle = self.query("nvmlDeviceGetMigDeviceHandleByIndex", at)
            if handle is not None:
                part = Device(self._nvml, handle, f"{self.name}:{at}")
                part.introduce()
                part.parent, part.mig = self.uuid, part.model.rpartition("MIG ")[2]
                found.append(known.get(part.uuid, part))
        return found

    def reading(self, words: Mapping[str, str]) -> Reading:
        """Query what is cheap, and add the last values of the rest. Raises LostError."""
        use, memory = self.query("nvmlDeviceGetUtilizationRates"), self._memory()
        figures = {
            "util_pct": None if use is None else use.gpu,
            "mem_util_pct": None if use is None else use.memory,
            "mem_used_mb": None if memory is None else memory.used / MIB,
            "mem_total_mb": None if memory is None else memory.total / MIB,
            "power_w": _scaled(self.query("nvmlDeviceGetPowerUsage"), 1e-3),
            "sm_mhz": self.query("nvmlDeviceGetClockInfo", _SM),
            "mem_mhz": self.query("nvmlDeviceGetClockInfo", _MEMORY_CLOCK),
        }
        reading = gpu_reading(self.name, figures, {**self.identity, "mig": self.mig, **words}, self._mask())
        return replace(reading, values={**reading.values, **self._slow})

    @property
    def identity(self) -> dict[str, str]:
        """Words that hold whether it answers or not."""
        return {"model": self.model, "uuid": self.uuid}

    def processes(self) -> dict[int, tuple[float | None, float | None]]:
        """Pid → (MiB of its memory, % of its time), of what computes on it. Raises LostError."""
        running = self.query("nvmlDeviceGetComputeRunningProcesses_v3")
        if running is None:
            running = self.query("nvmlDeviceGetComputeRunningProcesses_v2")
        busy = self._busy() if running else {}
        return {
            int(one.pid): (_scaled(one.usedGpuMemory, 1 / MIB), busy.get(int(one.pid)) if busy else None)
            for one in running or ()
        }

    def _busy(self) -> dict[int, float]:
        """The newest sample of each process since the last time."""
        samples = self.query("nvmlDeviceGetProcessUtilization", self._since) or ()
        newest = {int(s.pid): s for s in sorted(samples, key=lambda s: s.timeStamp) if s.pid}
        self._since = max((int(s.timeStamp) for s in samples), default=self._since)
        return {pid: float(s.smUtil) for pid, s in newest.items() if s.smUtil <= 100}

    def _memory(self) -> Any:
        """Memory in use, without what the driver reserves if it reports that separately."""
        found = self.query("nvmlDeviceGetMemoryInfo", self._nvml.nvmlMemory_v2)
        return found if found is not None else self.query("nvmlDeviceGetMemoryInfo")

    def _temperature(self) -> Any:
        found = self.query("nvmlDeviceGetTemperatureV", _SENSOR)
        return found if found is not None else self.query("nvmlDeviceGetTemperature", _SENSOR)

    def _mask(self) -> int | None:
        found = self.query("nvmlDeviceGetCurrentClocksEventReasons")
        if found is None:
            found = self.query("nvmlDeviceGetCurrentClocksThrottleReasons")
        return None if found is None else int(found)


def _scaled(value: Any, factor: float) -> float | None:
    return None if value is None else float(value) * factor


# --- A thread for calls that may hang ---

T = TypeVar("T")
_END_S = 1.0


class Worker(Generic[T]):
    """Runs blocking jobs in daemon threads, one at a time: a driver that hangs keeps no program from ending."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pending: Future[T] | None = None

    async def run(self, job: Callable[[], T]) -> T:
        """Return the result of `job`, or raise its error.

        When the caller is cancelled the job continues, and the next caller gets its result: there is never a second
        call while one hangs.
        """
        if self._pending is None:
            self._pending = Future()
            self._pending.set_running_or_notify_cancel()  # from now on it cannot be cancelled
            threading.Thread(target=_work, args=(job, self._pending), name=self._name, daemon=True).start()
        pending = self._pending
        try:
            return await asyncio.wrap_future(pending)
        finally:
            if pending.done() and self._pending is pending:
                self._pending = None

    async def stop(self, last: Callable[[], T]) -> None:
        """Run a last job, unless a call hangs; its errors are ignored."""
        if self._pending is None or self._pending.done():
            self._pending = None
            with suppress(Exception):
                await asyncio.wait_for(self.run(last), _END_S)


def _work(job: Callable[[], T], pending: Future[T]) -> None:
    try:
        pending.set_result(job())
    except Exception as error:  # raised where the result is awaited
        pending.set_exception(error)


# --- The GPUs of this machine through NVML, in a thread: a driver that hangs hangs there, and nothing else waits ---

LIBRARY = "libnvidia-ml.so.1"
CLOSELY = 5
"""Polls from one query of what is expensive to the next: processes, temperature, fan, links, energy."""
AFRESH = 30
"""Every so many polls a driver with lost GPUs is opened again: so one that is back is found."""
_ABSENT = frozenset({9, 12})
"""Driver not loaded, library not found."""
_MISMATCH = 18


class NvmlBackend:
    """Calls NVML in a thread of its own."""

    name = "nvml"
    every_s = 1.0

    def __init__(self) -> None:
        self._worker: Worker[Sequence[Reading]] = Worker("gpu")
        self._gpus = Gpus(os.environ)

    async def poll(self) -> Sequence[Reading]:
        """All GPUs, and every few times what runs on them. Raises PollError, NotAvailableError."""
        return await self._worker.run(self._gpus.readings)

    async def close(self) -> None:
        """Close the driver, unless it hangs."""
        await self._worker.stop(self._gpus.close)


class Gpus:
    """The GPUs of the driver. Everything here may block; never called from two threads at once."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._mine = visible_devices(environment)
        self._nvml: ModuleType | None = None
        self._devices: list[Device] = []
        self._lost: dict[str, Device | None] = {}
        """By index; those that could not even be opened are None."""
        self._processes = Processes()
        self._turn = 0

    def readings(self) -> Sequence[Reading]:
        """Read what is cheap of all GPUs; every CLOSELY times the rest, and the processes."""
        closely = self._turn % CLOSELY == 0
        if self._nvml is None or (self._lost and self._turn % AFRESH == 0):
            self.close()
            self._open()
        self._turn += 1
        found: list[Reading] = []
        uses: list[GpuProcess] = []
        for device in list(self._devices):
            found += self._read(device, closely, uses)
        found += [self._gone(index, device) for index, device in sorted(self._lost.items(), key=_by_index)]
        if closely:
            found += self._processes.readings(uses)
        return found

    def close(self) -> Sequence[Reading]:
        """Release the driver."""
        if self._nvml is not None:
            nvml, self._nvml = self._nvml, None
            with suppress(nvml.NVMLError):  # it is gone already
                nvml.nvmlShutdown()
        return ()

    # --- opening ----------------------------------------------------------------------------------------------
    def _open(self) -> None:
        nvml = _library()
        known = {device.uuid: device for device in [*self._devices, *filter(None, self._lost.values())] if device.uuid}
        count = _count(nvml)
        devices, self._lost = [], {}
        for index in range(count):
            device = _opened(nvml, index)
            if device is None:
                self._lost[str(index)] = next((one for one in known.values() if one.name == str(index)), None)
            else:
                devices.append(device)
        if not count and not known:
            nvml.nvmlShutdown()
            raise NotAvailableError("the NVIDIA driver reports no GPU")
        here = {device.uuid for device in devices}
        taken = {device.name for device in devices}
        for device in known.values():
            if device.uuid not in here and ":" not in device.name and device.name not in taken:
                self._lost[device.name] = device
        self._nvml, self._devices = nvml, devices

    # --- queries ------------------------------------------------------------------------------------------------------
    def _read(self, device: Device, closely: bool, uses: list[GpuProcess]) -> list[Reading]:
        try:
            if closely:
                device.look_closely()
                uses += [GpuProcess(pid, device.name, *use) for pid, use in device.processes().items()]
            found = [device.reading(self._words(device))]
        except LostError:
            self._devices.remove(device)
            self._lost[device.name] = device
            return []
        return found + [one for part in device.parts for one in self._read_part(part)]

    def _read_part(self, part: Device) -> list[Reading]:
        try:
            return [part.reading(self._words(part))]
        except LostError:  # it was taken apart since
            return []

    def _gone(self, index: str, device: Device | None) -> Reading:
        words = self._whose(index) if device is None else {**device.identity, **self._words(device)}
        return Reading(Area.GPU, index, {}, {**words, "state": "lost"})

    def _words(self, device: Device) -> dict[str, str]:
        return self._whose(device.name, device.uuid, device.parent)

    def _whose(self, index: str, uuid: str = "", parent: str = "") -> dict[str, str]:
        if self._mine is None:
            return {}
        return {"mine": self._mine.word(index, uuid, parent, len(self._devices) + len(self._lost))}


def _by_index(item: tuple[str, Device | None]) -> tuple[int, str]:
    return (int(item[0]) if item[0].isdecimal() else -1, item[0])


def _library() -> ModuleType:
    """The binding, with the driver opened. Nothing is loaded where there is no driver. Raises PollError."""
    try:
        ctypes.CDLL(LIBRARY)
        pynvml = import_module("pynvml")
    except (OSError, ImportError):
        raise NotAvailableError("no NVIDIA driver") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value in _ABSENT:
            raise NotAvailableError("no NVIDIA driver is loaded") from None
        if error.value == _MISMATCH:
            raise PollError(
                "the NVIDIA driver and its library are of different versions after an update; reboot the machine"
            ) from None
        raise PollError(f"NVML cannot be opened: {error}") from None
    return pynvml


def _count(nvml: ModuleType) -> int:
    try:
        return int(nvml.nvmlDeviceGetCount())
    except nvml.NVMLError as error:
        nvml.nvmlShutdown()
        raise PollError(f"NVML cannot count the GPUs: {error}") from None


def _opened(nvml: ModuleType, index: int) -> Device | None:
    """One GPU; None where it is lost."""
    try:
        device = Device(nvml, nvml.nvmlDeviceGetHandleByIndex(index), str(index))
        device.introduce()
    except (LostError, nvml.NVMLError):
        return None
    return device
