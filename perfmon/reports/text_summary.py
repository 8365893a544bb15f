"""The summary that `perfmon analyze` prints: verdict and evidence, 80 columns, plain text."""

from __future__ import annotations

from collections.abc import Sequence

from perfmon.core import format_seconds
from perfmon.diagnosis import ConditionState, Diagnosis, EvidenceLine, Finding, LedgerEntry, MetricStats, Verdict
from perfmon.rules import CALIBRATED, LEARNED
from perfmon.textgraphics import bar, fit
from perfmon.viewmodel import Alert, AlertState, MonitorState, RunState

from . import layout
from .layout import (
    HELD,
    behind,
    clock_notes,
    common_folder,
    fenced,
    fields_text,
    figure,
    finding_line,
    inline,
    loss_notes,
    markdown_table,
    percent,
    run_line,
    verdict_line,
)

# --- The summary that `perfmon analyze` prints: the verdict first, then its proof, 80 columns, plain text ---

_LEAST_SHARE = 0.0005
_SHOWN_EVIDENCE = 3
_SHOWN_FINDINGS = 12
_SHOWN_METRICS = 30
_SHOWN_NAMES = 24
_SHOWN_NOTES = 12


def render(snapshot: Diagnosis) -> str:
    """The summary; ends with a newline."""
    folder = common_folder([source.spec for source in snapshot.run.sources])
    where = layout.wrap(f"in {folder}", "  ", "  ") if folder else []
    head = f"perfmon {layout.one_line(snapshot.version, 40)} · {run_line(snapshot.run)}"
    parts = [
        [*layout.wrap(head, "  ", ""), *where],
        _verdict(snapshot),
        _ledger(snapshot),
        _findings(snapshot, folder),
        _metrics(snapshot),
        _list("Caveats", [*loss_notes(snapshot.run.sources, folder), *clock_notes(snapshot, folder)]),
        _list("Not observed", snapshot.unseen if any(source.events for source in snapshot.run.sources) else ()),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _verdict(snapshot: Diagnosis) -> list[str]:
    verdict = snapshot.verdict
    if verdict is None:
        return layout.wrap(snapshot.summary or "No bottleneck found.")
    lines = layout.wrap(verdict.title, "  ", f"{verdict.severity.value.upper()}  ")
    lines += layout.wrap(verdict.sentence, "  ")
    lines += layout.wrap(verdict_line(snapshot, verdict), "  ")
    return lines + _chain(verdict)


def _chain(verdict: Verdict) -> list[str]:
    return layout.wrap("chain: " + " ← ".join(verdict.chain), "  ") if len(verdict.chain) > 1 else []


def _ledger(snapshot: Diagnosis) -> list[str]:
    shown = [entry for entry in snapshot.ledger if entry.share >= _LEAST_SHARE]
    if not any(entry.lost_s for entry in shown):  # nothing is placed in time: no line has a clock
        return []
    longest = max(entry.share for entry in shown)
    rows = [
        (
            entry.cause,
            format_seconds(entry.lost_s),
            percent(entry.share),
            layout.bar(entry.share / (longest or 1.0), 32),
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
        lines += layout.wrap(condition.text, "      ", f"    {HELD[condition.held]} ")
    lines += _evidence(finding.evidence, folder)
    for advice in finding.advice:
        lines += layout.wrap(advice, "      ", "    → ")
    for missing in finding.unseen:
        lines += layout.wrap(missing, "      ", "    ? ")
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
    rows = [("", "count", "mean", "p50", "p95", "max", "band"), *(_metric_row(metric) for metric in shown)]
    lines = _indented(layout.table(rows, frozenset({0, 6}), (24, 8, 8, 8, 8, 8, 15)))
    rest = [metric.name for metric in snapshot.metrics.values() if metric not in shown]
    more = f", … {len(rest) - _SHOWN_NAMES} more" if len(rest) > _SHOWN_NAMES else ""
    named = ", ".join(layout.one_line(name, 40) for name in rest[:_SHOWN_NAMES])
    also = layout.wrap(f"also: {named}{more} (see --json)", "    ", "  ") if rest else []
    return ["Metrics", *lines, *also, *_learned_limits(shown)]


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
    return metric.band if metric.band == "good" else f"{metric.band} {percent(share)}"


def _list(title: str, items: Sequence[str]) -> list[str]:
    lines = [line for item in items[:_SHOWN_NOTES] for line in layout.wrap(item, "    ", "  - ")]
    more = len(items) - _SHOWN_NOTES
    return [title, *lines, *([f"  … {more} more"] if more > 0 else [])] if items else []


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


# --- The three answers at the head of a page: what is wrong, why and what to do next, where the window went ---

_HELD = {True: f"{HELD[True]} holds", False: f"{HELD[False]} does not", None: f"{HELD[None]} not observed"}
_ALIVE = (AlertState.FIRING, AlertState.ACKED, AlertState.SILENCED, AlertState.RESOLVING, AlertState.UNKNOWN)
_BAR = 60
_NAMES = 24


def headline(snapshot: Diagnosis | None) -> str:
    """The state of the run in a few words; text of a signature, to be made safe."""
    if snapshot is None:
        return "… nothing read yet"
    if snapshot.verdict is None:
        return (
            "✓ no bottleneck found" if any(source.events for source in snapshot.run.sources) else "? nothing observed"
        )
    return f"{snapshot.verdict.severity.label} {snapshot.verdict.title}"


def cautions(picture: MonitorState | None) -> list[str]:
    """Reasons why the verdict may be outdated."""
    if picture is None:
        return []
    said = []
    if picture.state is RunState.LOADING or picture.progress is not None:
        said.append(f"The existing log history was still being read ({percent(picture.progress or 0.0)}).")
    if picture.past_s is not None:
        said.append(f"The newest line was {format_seconds(picture.past_s)} old: the verdict may be outdated.")
    return said


def verdict_lines(snapshot: Diagnosis, picture: MonitorState | None) -> list[str]:
    """The first answer."""
    verdict = snapshot.verdict
    if verdict is None:
        return ["## Verdict", "", f"**{inline(snapshot.summary or 'No bottleneck found.')}**"]
    facts = [verdict_line(snapshot, verdict), *_since(verdict, picture)]
    lines = ["## Verdict", "", f"**{inline(verdict.sentence)}**", "", inline(" · ".join(facts))]
    if len(verdict.chain) > 1:
        lines += ["", "Chain: " + " ← ".join(inline(link, 80) for link in verdict.chain)]
    return lines


def _since(verdict: Verdict, picture: MonitorState | None) -> list[str]:
    alerts = [alert for alert in (picture.alerts if picture else ()) if alert.finding.signature == verdict.signature]
    alerts = [alert for alert in alerts if alert.state in _ALIVE]
    if picture is None or not alerts:
        return []
    began = min(max(alert.began, alert.since) for alert in alerts)  # it may have been over meanwhile
    end = max(alert.held_until(picture.now) for alert in alerts)
    return [f"for {format_seconds(max(0.0, end - began))}", _times(sum(alert.count for alert in alerts))]


def _times(count: int) -> str:
    return f"{count} occurrence{'s' * (count != 1)}"


def why_lines(snapshot: Diagnosis, picture: MonitorState | None) -> list[str]:
    """The second answer: conditions with their values, rivals, the next thing to do."""
    finding = behind(snapshot, snapshot.verdict) if snapshot.verdict else None
    if finding is None:
        return []
    lines = ["## Why, and next steps", ""]
    if finding.conditions:
        lines += [*markdown_table(("", "condition and value"), map(_condition, finding.conditions)), ""]
    rivals = [_rival(name, snapshot.findings, picture) for name in finding.confused_with]
    lines += [f"- ruled out: {rival}" for rival in rivals]
    lines += [f"- not observed: {inline(missing)}" for missing in finding.unseen]
    lines += [f"- **next:** {inline(advice)}" for advice in finding.advice[:1]]
    return lines if lines[-1] else lines[:-1]


def _condition(condition: ConditionState) -> tuple[str, str]:
    return _HELD[condition.held], condition.text


def _rival(text: str, findings: Sequence[Finding], picture: MonitorState | None) -> str:
    """Signatures that are often confused with a finding, and their state."""
    name = text.partition(":")[0].strip()
    found = [finding for finding in findings if finding.signature == name]
    alerts: list[Alert] = [alert for alert in (picture.alerts if picture else ()) if alert.finding.signature == name]
    state = alerts[0].state.value if alerts else found[0].state if found else "not found"
    return f"{inline(text, 300)} (*{inline(state, 40)}*)"


def ledger_lines(snapshot: Diagnosis) -> list[str]:
    """The third answer: a table of causes, and the same as bars."""
    if not snapshot.ledger:
        return []
    rows = [(entry.cause, format_seconds(entry.lost_s), percent(entry.share)) for entry in snapshot.ledger]
    bars = [_bar(entry) for entry in snapshot.ledger if entry.share > 0]
    head = ["## Time breakdown", "", *markdown_table(("cause", "time", "share"), rows, frozenset({1, 2}))]
    return [*head, "", *fenced(bars)] if bars else head


def _bar(entry: LedgerEntry) -> str:
    return f"{fit(entry.cause, _NAMES)} {percent(entry.share):>6} {bar(entry.share, _BAR)}".rstrip()
