"""Metrics of the diagnosis: findings, the verdict, the time breakdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from perfmon.goodput import goodput_of
from perfmon.model import Progress
from perfmon.picture import Alert, AlertState, Picture
from perfmon.rules.schema import Signature
from perfmon.snapshot import Snapshot

from .families import Families
from .names import label_name

FIRING = (AlertState.FIRING, AlertState.ACKED)


def add_findings(families: Families, picture: Picture, signatures: Sequence[Signature]) -> None:
    """Every finding that is known, and for each signature how many of them fire, also where that is none."""
    firing = Counter(alert.finding.signature for alert in picture.alerts if alert.state in FIRING)
    for signature in signatures:
        families.gauge(
            "signature_firing",
            "Number of firing findings, by signature, including 0",
            firing[signature.id],
            signature=signature.id,
            kind=signature.kind,
        )
    for alert in picture.alerts:
        _add_finding(families, alert)


def _add_finding(families: Families, alert: Alert) -> None:
    finding = alert.finding
    identity = {label_name(key): value for key, value in finding.identity.items()}
    labels = {**identity, "signature": finding.signature}
    families.gauge(
        "finding",
        "1 for a finding in its current state and severity",
        1.0,
        severity=finding.severity.value,
        state=alert.state.value,
        **labels,
    )
    families.gauge("finding_lost_seconds", "Seconds a finding has cost since perfmon started", alert.lost_s, **labels)
    families.gauge(
        "finding_lost_ratio",
        "Share of the window that a finding costs",
        finding.lost_share,
        **labels,
    )
    families.gauge("finding_occurrences", "Number of occurrences of a finding", alert.count, **labels)
    families.gauge("finding_confidence_ratio", "Share of its conditions that are met", finding.confidence, **labels)


def add_verdict(families: Families, snapshot: Snapshot) -> None:
    """The one answer; its sentence is left to people: its figures change with every look."""
    verdict = snapshot.verdict
    rank = 0 if verdict is None else 1 + verdict.severity.rank
    families.gauge("verdict_severity", "Severity of the verdict: 0 none, 1 info, 2 warning, 3 critical", rank)
    families.gauge(
        "verdict_lost_seconds",
        "Seconds the verdict costs within the window",
        0.0 if verdict is None else verdict.lost_s,
    )
    families.gauge(
        "verdict_lost_ratio", "Share of the window that it costs", 0.0 if verdict is None else verdict.lost_share
    )
    if verdict is not None:
        families.gauge("verdict_confidence_ratio", "Confidence of the verdict, 0 to 1", verdict.confidence)
        families.info(
            "verdict",
            "Signature of the verdict",
            signature=verdict.signature,
            title=verdict.title,
            severity=verdict.severity.value,
        )


def add_run_state(families: Families, snapshot: Snapshot) -> None:
    """State and assessment of the run: 1 for the current state, 0 for the others."""
    run = snapshot.run
    for state in Progress:
        families.gauge(
            "run_state", "1 for the current state of the run, else 0", float(run.state is state), state=state.value
        )
    for name, state in run.components.items():
        families.gauge(
            "component_state", "1 for the current state of a component", 1.0, component=name, state=state.value
        )
    families.info("assessment", "Assessment of the run as a whole", assessment=snapshot.assessment.value)
    if run.limit_left_s is not None:
        families.gauge("run_limit_left_seconds", "Seconds until the logged time limit ends the run", run.limit_left_s)
    if run.goal is not None:
        families.gauge("run_done", "Progress counter of the run", run.goal.done, unit=run.goal.unit)
        if run.goal.total is not None:
            families.gauge("run_total", "Target of the progress counter", run.goal.total, unit=run.goal.unit)
        if run.goal.remaining_s is not None:
            families.gauge("run_remaining_seconds", "Estimated seconds until the run is done", run.goal.remaining_s)


def add_goodput(families: Families, snapshot: Snapshot) -> None:
    """The ledger in the field's own names."""
    found = goodput_of(snapshot, snapshot.gpu_price)
    families.gauge("goodput_ratio", "Share of the observed time with proven progress", found.goodput_ratio)
    families.gauge("ettr_ratio", "Share of all time from first to last line with proven progress", found.ettr_ratio)
    for cause, seconds in found.badput_s.items():
        families.gauge("badput_seconds", "Seconds without progress, by type", seconds, type=cause)
    if found.mfu_ratio is not None:
        families.gauge("mfu_ratio", "Mean logged model FLOPs utilisation", found.mfu_ratio)
    if found.step_time_deviation is not None:
        families.gauge("step_time_deviation_ratio", "Mean step over median step, less 1", found.step_time_deviation)
    families.gauge("disruptions", "Restarts, plus a failure of the last run", found.disruptions)
    if found.gpus:
        families.gauge("lost_gpu_seconds", "GPU-seconds lost for a known reason", found.lost_gpu_s)
    for role, use in found.roles.items():
        families.gauge("role_gpu_seconds", "GPU-seconds of the observed time, by role", use.gpu_s, role=role)
        families.gauge(
            "role_lost_gpu_seconds", "GPU-seconds lost for a known reason, by role", use.lost_gpu_s, role=role
        )
    if found.lost_money is not None:
        families.gauge("lost_money", "Cost of lost GPU time at the configured price per GPU-hour", found.lost_money)


def add_ledger(families: Families, snapshot: Snapshot) -> None:
    """Time breakdown of the window."""
    for entry in snapshot.ledger:
        families.gauge("ledger_seconds", "Seconds of the window, by cause", entry.lost_s, cause=entry.cause)
        families.gauge("ledger_ratio", "Share of the window, by cause; the sum is 1", entry.share, cause=entry.cause)
