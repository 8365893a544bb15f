"""Collectives of a running job, from logs of NCCL Inspector that are still being written: what the screen shows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CollectiveNow:
    """One collective and message size on communicators of one type, over the window."""

    comm_type: str
    collective: str
    size: int
    """Bytes."""
    busbw_gbs: float
    """Median bus bandwidth in GB/s, of the mean over the ranks of each operation."""
    transfer_us: float
    """Median of the shortest kernel time of each operation."""
    wait_share: float | None
    """Share of the kernel time of all ranks that is waiting for the last one; None if not known, as of sends."""
    ops_per_s: float
    time_share: float
    """Share of the kernel time of all collectives."""
    trend: tuple[float, ...] = ()
    """Median bus bandwidth of each slice, oldest first; NaN where there was no operation."""


@dataclass(frozen=True, slots=True)
class RankNow:
    """A rank that others waited for."""

    label: str
    host: str
    share: float
    """Share of all caused wait that has its origin here."""
    comm_share: float
    """Wait caused by coming last, as a share of the kernel time of all ranks."""
    own_lateness: float
    """Share of its lateness that was not itself waiting."""


@dataclass(frozen=True, slots=True)
class LinkNow:
    """A communicator, by its transfer times relative to those of its peers."""

    label: str
    ratio: float
    lost_share: float
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MissingRanks:
    """A communicator of which ranks left no record within the window."""

    label: str
    ranks: tuple[int, ...]
    """The first ranks that are missing."""
    count: int
    of: int


@dataclass(frozen=True, slots=True)
class CollectivesState:
    """Everything that is known of the collectives of the last seconds."""

    window_s: float
    by: tuple[CollectiveNow, ...] = ()
    """The most time first."""
    ranks: tuple[RankNow, ...] = ()
    """The origin of most waiting first."""
    links: tuple[LinkNow, ...] = ()
    """The slowest first."""
    missing: tuple[MissingRanks, ...] = ()
    processes: int = 0
    hosts: int = 0
    comms: int = 0
    lines: int = 0
    """Lines read so far."""
    lines_per_s: float = 0.0
    ops: int = 0
    """Operations of communicators with more than one rank, within the window."""
    complete_ops: int = 0
    """Those that all ranks recorded."""
    open_ops: int = 0
    """Operations that wait for records of further ranks."""
    unfinished: int = 0
    """Operations that were closed without records of all ranks, so far."""
    evicted: int = 0
    """Those among them that were closed early, because too many were open."""
    dropped: int = 0
    """Records that the plugin reports as dropped."""
    skipped: int = 0
    """Lines that are no records."""
    repeated: int = 0
    """Records that are in several files."""
    at: float | None = None
    """Time of the newest record, in seconds since 1970 by the clock of its host; None without a record."""
    age_s: float | None = None
    """Seconds since the last record arrived, or was written, if all were there at the start; None if unknown."""
    absent: tuple[str, ...] = ()
    """Folders that were named, and are not there yet."""

    @property
    def coverage(self) -> float:
        """Share of complete operations."""
        return self.complete_ops / self.ops if self.ops else 0.0
