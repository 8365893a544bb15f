"""The `--json` document of an analysis, schema 1: plain values that any JSON reader takes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from perfmon.core import CHECKPOINT, DOWNTIME, EVALUATION, RESTORE, STARTUP, WASTED, plain
from perfmon.diagnosis import SCHEMA, Diagnosis, Finding, MetricStats, goodput_of

from .layout import STATISTICS


def json_text(snapshot: Diagnosis) -> str:
    """The document as it is printed."""
    return printed(document(snapshot))


def printed(document: dict[str, Any]) -> str:
    """A document as it is printed."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def document(snapshot: Diagnosis) -> dict[str, Any]:
    """The document; `run.start` and `run.end` are absolute, all other times seconds since `run.start`.

    Absolute is: since 1970 where lines contain dates, since midnight or New Year where they contain a time of day or
    no year, else by the run's monotonic clock. The time at which a file was written would give its day, but not the
    same for a copy of it.
    Numbers that JSON has no word for (NaN, infinities) become null.
    """
    run, offsets = snapshot.run, snapshot.clock_offsets
    return json_object(
        {
            "schema": SCHEMA,
            "perfmon": snapshot.version,
            "run": fields_of(run, "state", "since", "components", "runs")
            | {"goal": run.goal and fields_of(run.goal, "done", "total", "unit", "remaining_s", "passes")}
            | fields_of(run, "limit_left_s", "start", "end", "wall_s", "time_base", "past_clock", "idle_s", "quiet_s")
            | {"sources": [fields_of(source, *_SOURCE) for source in run.sources]},
            "assessment": snapshot.assessment,
            "verdict": snapshot.verdict and fields_of(snapshot.verdict, *_VERDICT),
            "findings": [finding_document(finding) for finding in snapshot.findings],
            "ledger": [fields_of(entry, "cause", "lost_s", "share") for entry in snapshot.ledger],
            "goodput": _goodput(snapshot),
            "metrics": {name: _metric(metric) for name, metric in snapshot.metrics.items()},
            "traces": {
                "complete": snapshot.traces_complete,
                "partial": snapshot.traces_partial,
                "clock_offsets": [fields_of(offset, "source", "offset_s", "uncertainty_s") for offset in offsets],
            },
            "clock": {"skew_detected": snapshot.skew_detected},
            "summary": snapshot.summary,
            "unseen": snapshot.unseen,
            **_machines(snapshot),
        }
    )


def _machines(snapshot: Diagnosis) -> dict[str, Any]:
    if not snapshot.seen:  # most complete logs: nothing about machines need be loaded
        return {}
    from .sections import machines_document

    return machines_document(snapshot)


_SOURCE = ("spec", "format", "bytes", "lines", "events", "skipped", "errors", "first_s", "last_s", "notes")
_VERDICT = ("signature", "title", "severity", "sentence", "lost_s", "lost_share", "lost_by", "confidence", "chain")


def fields_of(item: object, *names: str) -> dict[str, Any]:
    """The attributes of `item` with these names, in their order."""
    return {name: getattr(item, name) for name in names}


def json_object(document: dict[str, Any]) -> dict[str, Any]:
    """`document` in types that any JSON reader takes."""
    safe: dict[str, Any] = _json_value(document)
    return safe


def _json_value(value: Any) -> Any:
    """`value` with plain texts, lists for tuples, and null for numbers that JSON has no word for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return plain(value, 4000)
    if isinstance(value, Mapping):
        return {plain(key, 200): _json_value(item) for key, item in value.items()}
    return [_json_value(item) for item in value] if isinstance(value, list | tuple) else value


_ALIASES: Mapping[str, str] = {
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


def _goodput(snapshot: Diagnosis) -> dict[str, Any]:
    """The goodput in the field's own names; `aliases` has Google's bucket for a type of badput, where one fits."""
    found = goodput_of(snapshot)
    return {
        "goodput_ratio": found.goodput_ratio,
        "badput_seconds": found.badput_s,
        "aliases": {cause: _ALIASES[cause] for cause in found.badput_s if cause in _ALIASES},
        **fields_of(found, "ettr_ratio", "mfu_ratio", "step_time_deviation"),
        "disruptions_total": found.disruptions,
        "gpus": found.gpus,
        "lost_gpu_seconds": found.lost_gpu_s,
        "lost_money": found.lost_money,
        "roles": {
            role: {"gpus": use.gpus, "gpu_seconds": use.gpu_s, "lost_gpu_seconds": use.lost_gpu_s}
            for role, use in found.roles.items()
        },
    }


def finding_document(finding: Finding) -> dict[str, Any]:
    """A finding by the names of the schema; its values are made safe with the rest of the document."""
    return {
        **fields_of(finding, "signature", "title", "severity", "state"),
        "identity": {key: plain(value) for key, value in finding.identity.items()},
        **fields_of(finding, "first_s", "last_s", "count", "lost_s", "lost_share", "sentence"),
        "advice": finding.advice,
        "evidence": [fields_of(line, "source", "line", "text") for line in finding.evidence],
        "confidence": finding.confidence,
        "conditions": [fields_of(condition, "text", "held") for condition in finding.conditions],
        "hypotheses": [
            fields_of(one, "signature", "title", "standing", "supporting", "contradicting", "unseen")
            for one in finding.hypotheses
        ],
        **fields_of(finding, "confused_with", "explained_by", "unseen"),
    }


def _metric(metric: MetricStats) -> dict[str, Any]:
    limits = {"good": metric.good, "critical": metric.critical, "from": metric.bands_from}
    return {
        "unit": metric.unit,
        **fields_of(metric.summary, *STATISTICS),
        "last": None if metric.ends_not_finite else metric.last,
        **fields_of(metric, "not_finite", "band", "band_shares"),
        "limits": None if metric.good is None else limits,
    }
