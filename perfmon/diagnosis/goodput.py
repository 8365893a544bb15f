"""Standard metrics of a time breakdown: goodput, badput by type, ETTR, MFU, and the cost of the lost time.

Goodput is the share of the observed time that evidence shows was spent on progress that counts; ETTR has the whole time
from the first line to the last as its denominator, the time between runs included.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from perfmon.core import CHECKPOINT, DOWNTIME, EVALUATION, PRODUCTIVE, RESTORE, STARTUP, UNACCOUNTED, WASTED
from perfmon.sources.pollers import Area

from .result import Diagnosis, MetricStats

ALIASES: Mapping[str, str] = {
    STARTUP: "PROGRAM_STARTUP",
    RESTORE: "UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME",
    WASTED: "WASTED_PROGRESS_FROM_DISRUPTION",
    CHECKPOINT: "UNPRODUCTIVE_CHECKPOINT_SAVE_TIME",
    EVALUATION: "CUSTOM_BADPUT_EVENTS",
    DOWNTIME: "INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION",
    "data-starved": "DATA_LOADING_SYNC",
    "slow-checkpoint-write": "UNPRODUCTIVE_CHECKPOINT_SAVE_TIME",
    "checkpoint-stall": "UNPRODUCTIVE_CHECKPOINT_SAVE_TIME",
    "slow-start": "PROGRAM_STARTUP",
}
"""Names of types of badput in Google's ML Goodput library, where one of its buckets fits."""
_INDEX = re.compile(r"[\w.:-]+")
_HOUR_S = 3600.0
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
    """GPU-seconds of all badput but what is unaccounted for."""
    lost_money: float | None
    """The same at the configured price of a GPU-hour."""
    roles: Mapping[str, RoleUse]
    """By role (trainer, inference …), as far as pollers or lines report their GPUs."""


def goodput_of(snapshot: Diagnosis, gpu_price: float | None = None) -> Goodput:
    """From the ledger of a snapshot; `gpu_price` is that of one GPU for an hour."""
    seconds = {entry.cause: entry.lost_s for entry in snapshot.ledger}
    productive = seconds.pop(PRODUCTIVE, 0.0)
    wall, whole = snapshot.run.wall_s, snapshot.run.end - snapshot.run.start
    gpus = len({(one.host, one.reading.name) for one in snapshot.seen if one.reading.area is Area.GPU})
    lost = sum(lost_s for cause, lost_s in seconds.items() if cause != UNACCOUNTED)
    failed = any(
        finding.signature in ("run-failed", "out-of-memory", "collective-timeout") for finding in snapshot.findings
    )
    mfu = snapshot.metrics.get("mfu_pct")
    return Goodput(
        goodput_ratio=productive / wall if wall > 0 else 0.0,
        badput_s={cause: lost_s for cause, lost_s in seconds.items() if lost_s > 0},
        ettr_ratio=productive / whole if whole > 0 else 0.0,
        mfu_ratio=mfu.summary.mean / 100.0 if mfu is not None else None,
        step_time_deviation=_deviation(snapshot.metrics),
        disruptions=snapshot.run.runs - 1 + failed,
        gpus=gpus,
        lost_gpu_s=lost * gpus,
        lost_money=lost * gpus / _HOUR_S * gpu_price if gpu_price is not None and gpus else None,
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
