"""The `--json` documents of an analysis and of a comparison, schema 1."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from perfmon._version import __version__
from perfmon.comparison import FEWEST, MATERIAL, Comparison, FindingChange, MetricChange, Side
from perfmon.core import RESAMPLES, plain
from perfmon.diagnosis import ALIASES, SCHEMA, Diagnosis, Finding, MetricStats, goodput_of
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
    `sources.pollers.Area`. What is not known is not there.
    """
    around = HostOverview.of(snapshot.seen, (), snapshot.run.end)
    lists = {
        "gpus": [_item(around, seen) for _, seen in around.of_area(Area.GPU)],
        "hosts": [_host(around, host) for host in around.hosts if host.of(Area.HOST, *_BELOW)],
        "queues": [_item(around, seen, kind=True) for _, seen in around.of_area(*_QUEUES)],
    }
    return {name: items for name, items in lists.items() if items}


def _item(around: HostOverview, seen: Seen, *, kind: bool = False) -> dict[str, Any]:
    reading = seen.reading
    area = {"area": reading.area.value} if kind else {}
    head = {"host": seen.host, "name": reading.name, **area, "age_s": round(around.age_s(seen), 3)}
    return head | {key: value for key, value in (*reading.words.items(), *reading.values.items()) if key not in head}


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


def json_text(result: Diagnosis | Comparison) -> str:
    """The document of an analysis or a comparison as it is printed."""
    made = document(result) if isinstance(result, Diagnosis) else comparison_document(result)
    return json.dumps(made, indent=2, allow_nan=False) + "\n"


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
            "run": _fields(run, "state", "since", "components", "runs")
            | {"goal": run.goal and _fields(run.goal, "done", "total", "unit", "remaining_s", "passes")}
            | _fields(run, "limit_left_s", "start", "end", "wall_s", "time_base", "past_clock")
            | {"sources": [_fields(source, *_SOURCE) for source in run.sources]},
            "assessment": snapshot.assessment,
            "verdict": snapshot.verdict and _fields(snapshot.verdict, *_VERDICT),
            "findings": [finding_document(finding) for finding in snapshot.findings],
            "ledger": [_fields(entry, "cause", "lost_s", "share") for entry in snapshot.ledger],
            "goodput": _goodput(snapshot),
            "metrics": {name: _metric(metric) for name, metric in snapshot.metrics.items()},
            "traces": {
                "complete": snapshot.traces_complete,
                "partial": snapshot.traces_partial,
                "clock_offsets": [_fields(offset, "source", "offset_s", "uncertainty_s") for offset in offsets],
            },
            "clock": {"skew_detected": snapshot.skew_detected},
            "summary": snapshot.summary,
            "unseen": snapshot.unseen,
            **machines_document(snapshot),
        }
    )


_SOURCE = ("spec", "format", "bytes", "lines", "events", "skipped", "errors", "first_s", "last_s", "notes")
_VERDICT = ("signature", "title", "severity", "sentence", "lost_s", "lost_share", "confidence", "chain")


def _fields(item: object, *names: str) -> dict[str, Any]:
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


def _goodput(snapshot: Diagnosis) -> dict[str, Any]:
    """The goodput in the field's own names; `aliases` has Google's bucket for a type of badput, where one fits."""
    found = goodput_of(snapshot, snapshot.gpu_price)
    return {
        "goodput_ratio": found.goodput_ratio,
        "badput_seconds": found.badput_s,
        "aliases": {cause: ALIASES[cause] for cause in found.badput_s if cause in ALIASES},
        **_fields(found, "ettr_ratio", "mfu_ratio", "step_time_deviation"),
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
        **_fields(finding, "signature", "title", "severity", "state"),
        "identity": {key: plain(value) for key, value in finding.identity.items()},
        **_fields(finding, "first_s", "last_s", "count", "lost_s", "lost_share", "sentence"),
        "advice": finding.advice,
        "evidence": [_fields(line, "source", "line", "text") for line in finding.evidence],
        "confidence": finding.confidence,
        "conditions": [_fields(condition, "text", "held") for condition in finding.conditions],
        **_fields(finding, "confused_with", "explained_by", "unseen"),
    }


def _metric(metric: MetricStats) -> dict[str, Any]:
    limits = {"good": metric.good, "critical": metric.critical, "from": metric.bands_from}
    return {
        "unit": metric.unit,
        **_fields(metric.summary, *STATISTICS),
        "last": None if metric.ends_not_finite else metric.last,
        **_fields(metric, "not_finite", "band", "band_shares"),
        "limits": None if metric.good is None else limits,
    }


# --- The `--json` document of `perfmon compare`, schema 1 ---


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """The document; `change` and `ci95` are in the metric's unit, shares are fractions of 1."""
    kinds: dict[str, list[dict[str, Any]]] = {"gone": [], "new": [], "still": []}
    for finding in comparison.findings:
        kinds[finding.kind].append(_finding_change(finding))
    return json_object(
        {
            "schema": SCHEMA,
            "perfmon": __version__,
            "verdict": comparison.verdict,
            "sentence": comparison.sentence,
            "runs": {"before": _run(comparison.before), "after": _run(comparison.after)},
            "metrics": {change.name: _metric_change(change) for change in comparison.metrics},
            "findings": kinds,
            "lost": [_fields(entry, "cause", "before", "after") for entry in comparison.lost],
            "lost_change": _fields(comparison.lost_change, "change", "ci95"),
            "criteria": [_fields(result, "name", "ok") | {"told": result.figures} for result in comparison.criteria],
            "notes": comparison.notes,
            "method": {
                "intervals": "circular block bootstrap in time order, 95 %",
                "resamples": RESAMPLES,
                "fewest_samples": FEWEST,
                "material_share": MATERIAL,
            },
        }
    )


def _run(snapshot: Diagnosis) -> dict[str, Any]:
    return {
        **_fields(snapshot.run, "start", "wall_s"),
        "sources": [source.spec for source in snapshot.run.sources],
        "verdict": snapshot.verdict and snapshot.verdict.signature,
        "summary": snapshot.summary,
    }


def _metric_change(change: MetricChange) -> dict[str, Any]:
    shifts = {name: _fields(shift, "change", "ci95") for name, shift in change.shifts.items()}
    return {
        "unit": change.unit,
        "better": change.better or None,
        "before": _side(change.before),
        "after": _side(change.after),
        **shifts.pop("mean", {"change": None, "ci95": None}),
        **shifts,
        **_fields(change, "verdict", "why", "unsure", "counts"),
    }


def _side(side: Side | None) -> dict[str, Any] | None:
    if side is None:
        return None
    summary = _fields(side.summary, *STATISTICS)
    return {**summary, **_fields(side, "effective", "band"), "bands_from": side.bands_from or None}


def _finding_change(change: FindingChange) -> dict[str, Any]:
    return {
        **_fields(change, "signature", "title"),
        "before": change.before and _fields(change.before, *_FINDING_SIDE),
        "after": change.after and _fields(change.after, *_FINDING_SIDE),
        "proven": change.proven,
        "may_be_chance": change.rare,
        "spread": change.spread,
    }


_FINDING_SIDE = ("severity", "count", "lost_s", "lost_share", "sentence")
