"""SUMMARY.md: the verdict, where the time went, the findings with their proof, and what was not seen."""

from __future__ import annotations

from collections.abc import Sequence

from perfmon.core import format_bytes, format_seconds
from perfmon.diagnosis import Diagnosis, Finding, MetricStats, SourceSummary, TimelineRow

from .layout import (
    HELD,
    amount,
    clock_notes,
    code,
    fenced,
    finding_line,
    inline,
    limits_text,
    loss_notes,
    markdown_table,
    one_line,
    percent,
    run_line,
    verdict_line,
)
from .timeline import BREAKDOWN

_SHOWN_FINDINGS = 50
_SHOWN_METRICS = 200
_SHOWN_SOURCES = 200


def render_markdown(snapshot: Diagnosis, notes: Sequence[str] = (), pictures: Sequence[str] = ()) -> str:
    """The page; `notes` are further lines for its end, `pictures` names of images beside it."""
    parts = [
        ["# Bottleneck analysis", "", inline(run_line(snapshot.run))],
        _verdict(snapshot),
        _lost_time(snapshot),
        [f"![{name}]({name})" for name in pictures],
        _findings(snapshot),
        _metrics(snapshot),
        _slowest(snapshot),
        _items("Not observed", snapshot.unseen),
        _items("Caveats", [*loss_notes(snapshot.run.sources), *clock_notes(snapshot)]),
        _sources(snapshot),
        [inline(note) for note in notes],
        [f"Written by perfmon {inline(snapshot.version)}."],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _verdict(snapshot: Diagnosis) -> list[str]:
    verdict = snapshot.verdict
    if verdict is None:
        return ["## Verdict", "", inline(snapshot.summary or "No bottleneck found.")]
    lines = [
        f"## Verdict: {inline(verdict.title, 200)} ({verdict.severity.value})",
        "",
        f"**{inline(verdict.sentence)}**",
        "",
        inline(verdict_line(snapshot, verdict)),
    ]
    if len(verdict.chain) > 1:
        lines += ["", "Chain: " + " ← ".join(inline(link, 80) for link in verdict.chain)]
    return lines


def _lost_time(snapshot: Diagnosis) -> list[str]:
    if not any(entry.lost_s for entry in snapshot.ledger):  # nothing is placed in time: no line has a clock
        return []
    rows = [(entry.cause, format_seconds(entry.lost_s), percent(entry.share)) for entry in snapshot.ledger]
    return ["## Time breakdown", "", *markdown_table(("cause", "time", "share"), rows, frozenset({1, 2}))]


def _findings(snapshot: Diagnosis) -> list[str]:
    lines = ["## Findings", ""]
    if not snapshot.findings:
        return [*lines, "None."]
    for finding in snapshot.findings[:_SHOWN_FINDINGS]:
        lines += [*finding_lines(finding), ""]
    more = len(snapshot.findings) - _SHOWN_FINDINGS
    return [*lines, f"… and {more} more: summary.json lists all."] if more > 0 else lines[:-1]


def finding_lines(finding: Finding) -> list[str]:
    """A finding under a heading of its own: what it says, what it costs, its proof and its advice."""
    lines = [
        f"### {inline(finding.title, 200)} ({finding.severity.value})",
        "",
        inline(finding.sentence),
        "",
        f"{code(finding.signature, 80)} · {inline(finding_line(finding))}",
    ]
    bullets = [f"{inline(key, 80)}: {inline(value, 300)}" for key, value in finding.identity.items()]
    bullets += [f"{HELD[condition.held]} {inline(condition.text)}" for condition in finding.conditions]
    if finding.explained_by:
        bullets.append(f"explained by {inline(finding.explained_by, 80)}")
    if finding.confused_with:
        bullets.append("often confused with " + ", ".join(inline(other, 80) for other in finding.confused_with))
    bullets += [f"not observed: {inline(missing)}" for missing in finding.unseen]
    lines += ["", *(f"- {bullet}" for bullet in bullets)] if bullets else []
    if finding.evidence:
        proof = (f"{one_line(item.source, 200)}:{item.line}  {item.text}" for item in finding.evidence)
        lines += ["", "Evidence:", "", *fenced(proof)]
    if finding.advice:
        lines += ["", "Advice:", "", *(f"- {inline(advice)}" for advice in finding.advice)]
    return lines


def _metrics(snapshot: Diagnosis) -> list[str]:
    if not snapshot.metrics:
        return ["## Metrics", "", "No metric has data."]
    head = (
        "metric",
        "count",
        "mean",
        "stdev",
        "min",
        "p50",
        "p90",
        "p95",
        "p99",
        "max",
        "Good",
        "Warning",
        "Critical",
        "band",
    )
    rows = [_metric_row(metric) for metric in list(snapshot.metrics.values())[:_SHOWN_METRICS]]
    origins = sorted({metric.bands_from for metric in snapshot.metrics.values() if metric.bands_from})
    origin = ["", f"Thresholds from: {inline(', '.join(origins))}."] if origins else []
    more = len(snapshot.metrics) - len(rows)
    left = ["", f"… and {more} more: summary.json lists all."] if more > 0 else []
    return ["## Metrics", "", *markdown_table(head, rows, frozenset(range(1, 13))), *left, *origin]


def _metric_row(metric: MetricStats) -> tuple[str, ...]:
    names = ("mean", "stdev", "min", "p50", "p90", "p95", "p99", "max")
    figures = (amount(getattr(metric.summary, name), metric.unit) for name in names)
    limits = zip(("good", "warning", "critical"), limits_text(metric), strict=True)
    shares = (
        limit if limit == "–" or metric.band is None else f"{limit}: {percent(metric.band_shares.get(band, 0.0))}"
        for band, limit in limits
    )
    return (metric.name, str(metric.summary.count), *figures, *shares, metric.band or "–")


def _slowest(snapshot: Diagnosis) -> list[str]:
    if not snapshot.slowest:
        return []
    rows = [_slowest_row(at, row) for at, row in enumerate(snapshot.slowest, 1)]
    head = ("", "trace", "at", "wall", "queue", "rpc")
    return ["## Slowest weight updates", "", *markdown_table(head, rows, frozenset({0, 2, 3, 4, 5}))]


def _slowest_row(at: int, row: TimelineRow) -> tuple[str, ...]:
    figures = (row.fields.get(name) for name in BREAKDOWN)
    shown = (amount(value if isinstance(value, float | int) else None, "ms") for value in figures)
    return (str(at), row.key, format_seconds(row.start_s), *shown)


def _sources(snapshot: Diagnosis) -> list[str]:
    head = ("source", "format", "size", "lines", "recognised", "unusable", "first", "last")
    rows = [_source_row(source) for source in snapshot.run.sources[:_SHOWN_SOURCES]]
    more = len(snapshot.run.sources) - len(rows)
    left = ["", f"… and {more} more: summary.json lists all."] if more > 0 else []
    return ["## Sources", "", *markdown_table(head, rows, frozenset(range(2, 8))), *left] if rows else []


def _source_row(source: SourceSummary) -> tuple[str, ...]:
    times = ("–" if time is None else format_seconds(time) for time in (source.first_s, source.last_s))
    counts = (f"{count:,}" for count in (source.lines, source.events, source.skipped))
    return (source.spec, source.format, format_bytes(source.bytes), *counts, *times)


def _items(title: str, items: Sequence[str]) -> list[str]:
    return [f"## {title}", "", *(f"- {inline(item)}" for item in items)] if items else []
