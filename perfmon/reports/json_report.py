"""The `--json` document of an analysis, schema 1: plain values that any JSON reader takes."""

from __future__ import annotations

import math
from typing import Any

from perfmon.goodput import ALIASES, goodput_of
from perfmon.snapshot import SCHEMA, Finding, MetricStats, Snapshot, SourceInfo, Verdict
from perfmon.text import plain

from .machines_document import machines_document
from .wording import STATISTICS


def document(snapshot: Snapshot) -> dict[str, Any]:
    """The document; `run.start` and `run.end` are absolute, all other times seconds since `run.start`.

    Absolute is: since 1970 where lines tell dates, since midnight or New Year where they tell a time of day or no year,
    else by the run's monotonic clock. When a file was written would tell its day, but not the same for a copy of it.
    Numbers that JSON has no word for (NaN, infinities) become null.
    """
    run = snapshot.run
    made: dict[str, Any] = {
        "schema": SCHEMA,
        "perfmon": snapshot.version,
        "run": {
            "state": run.state.value,
            "since": run.since,
            "components": {plain(name, 100): state.value for name, state in run.components.items()},
            "runs": run.runs,
            "goal": None
            if run.goal is None
            else {
                "done": run.goal.done,
                "total": run.goal.total,
                "unit": run.goal.unit,
                "remaining_s": run.goal.remaining_s,
            },
            "limit_left_s": run.limit_left_s,
            "start": run.start,
            "end": run.end,
            "wall_s": run.wall_s,
            "time_base": run.time_base.value,
            "sources": [_source(source) for source in run.sources],
        },
        "assessment": snapshot.assessment.value,
        "verdict": None if snapshot.verdict is None else _verdict(snapshot.verdict),
        "findings": [_finding(finding) for finding in snapshot.findings],
        "ledger": [{"cause": e.cause, "lost_s": e.lost_s, "share": e.share} for e in snapshot.ledger],
        "goodput": _goodput(snapshot),
        "metrics": {plain(name, 200): _metric(metric) for name, metric in snapshot.metrics.items()},
        "traces": {
            "complete": snapshot.traces_complete,
            "partial": snapshot.traces_partial,
            "clock_offsets": [
                {"source": c.source, "offset_s": c.offset_s, "uncertainty_s": c.uncertainty_s}
                for c in snapshot.clock_offsets
            ],
        },
        "clock": {"skew_detected": snapshot.skew_detected},
        "summary": snapshot.summary,
        "unseen": list(snapshot.unseen),
        **machines_document(snapshot),
    }
    told: dict[str, Any] = safe(made)
    return told


def safe(value: Any) -> Any:
    """`value` with plain texts, and null for numbers that JSON has no word for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return plain(value, 4000)
    if isinstance(value, dict):
        return {key: safe(item) for key, item in value.items()}
    return [safe(item) for item in value] if isinstance(value, list) else value


def _goodput(snapshot: Snapshot) -> dict[str, Any]:
    """In the field's own names; `aliases` has Google's bucket for a type of badput, where one fits."""
    found = goodput_of(snapshot, snapshot.gpu_price)
    return {
        "goodput_ratio": found.goodput_ratio,
        "badput_seconds": {plain(cause, 100): seconds for cause, seconds in found.badput_s.items()},
        "aliases": {cause: ALIASES[cause] for cause in found.badput_s if cause in ALIASES},
        "ettr_ratio": found.ettr_ratio,
        "mfu_ratio": found.mfu_ratio,
        "step_time_deviation": found.step_time_deviation,
        "disruptions_total": found.disruptions,
        "gpus": found.gpus,
        "lost_gpu_seconds": found.lost_gpu_s,
        "lost_money": found.lost_money,
        "roles": {
            plain(role, 100): {"gpus": use.gpus, "gpu_seconds": use.gpu_s, "lost_gpu_seconds": use.lost_gpu_s}
            for role, use in found.roles.items()
        },
    }


def _source(source: SourceInfo) -> dict[str, Any]:
    return {
        "spec": source.spec,
        "format": source.format,
        "bytes": source.bytes,
        "lines": source.lines,
        "events": source.events,
        "skipped": source.skipped,
        "errors": source.errors,
        "first_s": source.first_s,
        "last_s": source.last_s,
        "notes": list(source.notes),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "signature": verdict.signature,
        "title": verdict.title,
        "severity": verdict.severity.value,
        "sentence": verdict.sentence,
        "lost_s": verdict.lost_s,
        "lost_share": verdict.lost_share,
        "confidence": verdict.confidence,
        "chain": list(verdict.chain),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "signature": finding.signature,
        "title": finding.title,
        "severity": finding.severity.value,
        "state": finding.state,
        "identity": {plain(key, 100): plain(value) for key, value in finding.identity.items()},
        "first_s": finding.first_s,
        "last_s": finding.last_s,
        "count": finding.count,
        "lost_s": finding.lost_s,
        "lost_share": finding.lost_share,
        "sentence": finding.sentence,
        "advice": list(finding.advice),
        "evidence": [{"source": e.source, "line": e.line, "text": e.text} for e in finding.evidence],
        "confidence": finding.confidence,
        "conditions": [{"text": c.text, "held": c.held} for c in finding.conditions],
        "confused_with": list(finding.confused_with),
        "explained_by": finding.explained_by,
        "unseen": list(finding.unseen),
    }


def _metric(metric: MetricStats) -> dict[str, Any]:
    return {
        "unit": metric.unit,
        **{name: getattr(metric.summary, name) for name in STATISTICS},
        "last": None if metric.ends_not_finite else metric.last,
        "not_finite": metric.not_finite,
        "band": metric.band,
        "band_shares": dict(metric.band_shares),
        "limits": None
        if metric.good is None
        else {"good": metric.good, "critical": metric.critical, "from": metric.bands_from},
    }
