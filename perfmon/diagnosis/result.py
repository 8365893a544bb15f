"""The result of a diagnosis, immutable, for all readers: screen, reports, exporters, recordings.

Times are seconds of event time since `run.start`; durations and shares have their unit in the name. Shares are
fractions of 1 (except metric values in `%`, which are percentages).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from perfmon.core import Progress, Severity, Summary, TimeBase

if TYPE_CHECKING:
    from perfmon.store import Seen

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """One log that was read, and the result."""

    spec: str
    format: str
    """Packs that recognised lines, joined by `+`; `unknown` when none did."""
    bytes: int
    lines: int
    events: int
    """Lines that a pattern recognised."""
    skipped: int
    """Recognised lines whose values could not be used (absurd values, cut lines)."""
    errors: int
    first_s: float | None
    last_s: float | None
    notes: tuple[str, ...] = ()
    """Lost or malformed data: truncated archive, capped lines, undecodable bytes."""
    patterns: Mapping[str, int] = field(default_factory=dict)
    """Lines per `pack/pattern`."""


@dataclass(frozen=True, slots=True)
class Goal:
    """The progress of a run, by the counter of its steps."""

    done: float
    total: float | None
    """None where the logs report none."""
    unit: str
    """The unit of the counter: step, samples, tokens ..."""
    remaining_s: float | None = None
    """At the usual speed of the run; else as its own line estimates it."""
    passes: int = 1
    """How often the counter began in the last run: for folds, models or settings of one script."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The observed window."""

    start: float
    end: float
    wall_s: float
    time_base: TimeBase
    sources: tuple[SourceSummary, ...]
    state: Progress = Progress.RUNNING
    """The state that the logs prove."""
    since: float | None = None
    """The time since when, on the axis of `start`; None where it is unknown."""
    components: Mapping[str, Progress] = field(default_factory=dict)
    """The same of each component that the logs name."""
    goal: Goal | None = None
    """Its progress, where lines report it."""
    runs: int = 1
    """The number of runs in the logs; all else is about the last one."""
    role_gpus: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """GPUs by role (trainer, inference), where lines report them."""
    limit_left_s: float | None = None
    """Seconds that it may continue by the limit that a line reports, from the end of what is observed."""
    past_clock: bool = False
    """Most of the work comes after the last line with a timestamp, and took a time that is unknown."""


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """A line that a finding rests on."""

    source: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class ConditionState:
    """One condition of a signature with the values that were met; `held` is None when it could not be observed."""

    text: str
    held: bool | None


@dataclass(frozen=True, slots=True)
class Moment:
    """One occurrence of a finding."""

    id: tuple[int, ...]
    """Identifies the occurrence in every snapshot of one session. Empty for the lack of something, a gap: it has no
    line of its own, and one that shares most of its time is the same."""
    start_s: float
    end_s: float
    key: str = ""
    """Trace id, step or "" """


@dataclass(frozen=True, slots=True)
class Finding:
    """A signature that was recognised, with its cost and its proof."""

    signature: str
    title: str
    severity: Severity
    state: str
    """pending, firing, resolving or resolved (acked, silenced and inhibited are laid over it live)."""
    identity: Mapping[str, str]
    first_s: float
    last_s: float
    count: int
    lost_s: float
    lost_share: float
    sentence: str
    advice: tuple[str, ...]
    evidence: tuple[EvidenceLine, ...]
    confidence: float
    """Share of the signature's conditions that hold."""
    conditions: tuple[ConditionState, ...] = ()
    confused_with: tuple[str, ...] = ()
    explained_by: str | None = None
    """The signature of the finding that explains this one, when there is one (it is then inhibited)."""
    unseen: tuple[str, ...] = ()
    """Data that would raise the confidence ("no inference log: the server side is inferred")."""
    moments: tuple[Moment, ...] = ()
    """The newest of its occurrences, by end."""
    lost: tuple[tuple[float, float], ...] = ()
    """The newest of the stretches that `lost_s` is the length of: from and to, in seconds since `run.start`."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A share of the window; the entries of a ledger sum to its wall time."""

    cause: str
    lost_s: float
    share: float


class Assessment(StrEnum):
    """The assessment of a run as a whole."""

    FINDING = "finding"
    """There is a verdict."""
    HEALTHY = "healthy"
    """Progress is proven, and nothing is wrong with what was observed."""
    WATCH = "watch"
    """A metric is critical, or progress is missing, and no signature explains it."""
    LEARNING = "learning"
    """Too little progress was seen to judge."""
    UNREADABLE = "unreadable"
    """Most lines are of no known format, and no progress was seen."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The one answer."""

    signature: str
    title: str
    severity: Severity
    sentence: str
    lost_s: float
    lost_share: float
    confidence: float
    chain: tuple[str, ...] = ()
    """Signature ids from the symptom to the root cause, when more than one explains the same time."""


@dataclass(frozen=True, slots=True)
class MetricStats:
    """A metric over the window."""

    name: str
    unit: str
    summary: Summary
    last: float
    band: str | None
    """Band of the worst share: critical when any sample was, else warning, else good; None without bands."""
    band_shares: Mapping[str, float]
    good: float | None = None
    critical: float | None = None
    """Limits of the band table; `good` is where warning begins."""
    bands_from: str = ""
    """Origin of the limits: seeds, facts, a user file, calibration."""
    series: tuple[tuple[float, float], ...] = ()
    """(seconds since run.start, value), thinned to at most a few thousand points, for plots and sparklines."""
    not_finite: int = 0
    """So many more samples were nan or infinite; nothing else here heeds them."""
    ends_not_finite: bool = False
    """So was the last of all; `last` is the last one that was not."""
    of_several: bool = False
    """The samples are of several engines, ranks or logs: they make no one line."""


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One weight update, generation batch, checkpoint write or wait."""

    start_s: float
    end_s: float
    kind: str
    """weight-update, generation-batch, checkpoint-write, checkpoint-wait, ..."""
    key: str
    """Trace id, step or "" """
    fields: Mapping[str, float | str]
    overlaps: tuple[str, ...] = ()
    """`kind key` of the rows that share time with this one."""
    evidence: tuple[EvidenceLine, ...] = ()


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """A server's monotonic clock against its client's: add `offset_s` to the client's to get the server's."""

    source: str
    offset_s: float
    uncertainty_s: float
    traces: int = 0
    contradictory: bool = False


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that is known at one instant."""

    version: str
    run: RunInfo
    verdict: Verdict | None
    findings: tuple[Finding, ...]
    ledger: tuple[LedgerEntry, ...]
    metrics: Mapping[str, MetricStats]
    traces_complete: int
    traces_partial: int
    clock_offsets: tuple[ClockOffset, ...]
    skew_detected: bool
    timeline: tuple[TimelineRow, ...] = ()
    slowest: tuple[TimelineRow, ...] = ()
    """Up to ten weight updates, slowest first."""
    summary: str = ""
    """One sentence: the verdict's, or "No bottleneck found" with what was and was not observed."""
    assessment: Assessment = Assessment.LEARNING
    """The kind of verdict, or the reason why there is none."""
    unseen: tuple[str, ...] = ()
    """Signals that were not observed, and their use."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Data that the byte budget thinned out, by kind."""
    gpu_price: float | None = None
    """The configured price of one GPU for an hour."""
    seen: tuple[Seen, ...] = ()
    """The latest readings of GPUs, hosts and queues; `Seen.at` is a time on the axis of `run.end`."""
