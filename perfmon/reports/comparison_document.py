"""The `--json` document of `perfmon compare`, schema 1."""

from __future__ import annotations

from typing import Any

from perfmon import __version__
from perfmon.comparison import Comparison, FindingChange, FindingSide, MetricChange, Shift, Side
from perfmon.comparison.metrics import FEWEST, MATERIAL
from perfmon.resampling import RESAMPLES
from perfmon.snapshot import SCHEMA, Snapshot
from perfmon.text import plain

from .document import safe
from .wording import STATISTICS


def document(comparison: Comparison) -> dict[str, Any]:
    """The document; `change` and `ci95` are in the metric's unit, shares are fractions of 1."""
    kinds: dict[str, list[dict[str, Any]]] = {"gone": [], "new": [], "still": []}
    for finding in comparison.findings:
        kinds[finding.kind].append(_finding(finding))
    made: dict[str, Any] = {
        "schema": SCHEMA,
        "perfmon": __version__,
        "verdict": comparison.verdict,
        "sentence": comparison.sentence,
        "runs": {"before": _run(comparison.before), "after": _run(comparison.after)},
        "metrics": {plain(change.name, 200): _metric(change) for change in comparison.metrics},
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


def _run(snapshot: Snapshot) -> dict[str, Any]:
    verdict = snapshot.verdict
    return {
        "start": snapshot.run.start,
        "wall_s": snapshot.run.wall_s,
        "sources": [source.spec for source in snapshot.run.sources],
        "verdict": None if verdict is None else verdict.signature,
        "summary": snapshot.summary,
    }


def _metric(change: MetricChange) -> dict[str, Any]:
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


def _finding(change: FindingChange) -> dict[str, Any]:
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
