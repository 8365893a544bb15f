"""The plain text that `perfmon analyze` prints: verdict and evidence in 80 columns, or how its logs were understood."""

from __future__ import annotations

from collections.abc import Sequence

from perfmon.core import common_folder, format_bytes, format_seconds, format_share, plural_of
from perfmon.diagnosis import Diagnosis, EvidenceLine, Finding, HypothesisState, MetricStats, SourceSummary, Verdict
from perfmon.rules import CALIBRATED, LEARNED
from perfmon.textgraphics import bar, cut

from . import layout
from .layout import (
    CONDITION_SIGNS,
    clock_notes,
    fields_text,
    figure,
    finding_line,
    loss_notes,
    run_line,
    verdict_line,
)

_LEAST_BAR = 1 / 256
"""One eighth of one of 32 cells."""
_SHOWN_EVIDENCE = 3
_SHOWN_FINDINGS = 12
_SHOWN_METRICS = 30
_SHOWN_NOTES = 12


def render(snapshot: Diagnosis) -> str:
    """The summary; ends with a newline."""
    folder = common_folder([source.spec for source in snapshot.run.sources])
    where = layout.wrap(f"in {folder}", "  ", "  ") if folder else []
    head = f"perfmon {layout.one_line(snapshot.version, 40)} · {run_line(snapshot.run)}"
    caveats = [*loss_notes(snapshot.run.sources, folder), *clock_notes(snapshot, folder)]
    unseen = snapshot.unseen if any(source.events for source in snapshot.run.sources) else ()
    parts = [
        [*layout.wrap(head, "  ", ""), *where],
        _verdict(snapshot),
        _ledger(snapshot),
        _findings(snapshot, folder),
        _metrics(snapshot),
        layout.listing("Caveats", caveats, "  - ", _SHOWN_NOTES),
        layout.listing("Not observed", unseen, "  - ", _SHOWN_NOTES),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _verdict(snapshot: Diagnosis) -> list[str]:
    verdict = snapshot.verdict
    if verdict is None:
        return layout.wrap(snapshot.summary or "No bottleneck found.")
    lines = layout.wrap(verdict.title, "  ", f"{verdict.severity.value.upper()}  ")
    lines += layout.wrap(verdict.sentence.removeprefix(f"{verdict.title}: "), "  ")
    lines += layout.wrap(verdict_line(snapshot, verdict), "  ")
    return lines + _chain(verdict)


def _chain(verdict: Verdict) -> list[str]:
    return layout.wrap("chain: " + " ← ".join(verdict.chain), "  ") if len(verdict.chain) > 1 else []


def _ledger(snapshot: Diagnosis) -> list[str]:
    shown = [entry for entry in snapshot.ledger if entry.share >= layout.LEAST_SHARE]
    if not any(entry.lost_s for entry in shown):  # nothing is placed in time: no line has a clock
        return []
    longest = max(entry.share for entry in shown)
    rows = [
        (
            entry.cause,
            format_seconds(entry.lost_s),
            format_share(entry.share),
            bar(max(entry.share / longest, _LEAST_BAR), 32).rstrip(),
        )
        for entry in shown
    ]
    return ["Time breakdown", *_indented(layout.table(rows, frozenset({0, 3}), (24, 10, 8, 32)))]


def _findings(snapshot: Diagnosis, folder: str) -> list[str]:
    lines: list[str] = []
    for finding in snapshot.findings[:_SHOWN_FINDINGS]:
        lines += ["", *_finding(finding, snapshot.verdict, folder)]
    more = len(snapshot.findings) - _SHOWN_FINDINGS
    if more > 0:
        lines += ["", f"  … {more} more (--json lists all)"]
    return ["Findings", *lines[1:]] if lines else []


def _finding(finding: Finding, verdict: Verdict | None, folder: str) -> list[str]:
    identity = fields_text(finding.identity)
    lines = layout.wrap(f"{finding.signature} {identity}", "    ", f"  {finding.severity.value}  ")
    if verdict is None or finding.sentence.rstrip(".") not in verdict.sentence:
        lines += layout.wrap(finding.sentence, "    ")
    lines += layout.wrap(finding_line(finding), "    ")
    if finding.explained_by:
        lines += layout.wrap(f"explained by {finding.explained_by}", "    ")
    for condition in finding.conditions:
        lines += layout.wrap(condition.text, "      ", f"    {CONDITION_SIGNS[condition.held]} ")
    lines += _hypotheses(finding.hypotheses)
    lines += _evidence(finding.evidence, folder)
    for advice in finding.advice:
        lines += layout.wrap(advice, "      ", "    → ")
    for missing in finding.unseen:
        lines += layout.wrap(missing, "      ", "    ? ")
    return lines


def _hypotheses(hypotheses: Sequence[HypothesisState]) -> list[str]:
    lines = ["    possible causes, the likeliest first:"] if hypotheses else []
    for number, one in enumerate(hypotheses, start=1):
        lines += layout.wrap(f"{one.title} ({one.signature}): {one.standing}", "         ", f"      {number}  ")
        for sign, texts in layout.weighed(one):
            lines += layout.wrap("; ".join(texts), "           ", f"         {sign} ")
    return lines


def _evidence(evidence: Sequence[EvidenceLine], folder: str) -> list[str]:
    lines: list[str] = []
    for item in evidence[:_SHOWN_EVIDENCE]:
        where = f"{layout.fit_end(item.source.removeprefix(folder), 40)}:{item.line}"
        lines += layout.wrap(item.text, "        ", f"      {where}  ", rows=3)
    more = len(evidence) - _SHOWN_EVIDENCE
    return [*lines, f"      … {more} more line{'s' * (more != 1)}"] if more > 0 else lines


def _metrics(snapshot: Diagnosis) -> list[str]:
    if not snapshot.metrics:
        return []
    banded = [metric for metric in snapshot.metrics.values() if metric.band is not None]
    shown = (banded or list(snapshot.metrics.values()))[:_SHOWN_METRICS]
    rows = [("", "count", "mean", "p50", "p95", "max", "level"), *(_metric_row(metric) for metric in shown)]
    lines = _indented(layout.table(rows, frozenset({0, 6}), (24, 8, 8, 8, 8, 8, 15)))
    rest = [metric.name for metric in snapshot.metrics.values() if metric not in shown]
    return ["Metrics", *lines, *layout.name_list("also", rest), *_learned_limits(shown)]


def _learned_limits(shown: Sequence[MetricStats]) -> list[str]:
    """Origins of thresholds that are not the built-in ones."""
    by_origin: dict[str, list[str]] = {}
    for metric in shown:
        if metric.bands_from.startswith((CALIBRATED, LEARNED)):
            origin, _, count = metric.bands_from.rpartition(", ")
            by_origin.setdefault(origin, []).append(f"{layout.one_line(metric.name, 40)} ({count})")
    lines = [
        layout.wrap(f"thresholds {origin}: {', '.join(names)}", "    ", "  ") for origin, names in by_origin.items()
    ]
    return [line for wrapped in lines for line in wrapped]


def _metric_row(metric: MetricStats) -> tuple[str, ...]:
    summary, unit = metric.summary, metric.unit
    figures = (figure(value, unit) for value in (summary.mean, summary.p50, summary.p95, summary.max))
    name = metric.name if unit in ("ms", "s", "%", "") else f"{metric.name} [{unit}]"
    return (name, f"{summary.count:,}", *figures, _band(metric))


def _band(metric: MetricStats) -> str:
    if metric.band is None:
        return ""
    share = metric.band_shares.get(metric.band, 0.0)
    return metric.band if metric.band == "good" else f"{metric.band} {format_share(share)}"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


# --- `perfmon analyze --explain-formats`: what each log was taken for, and which patterns recognised its lines ---

_UNKNOWN = "no line is recognised: `perfmon formats learn LOG` proposes a format (see docs/formats.md)"


def render_formats(snapshot: Diagnosis) -> str:
    """One paragraph a log; ends with a newline."""
    parts = ["\n".join(_source(source)) for source in snapshot.run.sources]
    return "\n\n".join(parts or ["no logs were read"]) + "\n"


def _source(source: SourceSummary) -> list[str]:
    unrecognised = max(0, source.lines - source.events)
    share = f", {format_share(unrecognised / source.lines)} of lines not recognised" if source.lines else ""
    lines = [
        *layout.wrap(source.spec),
        f"  format  {cut(source.format, 70)}",
        f"  lines   {source.lines:,} ({format_bytes(source.bytes)}): {source.events:,} recognised{share}",
    ]
    if source.lines and not source.events:
        lines += layout.wrap(_UNKNOWN, "  ")
    if source.skipped or source.errors:
        unusable = f"{source.skipped:,} {plural_of(source.skipped, 'line')} with implausible or truncated values"
        lines.append(f"  unusable {unusable}, {source.errors:,} {plural_of(source.errors, 'read error')}")
    counts = sorted(((name, count) for name, count in source.patterns.items() if count), key=lambda item: -item[1])
    lines += [
        f"    {row}"
        for row in layout.table([(f"{count:,}", layout.one_line(name, 60)) for name, count in counts], frozenset({1}))
    ]
    return lines + [line for note in source.notes for line in layout.wrap(note, "    ", "  ! ")]
