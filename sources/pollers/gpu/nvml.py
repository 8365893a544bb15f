"""NVIDIA GPUs of this machine through NVML, in a thread of their own."""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from queue import SimpleQueue
from types import ModuleType
from typing import Generic, TypeVar

from ..base import NotAvailableError, PollError
from ..reading import Area, Reading
from .common import Processes, Use, mine
from .nvml_device import Device, LostError

# --- A thread that does one thing after the other: for libraries whose calls may take as long as they like ---

T = TypeVar("T")
_Job = tuple[Callable[[], T], asyncio.AbstractEventLoop, "asyncio.Future[T]"]


class Worker(Generic[T]):
    """One thread, and at most one job in it.

    It is a daemon: a driver that never answers keeps no program from ending, as a thread of an executor would.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[_Job[T] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pending: asyncio.Future[T] | None = None

    @property
    def busy(self) -> bool:
        """A job has not come back yet."""
        return self._pending is not None and not self._pending.done()

    async def ask(self, job: Callable[[], T]) -> T:
        """What `job` gives or raises. May be cancelled; the job goes on then, and who asks next gets its answer.

        So however often nobody waits any longer, there is never a second call beside one that hangs.
        """
        if self._pending is None:
            self._pending = self._start(job)
        pending = self._pending
        try:
            return await asyncio.shield(pending)
        finally:
            if pending.done() and self._pending is pending:
                self._pending = None

    async def stop(self, last: Callable[[], T], timeout_s: float = 1.0) -> None:
        """Does a last thing, unless a call hangs, and ends the thread once it is free."""
        if self._thread is None:
            return
        if not self.busy:
            done, _ = await asyncio.wait([self._start(last)], timeout=timeout_s)
            for future in done:
                future.exception()  # who stops does not care how it went
        self._jobs.put(None)
        self._thread = None

    def _start(self, job: Callable[[], T]) -> asyncio.Future[T]:
        if self._thread is None:
            self._thread = threading.Thread(target=_work, args=(self._jobs,), name=self._name, daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        future.add_done_callback(_seen)
        self._jobs.put((job, loop, future))
        return future


def _seen(future: asyncio.Future[T]) -> None:
    """What went wrong while nobody waited is no news for the event loop."""
    if not future.cancelled():
        future.exception()


def _work(jobs: SimpleQueue[_Job[T] | None]) -> None:
    while (job := jobs.get()) is not None:
        do, loop, future = job
        try:
            tell, told = _give, do()
        except Exception as error:  # it is raised where somebody waits
            tell, told = _raise, error  # type: ignore[assignment]  # what it tells goes with how
        try:
            loop.call_soon_threadsafe(tell, future, told)
        except RuntimeError:  # the loop has ended meanwhile
            return


def _give(future: asyncio.Future[T], told: T) -> None:
    if not future.done():
        future.set_result(told)


def _raise(future: asyncio.Future[T], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


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
    """Asks NVML from a thread of its own."""

    every_s = 1.0

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._worker: Worker[Sequence[Reading]] = Worker("gpu")
        self._gpus = Gpus(environment)

    async def poll(self) -> Sequence[Reading]:
        """All GPUs, and every few times what runs on them. Raises PollError, NotAvailableError."""
        return await self._worker.ask(self._gpus.readings)

    async def close(self) -> None:
        """Closes the driver, unless it hangs."""
        await self._worker.stop(self._gpus.close)


class Gpus:
    """What the driver knows. Everything here may block, and is called from one thread only."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._mine = mine(environment)
        self._nvml: ModuleType | None = None
        self._devices: list[Device] = []
        self._lost: dict[str, Device | None] = {}
        """By index; those that could not even be opened are None."""
        self._processes = Processes()
        self._turn = 0

    def readings(self) -> Sequence[Reading]:
        """What is cheap of all GPUs; every CLOSELY times the rest, and the processes."""
        closely = self._turn % CLOSELY == 0
        if self._nvml is None or (self._lost and self._turn % AFRESH == 0):
            self.close()
            self._open()
        self._turn += 1
        found: list[Reading] = []
        uses: list[Use] = []
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
    def _ask(self, device: Device, closely: bool, uses: list[Use]) -> list[Reading]:
        try:
            if closely:
                device.look_closely()
                uses += [Use(pid, device.name, *use) for pid, use in device.processes().items()]
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
        words = self._whose(index) if device is None else {**device.known(), **self._words(device)}
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
