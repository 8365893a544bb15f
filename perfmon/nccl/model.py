"""Results of an analysis of NCCL Inspector logs, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from perfmon.core import UsageError

from .schema import HCA, NVLINK

if TYPE_CHECKING:
    from perfmon.diagnosis import Finding

    from .proxies import ProxyTime

LinkType = Literal["nvlink", "hca"]
_OWN_LATENESS, _ORIGIN_SHARE = 0.6, 0.25
"""Limits of the signature `nccl-slow-rank`."""
_PAUSE_SHARE = 0.25
"""Share of all waiting that a rank must be the origin of beyond what lasts, for a pause to be worth a note."""


@dataclass(frozen=True, slots=True)
class CollectiveStats:
    """Operations of one collective and message size on communicators of one type; for Send and Recv, pairs of ranks.

    Bandwidths are bus bandwidths in GB/s, of the mean over the ranks of each operation.
    """

    comm_type: str
    collective: str
    size: int
    ops: int
    records: int
    busbw_mean: float
    busbw_p05: float
    busbw_p50: float
    busbw_p95: float
    busbw_min: float
    busbw_max: float
    transfer_p50_us: float | None
    """Median of the shortest kernel time of each operation: transfer without waiting; None if none has all ranks."""
    wait_share: float | None
    """Share of the kernel time of all ranks that is waiting for the last one; None if not known, as of sends."""
    total_us: float
    """Kernel time of all ranks, by which sizes are ranked."""


@dataclass(frozen=True, slots=True)
class Seat:
    """One process, or one GPU of a process that has several."""

    rank: int
    """Rank in the largest communicator of the process."""
    host: str
    pid: int | None
    slot: int = 1
    """Position among the GPUs of the process."""

    @property
    def label(self) -> str:
        """The seat in words."""
        pid = "" if self.pid is None else f" (pid {self.pid})"
        return f"rank {self.rank}{f' on {self.host}' if self.host else ''}{pid}"


@dataclass(frozen=True, slots=True)
class RankWait:
    """Waiting that one rank causes: of each operation the rank with the shortest kernel time came last."""

    seat: Seat
    ops: int
    """Operations in which it came last."""
    caused_us: float
    last_share: float
    """Share of all caused wait, by who came last."""
    share: float
    """Share of all caused wait by its origin: wait for a rank that was late because it waited is that of the other."""
    lasting_share: float
    """The same of what lasts: without the pieces of a job, or the slices live, with a pause."""
    lateness_us: float
    """Mean wait of the other ranks, summed over the operations in which it came last."""
    own_lateness: float
    """Share of its lateness that was not itself waiting for other ranks, 0 to 1, of what lasts."""
    uncertain: float
    """Share of its lateness that may be waiting for ranks that are not known: stages of a pipeline, or missing logs."""
    late_ops: float
    """Operations that most of its lateness is in, of what lasts: few where it pauses, many where it is slow."""
    comm_share: float
    """Caused wait as a share of the kernel time of all ranks."""
    shares: tuple[float, ...]
    """Share of caused wait in each part of the job, of what lasts."""
    own_shares: tuple[float, ...]
    """The same of own lateness only."""
    comm_shares: tuple[float, ...]
    """Caused wait in each part, as a share of the kernel time of all ranks in that part, of what lasts."""
    comms: tuple[str, ...]
    """Communicators that it is part of."""

    @property
    def certain_lateness(self) -> float:
        """Own lateness less what may be chance: two standard errors of a share of so many operations."""
        return max(0.0, self.own_lateness - self.late_ops**-0.5) if self.late_ops else 0.0

    @property
    def is_origin(self) -> bool:
        """It is late by itself, and much of the waiting that lasts is for it, as the rule for slow ranks requires."""
        return self.own_lateness > _OWN_LATENESS and self.lasting_share > _ORIGIN_SHARE

    @property
    def has_paused(self) -> bool:
        """Much of the waiting is for it, but not of what lasts."""
        return self.share - self.lasting_share > _PAUSE_SHARE

    @property
    def own_comm_share(self) -> float:
        """Wait that it causes by itself, of what lasts, as a mean share of the kernel time in the parts of the job."""
        return self.own_lateness * sum(self.comm_shares) / len(self.comm_shares)


@dataclass(frozen=True, slots=True)
class LinkRatio:
    """Transfer time of one communicator relative to its peers: same collective, size, ranks and domains."""

    comm: str
    name: str
    comm_type: str
    n_ranks: int
    hosts: tuple[str, ...]
    peers: int
    ops: int
    ratio: float
    spread: float
    """Robust standard deviation of the ratios of its peers."""
    lost_share: float
    """Transfer time beyond that of its peers, as a share of the kernel time of all ranks."""
    ratios: tuple[float | None, ...]
    """Ratio in each part of the job."""

    @property
    def label(self) -> str:
        """The communicator in words."""
        name = f" {self.name}" if self.name and self.name != "unknown" else ""
        return f"{self.comm_type} communicator {self.comm}{name}"


@dataclass(frozen=True, slots=True)
class PairRatio:
    """Shortest time of sends and receives between two ranks, or in one place, relative to other pairs of their kind."""

    link_type: LinkType
    seats: tuple[Seat, ...]
    """Both ranks, the one that all slow pairs have in common, or none."""
    hosts: tuple[str, ...]
    peers: int
    ops: int
    ratio: float
    spread: float
    """Robust standard deviation of the ratios of pairs of the same kind."""
    lost_share: float
    """Transfer time beyond that of the other pairs, as a share of the kernel time of all ranks."""

    @property
    def label(self) -> str:
        """The pair or the place in words."""
        places = [seat.label for seat in self.seats] or list(self.hosts)
        return f"{self.link_type} sends and receives {'between' if len(places) > 1 else 'of'} {' and '.join(places)}"


@dataclass(frozen=True, slots=True)
class Coverage:
    """Part of the job that the logs cover."""

    comms: int
    missing_ranks: Mapping[str, int]
    """Communicators of which ranks left no record, with their number."""
    ops: int
    """Operations of communicators with more than one rank."""
    complete_ops: int
    """Those that all ranks recorded: only they show who waited."""
    dropped: int
    """Records that the plugin reports as dropped."""

    @property
    def share(self) -> float:
        """Share of complete operations."""
        return self.complete_ops / self.ops if self.ops else 0.0


@dataclass(frozen=True, slots=True)
class JobAnalysis:
    """All results of one job."""

    files: int
    records: int
    skipped: int
    lost: Mapping[str, int]
    """Lines that could not be used, by reason."""
    notes: tuple[str, ...]
    groups: int
    start_us: int
    end_us: int
    versions: tuple[str, ...]
    by: tuple[CollectiveStats, ...]
    ranks: tuple[RankWait, ...]
    links: tuple[LinkRatio, ...]
    pairs: tuple[PairRatio, ...]
    """Pairs of ranks that send to each other and can be compared, the slowest first."""
    slow_pairs: tuple[PairRatio, ...]
    """The rank, pair or host that all slow pairs of a type have in common, as candidates for a finding."""
    coverage: Coverage
    hosts: int
    findings: tuple[Finding, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Facts that the scheduler reports about the job."""
    proxies: tuple[ProxyTime, ...] = ()
    """Waits of the threads that serve the network; only where the plugin traces them."""


# --- bandwidth that hardware reaches at best, from `ceilings.toml` ---

_FILE = Path(__file__).with_name("ceilings.toml")
_LARGE = 16 << 20
"""Bytes from which on bandwidth, and not latency, determines the time."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Bus bandwidths in GB/s of one generation of hardware."""

    id: str
    title: str
    nvlink: float
    nvlink_allreduce: float
    hca: float

    def of(self, stats: CollectiveStats) -> float | None:
        """Return the ceiling of a large message; None where there is none (mixed communicators, small messages)."""
        if stats.size < _LARGE:
            return None
        if stats.comm_type == NVLINK:
            return self.nvlink_allreduce if stats.collective == "AllReduce" else self.nvlink
        return self.hca if stats.comm_type == HCA else None


def ceilings() -> dict[str, Ceiling]:
    """All of them by id."""
    import tomli

    table = tomli.loads(_FILE.read_text(encoding="utf-8"))["hardware"]
    return {name: Ceiling(name, **values) for name, values in table.items()}


def ceiling(name: str) -> Ceiling:
    """Return the one of this id. Raises UsageError."""
    known = ceilings()
    if name not in known:
        raise UsageError(f"--hardware {name}: unknown (expected one of {', '.join(known)})")
    return known[name]
