"""The `--json` documents of an analysis and of a comparison, schema 1."""

from __future__ import annotations

import math
from typing import Any

from perfmon._version import __version__
from perfmon.comparison import FEWEST, MATERIAL, Comparison, FindingChange, FindingSide, MetricChange, Shift, Side
from perfmon.core import RESAMPLES, plain
from perfmon.diagnosis import ALIASES, SCHEMA, Diagnosis, Finding, MetricStats, SourceSummary, Verdict, goodput_of
from perfmon.sources.pollers import Area
from perfmon.store import Seen
from perfmon.viewmodel import Host, HostOverview

from .layout import STATISTICS

# --- GPUs, hosts and queues in the `--json` document: numbers as numbers, by names that say their unit ---

_BELOW = {Area.DISK: "disks", Area.NIC: "interfaces", Area.SOCKET: "sockets", Area.PROCESS: "processes"}
_QUEUES = (Area.QUEUE, Area.JOB, Area.NODE, Area.VALUE)


def machines_document(snapshot: Diagnosis) -> dict[str, Any]:
    """`gpus`, `hosts` and `queues`: a list each, and only those that were observed.

    Every item has `host`, `name` and `age_s`, its age at the end of the run; then what was polled, under the names of
    `sources.polls.reading.Area`. What is not known is not there.
    """
    around = HostOverview.of(snapshot.seen, (), snapshot.run.end)
    told = {
        "gpus": [_item(around, seen) for _, seen in around.of_area(Area.GPU)],
        "hosts": [_host(around, host) for host in around.hosts if host.of(Area.HOST, *_BELOW)],
        "queues": [_item(around, seen, kind=True) for _, seen in around.of_area(*_QUEUES)],
    }
    return {name: items for name, items in told.items() if items}


def _item(around: HostOverview, seen: Seen, *, kind: bool = False) -> dict[str, Any]:
    reading = seen.reading
    area = {"area": reading.area.value} if kind else {}
    head = {"host": seen.host, "name": reading.name, **area, "age_s": round(around.age_s(seen), 3)}
    return head | {key: told for key, told in (*reading.words.items(), *reading.values.items()) if key not in head}


def _host(around: HostOverview, host: Host) -> dict[str, Any]:
    made: dict[str, Any] = {"host": host.name, "name": "all"}
    if host.whole is not None:
        made = _item(around, host.whole)
    else:
        newest = max(host.of(*_BELOW), key=lambda seen: seen.at)
        made["age_s"] = round(around.age_s(newest), 3)
    below = {name: [_item(around, seen) for seen in host.of(area)] for area, name in _BELOW.items()}
    return made | {name: items for name, items in below.items() if items}


# --- The `--json` document of an analysis, schema 1: plain values that any JSON reader takes ---


def document(snapshot: Diagnosis) -> dict[str, Any]:
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
        "findings": [finding_document(finding) for finding in snapshot.findings],
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


def _goodput(snapshot: Diagnosis) -> dict[str, Any]:
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


def _source(source: SourceSummary) -> dict[str, Any]:
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


def finding_document(finding: Finding) -> dict[str, Any]:
    """One finding, as in the document of an analysis."""
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


# --- The `--json` document of `perfmon compare`, schema 1 ---


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """The document; `change` and `ci95` are in the metric's unit, shares are fractions of 1."""
    kinds: dict[str, list[dict[str, Any]]] = {"gone": [], "new": [], "still": []}
    for finding in comparison.findings:
        kinds[finding.kind].append(_finding_change(finding))
    made: dict[str, Any] = {
        "schema": SCHEMA,
        "perfmon": __version__,
        "verdict": comparison.verdict,
        "sentence": comparison.sentence,
        "runs": {"before": _run(comparison.before), "after": _run(comparison.after)},
        "metrics": {plain(change.name, 200): _metric_change(change) for change in comparison.metrics},
        "findings": kinds,
        "lost": [{"cause": e.cause, "before": e.before, "after": e.after} for e in comparison.lost],
        "lost_change": _shift(comparison.lost_change),
        "criteria": [{"name": c.name, "ok": c.ok, "told": c.told} for c in comparison.criteria],
        "notes": list(comparison.notes),
        "method": {
            "intervals": "circular block bootstrap in time order, 95 %",
            "resamples": RESAMPLES,
            "fewest_samples": FEWEST,
            "material_share": MATERIAL,
        },
    }
    told: dict[str, Any] = safe(made)
    return told


def _run(snapshot: Diagnosis) -> dict[str, Any]:
    verdict = snapshot.verdict
    return {
        "start": snapshot.run.start,
        "wall_s": snapshot.run.wall_s,
        "sources": [source.spec for source in snapshot.run.sources],
        "verdict": None if verdict is None else verdict.signature,
        "summary": snapshot.summary,
    }


def _metric_change(change: MetricChange) -> dict[str, Any]:
    mean = change.shifts.get("mean")
    return {
        "unit": change.unit,
        "better": change.better or None,
        "before": _side(change.before),
        "after": _side(change.after),
        "change": None if mean is None else mean.change,
        "ci95": None if mean is None or mean.ci95 is None else list(mean.ci95),
        **{name: _shift(shift) for name, shift in change.shifts.items() if name != "mean"},
        "verdict": change.verdict,
        "why": change.why,
        "unsure": change.unsure,
        "counts": change.counts,
    }


def _shift(shift: Shift) -> dict[str, Any]:
    return {"change": shift.change, "ci95": None if shift.ci95 is None else list(shift.ci95)}


def _side(side: Side | None) -> dict[str, Any] | None:
    if side is None:
        return None
    figures = {name: getattr(side.summary, name) for name in STATISTICS}
    return {**figures, "effective": side.effective, "band": side.band, "bands_from": side.bands_from or None}


def _finding_change(change: FindingChange) -> dict[str, Any]:
    return {
        "signature": change.signature,
        "title": change.title,
        "before": _found(change.before),
        "after": _found(change.after),
        "proven": change.proven,
        "may_be_chance": change.rare,
        "spread": change.spread,
    }


def _found(side: FindingSide | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "severity": side.severity.value,
        "count": side.count,
        "lost_s": side.lost_s,
        "lost_share": side.lost_share,
        "sentence": side.sentence,
    }
