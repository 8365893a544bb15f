"""`perfmon report`: a run as one HTML file with a timeline to zoom, and with a baseline run what changed since."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from perfmon.comparison import Comparison
from perfmon.core import PRODUCTIVE, REST, YEARLESS_S, Progress, TimeBase, common_folder, format_seconds, format_share
from perfmon.diagnosis import Assessment, Diagnosis, Finding, MetricStats, SourceSummary, TimelineRow, goodput_of
from perfmon.sources.formats import meaning_of

from .anonymize import map_texts
from .comparison import for_page
from .json_report import json_object
from .layout import (
    CONDITION_SIGNS,
    amount,
    clock_notes,
    fields_text,
    figure,
    finding_line,
    goal_text,
    limits_text,
    loss_notes,
    most_critical_first,
    one_line,
    run_line,
    state_text,
    verdict_line,
    weighed,
)
from .snapshot_page import masked

_SHOWN_FINDINGS = 60
_SHOWN_SPANS = 6000
_SHOWN_POINTS = 1500
_SHOWN_METRICS = 150
_SHOWN_SOURCES = 300
_FINDING_LANES = 8
_TILES = (
    ("time per step", ("step_s", "trainer_step_s", "orchestrator_step_s")),
    ("throughput", ("throughput_tps", "gen_tps", "samples_per_s")),
    ("MFU", ("mfu_pct",)),
    ("loss", ("loss",)),
    ("reward", ("reward",)),
)
"""Progress of a run: the first of these metrics that was observed."""
_BADGES = {
    Assessment.HEALTHY: ("good", "healthy"),
    Assessment.WATCH: ("warning", "watch"),
    Assessment.LEARNING: ("unknown", "learning"),
    Assessment.UNREADABLE: ("unknown", "unreadable"),
}


def run_page(snapshot: Diagnosis, made: datetime, *, comparison: Comparison | None = None, redact: bool = False) -> str:
    """The page about a run; with `comparison`, whose run after is this one, also what changed since the other.

    Secrets are masked, with `redact` also hosts, addresses, paths and users, in both runs alike.
    """
    known = (snapshot,) if comparison is None else (snapshot, comparison.before)
    snapshot, comparison = masked((snapshot, comparison), known, redact)
    folder = common_folder([source.spec for source in snapshot.run.sources])
    inside = map_texts(snapshot, lambda text: text.removeprefix(folder))
    document = {
        "head": run_line(snapshot.run),
        "place": folder or ", ".join(source.spec for source in snapshot.run.sources[:3]),
        "made": f"perfmon {snapshot.version} · made {made:%Y-%m-%d %H:%M:%S %z}".rstrip(),
        "state": _state(snapshot),
        "tiles": list(_tiles(snapshot)),
        "verdict": _verdict(inside),
        "ledger": _ledger(snapshot, comparison),
        "axis": _axis(snapshot),
        "lanes": _lanes(inside),
        "findings": [_finding(finding) for finding in inside.findings[:_SHOWN_FINDINGS]],
        "metrics": _metrics(snapshot, None if comparison is None else comparison.before),
        "sources": [_source(source) for source in inside.run.sources[:_SHOWN_SOURCES]],
        "caveats": [*loss_notes(inside.run.sources), *clock_notes(inside)],
        "unseen": inside.unseen,
        "comparison": None if comparison is None else for_page(comparison),
    }
    return web_page(
        "perfmon report",
        "run.html",
        json_object(document),
        scripts=["uPlot.iife.min.js", "run.js"],
        styles=["uPlot.min.css"],
    )


def _state(snapshot: Diagnosis) -> dict[str, Any]:
    """The state of the run, and its colour."""
    state = snapshot.run.state
    level = {Progress.FAILED: "critical", Progress.STALLED: "critical", Progress.FINISHED: "good"}.get(state, "unknown")
    over = state in (Progress.FINISHED, Progress.FAILED)  # then that a log has no end of its own is no news
    shown = {} if over else snapshot.run.components
    parts = {name: other for name, other in shown.items() if other is not state}
    return {
        "text": state_text(snapshot.run),
        "level": level,
        "parts": [f"{name}: {other.value}" for name, other in parts.items()],
    }


def _tiles(snapshot: Diagnosis) -> Iterator[tuple[str, str, str]]:
    """Progress in figures: name, value, remark. What the logs lack has no tile."""
    if snapshot.run.goal is not None:
        done, _, left = goal_text(snapshot.run.goal).partition(", about ")
        yield "progress", done, left and f"about {left}"
    for name, metrics in _TILES:
        found = next((snapshot.metrics[metric] for metric in metrics if metric in snapshot.metrics), None)
        if found is not None:
            last = "not finite" if found.ends_not_finite else amount(found.last, found.unit)
            yield name, last, f"median {amount(found.summary.p50, found.unit)}"
    if snapshot.run.wall_s > 0 and snapshot.ledger:
        use = goodput_of(snapshot)
        remark = f"of the whole time {format_share(use.ettr_ratio)} (ETTR)"
        if use.disruptions:
            remark += f", disruptions {use.disruptions}"
        yield "productive", format_share(use.goodput_ratio), remark


# --- the verdict and its reasons ---


def _verdict(snapshot: Diagnosis) -> dict[str, Any]:
    verdict = snapshot.verdict
    if verdict is None:
        level, word = _BADGES.get(snapshot.assessment, ("unknown", "no verdict"))
        return {"level": level, "badge": word, "title": "", "sentence": snapshot.summary or "No bottleneck found."}
    finding = snapshot.verdict_finding
    brief = (
        finding is not None and finding.sentence.rstrip(".") in verdict.sentence
    )  # cost and fix have their own place
    return {
        "level": verdict.severity.value,
        "badge": verdict.severity.value,
        "title": verdict.title,
        "sentence": finding.sentence if finding is not None and brief else verdict.sentence,
        "cost": verdict_line(snapshot, verdict),
        "chain": " ← ".join(verdict.chain) if len(verdict.chain) > 1 else "",
        "why": [] if finding is None else _conditions(finding),
        "fix": [] if finding is None else finding.advice,
        "finding": None if finding is None else snapshot.findings.index(finding),
    }


def _conditions(finding: Finding) -> list[tuple[str, str]]:
    return [(CONDITION_SIGNS[condition.held], condition.text) for condition in finding.conditions]


def _finding(finding: Finding) -> dict[str, Any]:
    others = [f"{one.title} ({one.signature}): {one.standing}" for one in finding.hypotheses]
    return {
        "title": finding.title,
        "level": finding.severity.value,
        "signature": finding.signature,
        "identity": fields_text(finding.identity),
        "sentence": finding.sentence,
        "line": finding_line(finding),
        "commands": finding.commands,
        "why": _conditions(finding),
        "fix": finding.advice,
        "evidence": [(f"{line.source}:{line.line}", line.text) for line in finding.evidence],
        "causes": [
            (other, [f"{sign} {'; '.join(texts)}" for sign, texts in weighed(one)])
            for other, one in zip(others, finding.hypotheses, strict=True)
        ],
        "remarks": [
            *([f"explained by {finding.explained_by}"] if finding.explained_by else []),
            *(f"often confused with {other}" for other in finding.confused_with),
            *(f"not observed: {missing}" for missing in finding.unseen),
        ],
        "from": finding.first_s,
        "to": finding.last_s,
    }


# --- time ---


def _axis(snapshot: Diagnosis) -> dict[str, Any]:
    """The clock of the logs: `start` is None where they have none, and `dated` where lines contain dates.

    Without any time the axis is the number of a sample (`samples`).
    """
    run = snapshot.run
    if run.time_base is TimeBase.NONE:
        longest = max((metric.summary.count for metric in snapshot.metrics.values()), default=0)
        return {"start": None, "dated": False, "end": max(longest - 1, 1), "samples": True}
    wall = run.time_base is TimeBase.WALL
    return {
        "start": run.start if wall else None,
        "dated": wall and run.start >= YEARLESS_S,
        "end": max(run.end - run.start, 1.0),
        "samples": False,
    }


def _ledger(snapshot: Diagnosis, comparison: Comparison | None) -> list[dict[str, Any]]:
    before = {} if comparison is None else {entry.cause: entry.share for entry in comparison.before.ledger}
    return [
        {
            "cause": entry.cause,
            "kind": "productive" if entry.cause == PRODUCTIVE else "rest" if entry.cause in REST else "lost",
            "time": format_seconds(entry.lost_s),
            "share": entry.share,
            "before": before.get(entry.cause, 0.0) if comparison is not None else None,
        }
        for entry in snapshot.ledger
        if entry.share > 0 or before.get(entry.cause, 0.0) > 0
    ]


def _lanes(snapshot: Diagnosis) -> list[dict[str, Any]]:
    """Findings first, then spans by kind; a bar is start, end and its text."""
    if snapshot.run.time_base is TimeBase.NONE:
        return []
    by_signature: dict[str, list[Finding]] = {}
    for finding in snapshot.findings:
        by_signature.setdefault(finding.signature, []).append(finding)
    lanes = [
        {
            "name": found[0].title,
            "level": max((one.severity for one in found), key=lambda severity: severity.rank).value,
            "bars": [bar for one in found for bar in _occurrences(one)],
        }
        for found in list(by_signature.values())[:_FINDING_LANES]
    ]
    rows = sorted(snapshot.timeline, key=lambda row: row.start_s - row.end_s)[:_SHOWN_SPANS]
    kinds: dict[str, list[TimelineRow]] = {}
    for row in sorted(rows, key=lambda row: row.start_s):
        kinds.setdefault(row.kind, []).append(row)
    return lanes + [
        {
            "name": kind.replace("-", " "),
            "level": "",
            "bars": [(row.start_s, row.end_s, _bar_text(row)) for row in held],
        }
        for kind, held in kinds.items()
    ]


def _occurrences(finding: Finding) -> list[tuple[float, float, str]]:
    """The times at which it happened: the lost time, the occurrences, or all from the first to the last."""
    spans = list(finding.lost) or [(moment.start_s, moment.end_s) for moment in finding.moments]
    return [(start, end, finding.title) for start, end in spans or [(finding.first_s, finding.last_s)]]


def _bar_text(row: TimelineRow) -> str:
    name = f"{one_line(row.kind, 60)} {one_line(row.key, 60)}".rstrip()
    return f"{name}: {format_seconds(row.end_s - row.start_s)}  {fields_text(row.fields)}".rstrip()


# --- metrics ---


def _metrics(snapshot: Diagnosis, before: Diagnosis | None) -> list[dict[str, Any]]:
    """The most pressing metrics first, with their course."""
    ranked = sorted(snapshot.metrics.values(), key=most_critical_first)[:_SHOWN_METRICS]
    others: Mapping[str, MetricStats] = {} if before is None else before.metrics
    timeless = snapshot.run.time_base is TimeBase.NONE
    return [_metric(metric, others.get(metric.name), timeless) for metric in ranked]


def _metric(metric: MetricStats, before: MetricStats | None, timeless: bool) -> dict[str, Any]:
    limits = ((metric.good, "warning"), (metric.critical, "critical"))
    figures = (metric.summary.p50, metric.summary.p95, metric.summary.max, metric.last)
    return {
        "name": metric.name,
        "meaning": meaning_of(metric.name),
        "unit": metric.unit,
        "level": metric.band or "",
        "critical": metric.band_shares.get("critical") if metric.band else None,
        "count": metric.summary.count,
        "figures": figures,
        "texts": [figure(value, metric.unit) for value in figures],
        "limits": list(zip(("good", "warning", "critical"), limits_text(metric), strict=True)) if metric.band else [],
        "lines": [(limit, level) for limit, level in limits if limit is not None],
        "points": not metric.of_several,
        "course": _course(metric, timeless),
        "before": None if before is None else _course(before, timeless),
    }


def _course(metric: MetricStats, timeless: bool) -> tuple[list[float], list[float]]:
    """Times in seconds since the start, or numbers of samples, and values; of long ones the extremes of short parts."""
    series = [(time, value) for time, value in metric.series if math.isfinite(value)]
    if timeless:
        every = max(1.0, (metric.summary.count - 1) / max(1, len(series) - 1))
        series = [(float(round(at * every)), value) for at, (_, value) in enumerate(series)]
    if len(series) > _SHOWN_POINTS:
        size = -(-len(series) // (_SHOWN_POINTS // 2))
        parts = (series[at : at + size] for at in range(0, len(series), size))
        series = [point for part in parts for point in _extremes(part)]
    return [round(time, 3) for time, _ in series], [float(f"{value:.6g}") for _, value in series]


def _extremes(part: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    low, high = min(part, key=lambda point: point[1]), max(part, key=lambda point: point[1])
    return sorted({low, high})


# --- the rest ---


def _source(source: SourceSummary) -> dict[str, Any]:
    shown = format_share(source.events / source.lines) if source.lines else "–"
    return {
        "name": source.spec,
        "format": source.format,
        "lines": source.lines,
        "recognised": shown,
        "unusable": source.skipped + source.errors,
    }


# --- A page as one HTML file: data, styles and scripts are inside, nothing is loaded ---
#
# A page is a fragment of HTML, style sheets and scripts in `pages/`, all of them constant, and a document of data in a
# block that no browser runs; the scripts write it to the page as text only. The Content Security Policy names the
# hash of each script and style: a browser runs nothing else, whatever a log holds.

_FOLDER = Path(__file__).with_name("pages")
_STYLES, _SCRIPTS = ("page.css",), ("page.js",)
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
{styles}
</head>
<body>
<noscript>This report is drawn by its own script: enable JavaScript for it. It loads nothing.</noscript>
{body}
<script type="application/json" id="data">{data}</script>
{scripts}
</body>
</html>
"""


def web_page(
    title: str, body: str, document: dict[str, Any], *, scripts: Sequence[str], styles: Sequence[str] = ()
) -> str:
    """The page with the fragment `body`; names are those of files in `pages/`, in the order of their use.

    `title` is constant text. `document` holds plain values without NaN and infinities.
    """
    style, script = ([_read(name).strip() for name in names] for names in ((*styles, *_STYLES), (*_SCRIPTS, *scripts)))
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, script))}",
            f"style-src {' '.join(map(_hash, style))}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    # Text of logs must not end the block of data: `<` is written as an escape that JSON reads as the same.
    data = json.dumps(document, ensure_ascii=True, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return _PAGE.format(
        policy=policy,
        title=title,
        styles="\n".join(f"<style>{text}</style>" for text in style),
        body=_read(body).strip(),
        data=data,
        scripts="\n".join(f"<script>{text}</script>" for text in script),
    )


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """A source of the policy that admits this script or style alone."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
