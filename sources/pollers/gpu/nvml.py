"""NVIDIA GPUs of this machine through NVML, in a thread of their own."""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Generic, TypeVar

from ..base import NotAvailableError, PollError
from ..reading import Area, Reading
from .common import GpuProcess, Processes, visible_devices
from .nvml_device import Device, LostError

# --- A thread for calls that may hang ---

T = TypeVar("T")


class Worker(Generic[T]):
    """Runs blocking jobs in daemon threads, one at a time: a driver that hangs keeps no program from ending."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pending: Future[T] | None = None

    async def run(self, job: Callable[[], T]) -> T:
        """Return the result of `job`, or raise its error.

        When the caller is cancelled the job goes on, and the next caller gets its result: there is never a second
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

    async def stop(self, last: Callable[[], T], timeout_s: float = 1.0) -> None:
        """Run a last job, unless a call hangs; its errors are ignored."""
        if self._pending is None or self._pending.done():
            self._pending = None
            with suppress(Exception):
                await asyncio.wait_for(self.run(last), timeout_s)


def _work(job: Callable[[], T], pending: Future[T]) -> None:
    try:
        pending.set_result(job())
    except Exception as error:  # raised where the result is awaited
        pending.set_exception(error)


# --- The GPUs of this machine through NVML, in a thread: a driver that hangs hangs there, and nobody else waits ---

LIBRARY = "libnvidia-ml.so.1"
CLOSELY = 5
"""Every so many polls what is dear is asked, too: processes, temperature, fan, links, energy."""
AFRESH = 30
"""Every so many polls a driver with lost GPUs is opened anew: that is how one that came back is seen."""
_ABSENT = frozenset({9, 12})
"""Driver not loaded, library not found."""
_MISMATCH = 18


class NvmlBackend:
    """Calls NVML in a thread of its own."""

    name = "nvml"
    every_s = 1.0

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._worker: Worker[Sequence[Reading]] = Worker("gpu")
        self._gpus = Gpus(environment)

    async def poll(self) -> Sequence[Reading]:
        """All GPUs, and every few times what runs on them. Raises PollError, NotAvailableError."""
        return await self._worker.run(self._gpus.readings)

    async def close(self) -> None:
        """Closes the driver, unless it hangs."""
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
            found += self._ask(device, closely, uses)
        found += [self._gone(index, device) for index, device in sorted(self._lost.items(), key=_by_index)]
        if closely:
            found += self._processes.readings(uses)
        return found

    def close(self) -> Sequence[Reading]:
        """Lets go of the driver."""
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

    # --- asking -----------------------------------------------------------------------------------------------
    def _ask(self, device: Device, closely: bool, uses: list[GpuProcess]) -> list[Reading]:
        try:
            if closely:
                device.look_closely()
                uses += [GpuProcess(pid, device.name, *use) for pid, use in device.processes().items()]
            found = [device.reading(self._words(device))]
        except LostError:
            self._devices.remove(device)
            self._lost[device.name] = device
            return []
        return found + [one for part in device.parts for one in self._ask_part(part)]

    def _ask_part(self, part: Device) -> list[Reading]:
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
