"""Lanes over the time axis as panes draw them, and the collectives of a running job from logs of NCCL Inspector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum

from perfmon.store import UPDATES
from perfmon.textgraphics import Leg


class Level(IntEnum):
    """Level of a value relative to its thresholds; NONE without a value or thresholds."""

    NONE = 0
    GOOD = 1
    WARNING = 2
    CRITICAL = 3


class AlertState(StrEnum):
    """State of an alert: the lifecycle of its finding, and acknowledgement or silence."""

    PENDING = "pending"
    FIRING = "firing"
    ACKED = "acked"
    RESOLVING = "resolving"
    RESOLVED = "resolved"
    INHIBITED = "inhibited"
    SILENCED = "silenced"
    UNKNOWN = "unknown"
    """Its sources went stale while it was active."""


AlertKey = tuple[str, tuple[tuple[str, str], ...]]
"""Signature id and identity, sorted: what makes two findings the same alert."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A moment at which an alert changed: a tick on the alerts lane."""

    time: float
    key: AlertKey
    state: AlertState
    level: Level


# --- the board ------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Viewport:
    """The part of the axis on the timeline, and its number of columns."""

    start: float
    end: float
    columns: int

    @property
    def column_s(self) -> float:
        """Seconds per column."""
        return (self.end - self.start) / max(1, self.columns)

    def column(self, time: float) -> int:
        """The column of a moment; out of range for moments outside."""
        return int((time - self.start) // self.column_s) if self.end > self.start else 0


@dataclass(frozen=True, slots=True)
class Bar:
    """A span on a lane. Weight updates have legs; what has not ended grows with every picture (`open`)."""

    kind: str
    key: str
    """Trace id, step or ""."""
    start: float
    end: float
    open: bool
    level: Level
    legs: tuple[Leg, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    """Metrics of this span: queue_ms, rpc_ms, wall_ms, write_ms, dur_ms, step ..."""
    missing: tuple[str, ...] = ()
    """Phases without a line."""
    seq: int = 0
    """Distinguishes bars whatever their keys."""


@dataclass(frozen=True, slots=True)
class SpanLane:
    """Spans of one kind: weight-update, checkpoint-write, checkpoint-wait, generation-batch, ..."""

    kind: str
    metric: str
    """The metric that is the duration of its bars: its statistics stand at the lane's end."""
    bars: tuple[Bar, ...]
    """By start; those that share time with the viewport, all of them or, where columns are few, the worst a column."""

    @property
    def telling(self) -> Bar | None:
        """The last bar that has ended, or one that is open already for longer than that one was."""
        ended = next((bar for bar in reversed(self.bars) if not bar.open), None)
        opened = next((bar for bar in reversed(self.bars) if bar.open), None)
        if ended is None or opened is None:
            return ended or opened
        return max(ended, opened, key=lambda bar: bar.end - bar.start)


@dataclass(frozen=True, slots=True)
class MetricLane:
    """A metric over the viewport, a value a column."""

    name: str
    """The metric; of one queue of several its name and the metric."""
    unit: str
    values: Sequence[float]
    """Per column the worst value (the largest, or the smallest where less is worse); NaN where nothing was measured."""
    levels: bytes
    """Per column a `Level`."""
    now: float | None
    """The last value; NaN where the log reported that."""
    now_level: Level
    p50: float | None
    p95: float | None
    max: float | None
    critical_share: float | None
    good: float | None = None
    critical: float | None = None
    """Limits of its band; `good` is where warning begins."""
    lower_is_worse: bool = False
    group: str = ""
    """The queue that it is of, where several have a lane each."""

    @property
    def metric(self) -> str:
        """The name of the metric alone."""
        return self.name.removeprefix(f"{self.group} ")


def with_open(metrics: Sequence[MetricLane], spans: Sequence[SpanLane]) -> list[MetricLane]:
    """The lanes of metrics; a duration's has the value of a span that is open for longer than the last one was."""
    longer = {lane.metric: bar for lane in spans if (bar := lane.telling) is not None and bar.open and not bar.legs}
    return [
        replace(lane, now=bar.values[lane.name], now_level=bar.level)
        if (bar := longer.get(lane.name)) is not None and lane.name in bar.values
        else lane
        for lane in metrics
    ]


@dataclass(frozen=True, slots=True)
class Course:
    """Values in equal parts of a viewport; NaN where nothing was measured."""

    lows: Sequence[float]
    highs: Sequence[float]
    means: Sequence[float]


@dataclass(frozen=True, slots=True)
class Overview:
    """A run from its first line to the present."""

    viewport: Viewport
    """All of it; its first columns may lie before the first line."""
    begin: float
    """The first line."""
    paces: Sequence[float]
    """Steps a second in each column; NaN before the first step."""
    levels: bytes
    """Per column the worst `Level` of the alerts that were active; NONE where none was, or nothing was judged."""
    starts: tuple[tuple[float, Level], ...]
    """The moments at which alerts began to fire, and their levels."""


@dataclass(frozen=True, slots=True)
class Board:
    """All lanes over one axis."""

    viewport: Viewport
    spans: tuple[SpanLane, ...]
    metrics: tuple[MetricLane, ...]
    """In the order in which they should be shown: worst first among those with bands, then by name."""
    ticks: tuple[Transition, ...]
    courses: Mapping[str, Course] = field(default_factory=dict)
    """Of the metrics that are shown as charts, by the names of their lanes."""

    def bars(self, kind: str) -> list[Bar]:
        """The bars of a kind in view; a synchronisation of weights that only one line reports has no duration."""
        bars = [bar for lane in self.spans if lane.kind == kind for bar in lane.bars]
        return [bar for bar in bars if kind == UPDATES or bar.open or bar.end > bar.start]


# --- collectives ----------------------------------------------------------------------------------------------------
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
