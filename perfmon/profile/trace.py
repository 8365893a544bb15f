"""A profiler trace in columns: work of GPUs, launches, synchronisation, work of the host. All times are nanoseconds."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePath

Interval = tuple[int, int]
"""Start and end, nanoseconds."""

COMPUTE, COMMUNICATION, COPY, MEMSET = range(4)
"""Kinds of work of a GPU."""
COLLECTIVE = re.compile(
    r"^(?:void )?(?:nccl|rccl|msccl|hccl|hcom_|oneccl|nvshmem"
    r"|(?:[\w()]+(?: [\w()]+)?::)*(?:(?:nccl|rccl)Dev|cross_device_reduce|userbuffers_"
    r"|(?:moe\w+_)?all_?reduce_(?:fusion|kernel|prototype)|multimem_one_shot_reduce|EpDispatch|EpCombine"
    r"|(?:multimem|(?:multimem_)?(?:one|two)_?shot)_?(?:all_?(?:reduce|gather)|reduce_?scatter)"
    r"|deep_ep::.*(?:dispatch|combine)))",
    re.IGNORECASE,
)
"""Kernels that communicate: of libraries, of PyTorch's symmetric memory, and of engines, which also wait for peers."""
BLOCKING = re.compile(r"^(?:cuda|hip|cu)(?:Stream|Device|Event|Ctx)Synchronize")
"""Calls in which the host waits for a GPU."""
LOADER = re.compile(r"^enumerate\(DataLoader\)#")
"""PyTorch's name of the wait for the next batch."""
BATCHES = "stream_process_batch_#"
"""Ranges of pipelines that stream from a queue: between two of them the host waits for the next batch."""
STEP = re.compile(r"^ProfilerStep ?#(\d+)$")
LONG_CALL_NS = 500_000
"""Functions of Python and calls of the operating system are kept from this length on."""
MOST_HOST_EVENTS = 20_000_000
"""Host events that are kept of a trace, about 0.6 GB; of what comes after, only the work of GPUs is evaluated."""
_RANK = re.compile(r"(?:rank|worker)[-_. ]?(\d+)", re.IGNORECASE)
_NON_SYNCHRONIZING = re.compile(
    r"Kernel_(?:Reduce_|Broadcast|SendRecv)|^_?(?:i?send|i?recv|broadcast|reduce|gather|scatter)(?:_oop)?$"
)
"""Kernels of NCCL, and names that PyTorch has for them, whose ranks do not all wait for each other."""


class TraceError(Exception):
    """A file that cannot be evaluated: one line with the file, the reason and the fix."""


@dataclass(frozen=True, slots=True)
class Group:
    """The process group of a kernel that communicates."""

    name: str
    ranks: tuple[int, ...]
    """Its members; () where they are not known."""


@dataclass(slots=True)
class GpuWork:
    """The kernels and memory operations of a device, in the order of the file."""

    start: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))
    stream: array[int] = field(default_factory=lambda: array("q"))
    correlation: array[int] = field(default_factory=lambda: array("q"))
    """Identifies the launch; -1: unknown."""
    kind: array[int] = field(default_factory=lambda: array("b"))
    name: array[int] = field(default_factory=lambda: array("l"))
    """Index into the names of the trace."""
    call: array[int] = field(default_factory=lambda: array("q"))
    """Index into the launches; -1: not in the trace. Known once the trace is complete."""
    groups: dict[int, Group] = field(default_factory=dict)
    """Of kernels that communicate, by row, where it is known."""
    non_synchronizing: set[int] = field(default_factory=set)
    """Kernels that communicate, and need not wait for all of their peers, by row."""

    def add(self, start: int, end: int, stream: int, correlation: int, kind: int, name: int) -> None:
        self.start.append(start)
        self.end.append(end)
        self.stream.append(stream)
        self.correlation.append(correlation)
        self.kind.append(kind)
        self.name.append(name)


@dataclass(slots=True)
class Launches:
    """Calls of the runtime with a number that work of GPUs refers to; of several with one number the last one."""

    start: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))
    thread: array[int] = field(default_factory=lambda: array("l"))
    _of: dict[int, int] = field(default_factory=dict)

    def add(self, correlation: int, start: int, end: int, thread: int) -> None:
        at = self._of.setdefault(correlation, len(self.start))
        if at < len(self.start):
            self.start[at], self.end[at], self.thread[at] = start, end, thread
            return
        self.start.append(start)
        self.end.append(end)
        self.thread.append(thread)

    def place(self, correlation: int) -> int:
        """The index of a call; -1 where there is none."""
        return self._of.get(correlation, -1)

    def forget_numbers(self) -> None:
        """Free what the numbers take, when all work has found its call."""
        self._of = {}


@dataclass(slots=True)
class HostWork:
    """Operations of host threads, in the order of the file."""

    start: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))
    thread: array[int] = field(default_factory=lambda: array("l"))
    name: array[int] = field(default_factory=lambda: array("l"))

    def add(self, start: int, end: int, thread: int, name: int) -> None:
        self.start.append(start)
        self.end.append(end)
        self.thread.append(thread)
        self.name.append(name)


