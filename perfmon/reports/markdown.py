"""SUMMARY.md: the verdict, where the time went, the findings with their proof, and what was not seen."""

from __future__ import annotations

from collections.abc import Sequence

from perfmon.core import format_bytes, format_seconds, format_share
from perfmon.diagnosis import Diagnosis, Finding, MetricStats, SourceSummary, TimelineRow

from .layout import (
    HELD,
    STATISTICS,
    amount,
    breakdown_table,
    bullets,
    chain_lines,
    clock_notes,
    code,
    fenced,
    finding_line,
    inline,
    limits_text,
    loss_notes,
    markdown_table,
    one_line,
    run_line,
    section,
    table_section,
    verdict_line,
)
from .timeline import BREAKDOWN

_SHOWN_FINDINGS = 50
_SHOWN_METRICS = 200
_SHOWN_SOURCES = 200
_IN_SUMMARY = ": summary.json lists all."


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
        section("Not observed", bullets(snapshot.unseen)),
        section("Caveats", bullets([*loss_notes(snapshot.run.sources), *clock_notes(snapshot)])),
        _sources(snapshot),
        [inline(note) for note in notes],
        [f"Written by perfmon {inline(snapshot.version)}."],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _verdict(snapshot: Diagnosis) -> list[str]:
    verdict = snapshot.verdict
    if verdict is None:
        return section("Verdict", [inline(snapshot.summary or "No bottleneck found.")])
    return [
        f"## Verdict: {inline(verdict.title, 200)} ({verdict.severity.value})",
        "",
        f"**{inline(verdict.sentence)}**",
        "",
        inline(verdict_line(snapshot, verdict)),
        *chain_lines(verdict),
    ]


def _lost_time(snapshot: Diagnosis) -> list[str]:
    if not any(entry.lost_s for entry in snapshot.ledger):  # nothing is placed in time: no line has a clock
        return []
    return section("Time breakdown", breakdown_table(snapshot))


def _findings(snapshot: Diagnosis) -> list[str]:
    lines = ["## Findings", ""]
    if not snapshot.findings:
        return [*lines, "None."]
    for finding in snapshot.findings[:_SHOWN_FINDINGS]:
        lines += [*finding_lines(finding), ""]
    more = len(snapshot.findings) - _SHOWN_FINDINGS
    return [*lines, f"… and {more} more{_IN_SUMMARY}"] if more > 0 else lines[:-1]


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
    metrics = list(snapshot.metrics.values())
    head = ("metric", *STATISTICS, "Good", "Warning", "Critical", "band")
    lines = table_section("Metrics", head, metrics, _metric_row, _SHOWN_METRICS, range(1, 13), _IN_SUMMARY)
    origins = sorted({metric.bands_from for metric in metrics if metric.bands_from})
    origin = ["", f"Thresholds from: {inline(', '.join(origins))}."] if origins else []
    return [*lines, *origin] or section("Metrics", ["No metric has data."])


def _metric_row(metric: MetricStats) -> tuple[str, ...]:
    figures = (amount(getattr(metric.summary, name), metric.unit) for name in STATISTICS[1:])
    limits = zip(("good", "warning", "critical"), limits_text(metric), strict=True)
    shares = (
        limit if limit == "–" or metric.band is None else f"{limit}: {format_share(metric.band_shares.get(band, 0.0))}"
        for band, limit in limits
    )
    return (metric.name, str(metric.summary.count), *figures, *shares, metric.band or "–")


def _slowest(snapshot: Diagnosis) -> list[str]:
    head = ("", "trace", "at", "wall", "queue", "rpc")
    rows = [_slowest_row(at, row) for at, row in enumerate(snapshot.slowest, 1)]
    return section("Slowest weight updates", markdown_table(head, rows, frozenset({0, 2, 3, 4, 5})) if rows else [])


def _slowest_row(at: int, row: TimelineRow) -> tuple[str, ...]:
    figures = (row.fields.get(name) for name in BREAKDOWN)
    shown = (amount(value if isinstance(value, float | int) else None, "ms") for value in figures)
    return (str(at), row.key, format_seconds(row.start_s), *shown)


def _sources(snapshot: Diagnosis) -> list[str]:
    head = ("source", "format", "size", "lines", "recognised", "unusable", "first", "last")
    sources = snapshot.run.sources
    return table_section("Sources", head, sources, _source_row, _SHOWN_SOURCES, range(2, 8), _IN_SUMMARY)


def _source_row(source: SourceSummary) -> tuple[str, ...]:
    times = ("–" if time is None else format_seconds(time) for time in (source.first_s, source.last_s))
    counts = (f"{count:,}" for count in (source.lines, source.events, source.skipped))
    return (source.spec, source.format, format_bytes(source.bytes), *counts, *times)
