"""The result of a diagnosis, immutable, for all readers: screen, reports, exporters, recordings.

Times are seconds of event time since `run.start`; durations and shares have their unit in the name. Shares are
fractions of 1 (except metric values in `%`, which are percentages).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from perfmon.core import (
    IDLE,
    PRODUCTIVE,
    UNACCOUNTED,
    Progress,
    Severity,
    Summary,
    TimeBase,
)
from perfmon.sources.pollers import Area

if TYPE_CHECKING:
    from perfmon.rules import Pace, Phase, Resumption
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
    early: bool = False
    """The run has ended in good order far before its total: by early stopping, on request, or at another limit."""


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
    """Seconds that it may continue by the limit that a line reports."""
    past_clock: bool = False
    """Most of the work comes after the last line with a timestamp, and took a time that is unknown."""
    saved: float | None = None
    """The time of its last checkpoint, on the axis of `start`; None where no line reports one."""
    saved_step: float | None = None
    """The step of its last checkpoint; None where no line reports that."""
    unsaved_steps: float | None = None
    """Steps since then."""
    sound_step: float | None = None
    """The step of the last checkpoint before its loss diverged; None where it did not, or no line reports one."""
    pace: Pace | None = None
    """The rhythm of its progress; None where it has none yet."""
    idle: float | None = None
    """The time since when its servers have no request; None where they have, or others run."""
    unused: float | None = None
    """The last output of servers that print none without requests: idle or hung since then; None elsewhere."""
    phase: Phase | None = None
    """What it does now that is not its steps."""
    restart: Resumption | None = None
    """Its last restart; None where it began once."""
    quiet_s: float | None = None
    """Age of the last write to its complete logs, where it is more than the rhythm of a run that continues allows."""
    serves_alone: bool = False
    """Its engines serve requests, and nothing trains next to them."""
    load: tuple[float, float] | None = None
    """Requests that ran, and that waited, when its servers last reported; None where they had none, or others run."""
    without_end: tuple[str, ...] = ()
    """Its logs with steps that state no end, in a run that is over by others."""

    @property
    def idle_s(self) -> float | None:
        """Seconds without requests, up to the end of what is observed."""
        return None if self.idle is None else max(0.0, self.end - self.idle)


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
    """In words, with the values and their limits: of alternatives the one that decides."""
    held: bool | None
    value: str = ""
    """The values alone: `queue_ms 30.3 s`."""
    limit: str = ""
    """The limit that decides: `critical > 1 s`, `> 32`; "" without one."""


@dataclass(frozen=True, slots=True)
class HypothesisState:
    """A signature that may explain a finding, with the values that support and contradict it."""

    signature: str
    title: str
    standing: str
    """shown: it is the cause; open: what decides is not observed; refuted: something that it needs does not hold;
    `needs ...`: only that shows or refutes it, and the run has none."""
    supporting: tuple[str, ...]
    contradicting: tuple[str, ...]
    unseen: tuple[str, ...]
    """Metrics that would decide, and are not observed."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One occurrence of a finding."""

    id: tuple[int, ...]
    """Identifies the occurrence in every snapshot of one session; empty for a gap, which its time identifies."""
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
    hypotheses: tuple[HypothesisState, ...] = ()
    """Possible causes, the likeliest first; of a finding that explains another one, those of that one."""
    moments: tuple[Moment, ...] = ()
    """The newest of its occurrences, by end."""
    commands: tuple[str, ...] = ()
    """Commands to run, or options to set, one line each; words in capitals are to be replaced."""
    lost: tuple[tuple[float, float], ...] = ()
    """The newest of the intervals that `lost_s` is the length of: from and to, in seconds since `run.start`."""
    since_s: float = 0.0
    """Start of the last of its episodes: it has not paused since then."""
    proof: tuple[str, ...] = ()
    """Metrics and kinds of spans that its conditions are met by, the one that shows it best first."""


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
    lost_by: str = ""
    """Whose time it is, where the rest of the run continues meanwhile; "" where the run loses it."""


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
    """So many more samples were nan or infinite; no other figure here counts them."""
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

    @property
    def verdict_finding(self) -> Finding | None:
        """The costliest finding of the verdict's signature."""
        mine = [one for one in self.findings if self.verdict is not None and one.signature == self.verdict.signature]
        return max(mine, key=lambda finding: finding.lost_s, default=None)