@dataclass
class Trace:
    """Contents of a file of a profiler."""

    file: str
    rank: int | None = None
    gpus: dict[int, GpuWork] = field(default_factory=dict)
    """By number of the device."""
    devices: dict[int, str] = field(default_factory=dict)
    """The products."""
    launches: Launches = field(default_factory=Launches)
    host: HostWork = field(default_factory=HostWork)
    """Operators, calls of the runtime and named ranges."""
    syncs: list[Interval] = field(default_factory=list)
    loads: list[Interval] = field(default_factory=list)
    """Waits for the next batch, of a DataLoader or a queue."""
    is_streamed: bool = False
    """These waits are the time between ranges of batches: no operation of the host is there."""
    steps: dict[int, Interval] = field(default_factory=dict)
    ranges: dict[str, list[Interval]] = field(default_factory=dict)
    """Named ranges (NVTX, record_function) by name without its numbers."""
    copies: dict[int, list[tuple[int, int, int, int, bool]]] = field(default_factory=dict)
    """Copies to a device: start, end, bytes, correlation, and true where they come from pageable memory.

    In a complete trace the index of the launch instead of the correlation.
    """
    events: int = 0
    malformed: int = 0
    """Events that are left out for the types of their values."""
    damaged: int = 0
    damaged_bytes: int = 0
    """Places that cannot be read, and how much they are."""
    notes: list[str] = field(default_factory=list)
    """Losses of the trace, in sentences."""
    is_partial: bool = False
    """Its end, or a part of it, is missing."""
    is_ns: bool = False
    """Its times are nanoseconds, whatever the format says."""
    last_step: int | None = None
    """Start of the last step of several."""
    _steps: dict[str, int] = field(default_factory=dict)
    _streamless: dict[int, GpuWork] = field(default_factory=dict)
    _names: dict[str, int] = field(default_factory=dict)
    _threads: dict[object, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.rank is None and (found := _RANK.search(PurePath(self.file).name)):
            self.rank = int(found[1])

    def name(self, text: str) -> int:
        """The number of a name."""
        return self._names.setdefault(text, len(self._names))

    def thread(self, identity: object) -> int:
        """The number of a thread."""
        return self._threads.setdefault(identity, len(self._threads))

    @property
    def names(self) -> list[str]:
        """The names by number."""
        return list(self._names)

    def work(self, device: int) -> GpuWork:
        """The work of a device."""
        return self.gpus.setdefault(device, GpuWork())

    def streamless(self, device: int) -> GpuWork:
        """The work of a device that has no stream."""
        return self._streamless.setdefault(device, GpuWork())

    def step(self, name: str, start: int) -> None:
        """A step of the profiler: of the host, or what the GPU did of it."""
        self._steps[name] = max(start, self._steps.get(name, start))

    def cut(self, note: str) -> None:
        """The end of the file, or a part of it, is missing or unreadable."""
        self.is_partial = True
        self.notes.append(note)

    def settle(self) -> None:
        """Complete the trace after its last event.

        Work without a stream counts only where none has one: else it is work of another engine, that others contain.
        """
        self.gpus = self.gpus or self._streamless
        if not self.loads:
            self.loads = gaps(union(self.ranges.get(BATCHES, ())))
            self.is_streamed = bool(self.loads)
        place = self.launches.place
        for work in self.gpus.values():
            work.call = array("q", map(place, work.correlation))
        for device, held in self.copies.items():
            self.copies[device] = [(start, end, size, place(number), kind) for start, end, size, number, kind in held]
        self.launches.forget_numbers()
        if len(self._steps) > 1:
            self.last_step = max(self._steps.values())

    def copy(self, device: int, interval: Interval, size: int, correlation: int, *, pageable: bool) -> None:
        """A copy from the host to a device."""
        self.copies.setdefault(device, []).append((*interval, size, correlation, pageable))

    def named(self, name: str, interval: Interval) -> None:
        """A range that the program named."""
        if step := STEP.match(name):
            self.steps[int(step[1])] = interval
        else:
            self.ranges.setdefault(re.sub(r"\d+", "#", name)[:200], []).append(interval)


def is_non_synchronizing(name: str) -> bool:
    """Return true for a kernel, or a collective, whose ranks do not all wait for each other."""
    return _NON_SYNCHRONIZING.search(name) is not None


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Disjoint intervals, ascending, that cover the same time."""
    return joined(sorted(intervals))


def joined(intervals: Iterable[Interval]) -> list[Interval]:
    """The same of intervals that are in order of their starts."""
    found: list[Interval] = []
    low, high = 0, -1
    for start, end in intervals:
        if high < low or start > high:
            if high >= low:
                found.append((low, high))
            low, high = start, max(start, end)
        elif end > high:
            high = end
    if high >= low:
        found.append((low, high))
    return found


def total(intervals: Iterable[Interval]) -> int:
    """The length of disjoint intervals."""
    return sum(end - start for start, end in intervals)


def gaps(busy: Sequence[Interval]) -> list[Interval]:
    """The time between disjoint intervals."""
    return [(before[1], after[0]) for before, after in pairwise(busy) if after[0] > before[1]]