# --- Standard metrics of a time breakdown: goodput, badput by type, ETTR, MFU, and the cost of the lost time ---
#
# Goodput is the share of the observed time that evidence shows was spent on progress that counts; ETTR has the whole
# time from the first line to the last as its denominator, the time between runs included.

_INDEX = re.compile(r"[\w.:-]+")
_HOUR_S = 3600.0
_FAILURES = ("run-failed", "out-of-memory", "collective-timeout")
_STEP_METRICS = ("step_s", "trainer_step_s", "orchestrator_step_s")


@dataclass(frozen=True, slots=True)
class RoleUse:
    """GPUs that a role had, and the GPU-seconds of the observed time; those of badput apart."""

    gpus: int
    gpu_s: float
    lost_gpu_s: float


@dataclass(frozen=True, slots=True)
class Goodput:
    """The use of the observed time, in the field's own terms; shares are fractions of 1, times seconds."""

    goodput_ratio: float
    badput_s: Mapping[str, float]
    """By type: signatures and entries of the ledger, what is unaccounted for included."""
    ettr_ratio: float
    mfu_ratio: float | None
    """Mean of the logged values; None without any."""
    step_time_deviation: float | None
    """Time by which the mean step exceeds the median one, as a fraction of the median."""
    disruptions: int
    """Restarts in these logs, and the failure of the last run."""
    gpus: int
    """GPUs that pollers report on the hosts of the run; 0 without pollers."""
    lost_gpu_s: float
    """GPU-seconds of all badput but what is unaccounted for, or without requests."""
    lost_money: float | None
    """The same at the configured price of a GPU-hour."""
    roles: Mapping[str, RoleUse]
    """By role (trainer, inference …), as far as pollers or lines report their GPUs."""


def goodput_of(snapshot: Diagnosis) -> Goodput:
    """From the ledger of a snapshot."""
    seconds = {entry.cause: entry.lost_s for entry in snapshot.ledger}
    productive = seconds.pop(PRODUCTIVE, 0.0)
    wall, whole = snapshot.run.wall_s, snapshot.run.end - snapshot.run.start
    gpus = len({(one.host, one.reading.name) for one in snapshot.seen if one.reading.area is Area.GPU})
    lost = sum(lost_s for cause, lost_s in seconds.items() if cause not in (IDLE, UNACCOUNTED))
    failed = any(finding.signature in _FAILURES for finding in snapshot.findings)
    price, mfu = snapshot.gpu_price, snapshot.metrics.get("mfu_pct")
    return Goodput(
        goodput_ratio=productive / wall if wall > 0 else 0.0,
        badput_s={cause: lost_s for cause, lost_s in seconds.items() if lost_s > 0},
        ettr_ratio=productive / whole if whole > 0 else 0.0,
        mfu_ratio=mfu.summary.mean / 100.0 if mfu is not None else None,
        step_time_deviation=_deviation(snapshot.metrics),
        disruptions=snapshot.run.runs - 1 + failed,
        gpus=gpus,
        lost_gpu_s=lost * gpus,
        lost_money=lost * gpus / _HOUR_S * price if price is not None and gpus else None,
        roles={role: RoleUse(n, n * wall, n * lost) for role, n in sorted(_gpus_by_role(snapshot).items())},
    )


def _gpus_by_role(snapshot: Diagnosis) -> Mapping[str, int]:
    """The number of GPUs that the processes of each role use; shared ones count for the roles together."""
    roles: dict[tuple[str, str], str] = {}
    used: dict[tuple[str, str], set[str]] = {}
    for one in snapshot.seen:
        if one.reading.area is not Area.PROCESS:
            continue
        process = (one.host, one.reading.name)
        if role := one.reading.words.get("role"):
            roles[process] = role
        if gpus := one.reading.words.get("gpu"):
            used.setdefault(process, set()).update(_INDEX.findall(gpus))
    holders: dict[tuple[str, str], set[str]] = {}
    for process, indices in used.items():
        for index in indices:
            holders.setdefault((process[0], index), set()).add(roles.get(process, ""))
    counts = Counter("+".join(sorted(held - {""})) for held in holders.values() if held - {""})
    return counts or {role: len(gpus) for role, gpus in snapshot.run.role_gpus.items()}


def _deviation(metrics: Mapping[str, MetricStats]) -> float | None:
    steps = next((metrics[name] for name in _STEP_METRICS if name in metrics), None)
    if steps is None or not steps.summary.p50:
        return None
    return steps.summary.mean / steps.summary.p50 - 1.0
