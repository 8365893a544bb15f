"""The snapshot page: one self-contained Markdown page about a run at one instant, to be pasted where people talk."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from operator import add
from typing import TypeVar

from perfmon.core import (
    YEARLESS_S,
    TimeBase,
    common_folder,
    counted,
    format_bytes,
    format_seconds,
    format_share,
    without_secrets,
)
from perfmon.diagnosis import Diagnosis, Finding, MetricStats, SourceSummary, Verdict
from perfmon.sources.pollers import Area
from perfmon.textgraphics import bar, bucket, fit, limits, spark
from perfmon.viewmodel import Alert, AlertState, MonitorState, RunState, SourceStatus, bare

from .anonymize import Redactor, map_texts, texts
from .layout import (
    CONDITION_SIGNS,
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
    most_critical_first,
    one_line,
    run_line,
    section,
    table_section,
    verdict_line,
)
from .sections import machine_sections, waterfall_lines

T = TypeVar("T")
_SHOWN_FINDINGS = 20
_SHOWN_ALERTS = 40
_SHOWN_METRICS = 100
_SHOWN_SOURCES = 100
_SHOWN_NOTES = 40
_TREND = 24


def render_page(
    snapshot: Diagnosis,
    picture: MonitorState | None = None,
    made: datetime | None = None,
    *,
    redact: bool = False,
    notes: Sequence[str] = (),
    images: Sequence[str] = (),
    resolved: bool = False,
) -> str:
    """The page, made at `made`; `picture` adds what only a live view knows, `notes` lines of its maker.

    `images` are names of files next to the page. With `resolved` findings that are over are described, too.

    Nothing in a text of a log is markup, and secrets are masked. With `redact` hosts, addresses, paths and users are
    masked too.
    """
    snapshot, picture = cleaned(snapshot, picture, redact)
    folder = common_folder([source.spec for source in snapshot.run.sources])
    snapshot, picture = map_texts((snapshot, picture), lambda text: text.removeprefix(folder))
    parts = [
        [f"# {inline(headline(snapshot), 200)}", "", _about(snapshot, picture, folder, made)],
        [f"> {inline(notes)}" for notes in (*cautions(picture), *notes)],
        _verdict(snapshot, picture),
        _why(snapshot, picture),
        _breakdown(snapshot),
        [f"![{name}]({name})" for name in images],
        _findings(snapshot, resolved),
        _alerts(picture) if picture else [],
        _metrics(snapshot),
        waterfall_lines(snapshot, picture),
        *machine_sections(snapshot, picture),
        _sources(snapshot, picture),
        section("Caveats", bullets([*loss_notes(snapshot.run.sources), *clock_notes(snapshot)], _SHOWN_NOTES)),
        section("Not observed", bullets(snapshot.unseen, _SHOWN_NOTES)),
        _made(snapshot),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def cleaned(snapshot: Diagnosis, picture: MonitorState | None, redact: bool) -> tuple[Diagnosis, MonitorState | None]:
    """Both without secrets; with `redact` without names of hosts, addresses, paths and users."""
    return masked((snapshot, picture), (snapshot,), redact, picture)


def masked(value: T, snapshots: Sequence[Diagnosis], redact: bool, picture: MonitorState | None = None) -> T:
    """The same of anything that is made of `snapshots`; a name has one mask in all of it."""
    value = map_texts(value, without_secrets)
    if not redact:
        return value
    redactor = Redactor()
    for snapshot in map_texts(tuple(snapshots), without_secrets):
        for source in snapshot.run.sources:
            redactor.log(source.spec)
        _learn_machines(redactor, snapshot, map_texts(picture, without_secrets))
    for text in texts(value):
        redactor.learn(text)
    return map_texts(value, redactor.text)


def _learn_machines(redactor: Redactor, snapshot: Diagnosis, picture: MonitorState | None) -> None:
    """Names that stand nowhere but in polls: of hosts, of nodes, and of single GPUs."""
    for seen in (*snapshot.seen, *(picture.seen if picture else ())):
        redactor.machine(seen.host)
        redactor.device(seen.reading.words.get("uuid", ""))
        if seen.reading.area is Area.NODE:
            redactor.machine(seen.reading.name)
    for link in picture.links if picture else ():
        redactor.machine(bare(link.name))


def _about(snapshot: Diagnosis, picture: MonitorState | None, folder: str, made: datetime | None) -> str:
    run = snapshot.run
    parts = [run_line(run, live=picture is not None and picture.state is not RunState.ENDED)]
    if folder:
        parts.append(f"in {folder}")
    if run.time_base is TimeBase.WALL:
        parts.append(f"window {_time_text(run.start)} to {_time_text(run.end)} by the clock of the logs")
    if picture is not None:
        parts.append(picture.state.value)
    if made is not None:
        parts.append(f"made {made:%Y-%m-%d %H:%M:%S %z}".rstrip())
    return inline(" · ".join(parts))


def _time_text(time: float) -> str:
    """A time by the clock of the logs, with its date if they have one."""
    try:
        return f"{datetime.fromtimestamp(time, UTC):{'%H:%M:%S' if time < YEARLESS_S else '%Y-%m-%d %H:%M:%S'}}"
    except (ValueError, OverflowError, OSError):
        return f"{time:.1f} s"


# --- The three answers at the head of a page: what is wrong, why and what to do next, where the window went ---

_CONDITION = {
    held: f"{CONDITION_SIGNS[held]} {word}"
    for held, word in ((True, "met"), (False, "not met"), (None, "not observed"))
}
_ALIVE = (AlertState.FIRING, AlertState.ACKED, AlertState.SILENCED, AlertState.RESOLVING, AlertState.UNKNOWN)
_BAR = 60
_NAMES = 24


def headline(snapshot: Diagnosis | None) -> str:
    """The state of the run in a few words; text of a signature, to be made safe."""
    if snapshot is None:
        return "… nothing read yet"
    if snapshot.verdict is None:
        if not any(source.events for source in snapshot.run.sources):
            return "? nothing observed"
        quiet = snapshot.run.quiet_s is not None
        return "? no bottleneck found up to the last line" if quiet else "✓ no bottleneck found"
    return f"{snapshot.verdict.severity.label} {snapshot.verdict.title}"


def cautions(picture: MonitorState | None) -> list[str]:
    """Reasons why the verdict may be outdated."""
    if picture is None:
        return []
    notes = []
    if picture.state is RunState.LOADING or picture.progress is not None:
        notes.append(f"The existing log history was still being read ({format_share(picture.progress or 0.0)}).")
    if picture.past_s is not None:
        notes.append(f"The newest line was {format_seconds(picture.past_s)} old: the verdict may be outdated.")
    return notes


def _verdict(snapshot: Diagnosis, picture: MonitorState | None) -> list[str]:
    verdict = snapshot.verdict
    if verdict is None:
        return section("Verdict", [f"**{inline(snapshot.summary or 'No bottleneck found.')}**"])
    facts = " · ".join([verdict_line(snapshot, verdict), *_since(verdict, picture)])
    return section("Verdict", [f"**{inline(verdict.sentence)}**", "", inline(facts), *chain_lines(verdict)])


def _since(verdict: Verdict, picture: MonitorState | None) -> list[str]:
    alerts = [alert for alert in (picture.alerts if picture else ()) if alert.finding.signature == verdict.signature]
    alerts = [alert for alert in alerts if alert.state in _ALIVE]
    if picture is None or not alerts:
        return []
    began = min(max(alert.began, alert.since) for alert in alerts)  # it may have been over in between
    end = max(alert.held_until(picture.now) for alert in alerts)
    return [f"for {format_seconds(max(0.0, end - began))}", counted(sum(alert.count for alert in alerts), "occurrence")]


def _why(snapshot: Diagnosis, picture: MonitorState | None) -> list[str]:
    """Conditions with their values, rivals, the next thing to do."""
    finding = snapshot.verdict_finding
    if finding is None:
        return []
    rows = [(_CONDITION[condition.held], condition.text) for condition in finding.conditions]
    table = markdown_table(("", "condition and value"), rows) if rows else []
    steps = [
        *(f"- ruled out: {_rival(name, snapshot.findings, picture)}" for name in finding.confused_with),
        *(f"- not observed: {inline(missing)}" for missing in finding.unseen),
        *(f"- **next:** {inline(advice)}" for advice in finding.advice[:1]),
    ]
    return section("Why, and next steps", [*table, *([""] if table and steps else []), *steps])


def _rival(text: str, findings: Sequence[Finding], picture: MonitorState | None) -> str:
    """Signatures that are often confused with a finding, and their state."""
    name = text.partition(":")[0].strip()
    found = [finding for finding in findings if finding.signature == name]
    alerts: list[Alert] = [alert for alert in (picture.alerts if picture else ()) if alert.finding.signature == name]
    state = alerts[0].state.value if alerts else found[0].state if found else "not found"
    return f"{inline(text, 300)} (*{inline(state, 40)}*)"


def _breakdown(snapshot: Diagnosis) -> list[str]:
    """A table of causes, and the same as bars."""
    bars = [
        f"{fit(entry.cause, _NAMES)} {format_share(entry.share):>6} {bar(entry.share, _BAR)}".rstrip()
        for entry in snapshot.ledger
        if entry.share > 0
    ]
    table = [*breakdown_table(snapshot), *(["", *fenced(bars)] if bars else [])]
    return section("Time breakdown", table if snapshot.ledger else [])


# --- Findings, alerts, metrics and sources ---


def _findings(snapshot: Diagnosis, resolved: bool) -> list[str]:
    live = [finding for finding in snapshot.findings if resolved or finding.state != "resolved"]
    over = len(snapshot.findings) - len(live)
    lines = ["## Findings", ""]
    for finding in live[:_SHOWN_FINDINGS]:
        lines += [*_finding_lines(finding), ""]
    if not live:
        lines += ["None.", ""]
    if len(live) > _SHOWN_FINDINGS:
        lines += [f"… and {len(live) - _SHOWN_FINDINGS} more.", ""]
    if over:
        lines += [f"{over} more resolved within the window.", ""]
    return lines[:-1]


def _finding_lines(finding: Finding) -> list[str]:
    """A finding under a heading of its own: its sentence, its cost, its proof and its advice."""
    lines = [
        f"### {inline(finding.title, 200)} ({finding.severity.value})",
        "",
        inline(finding.sentence),
        "",
        f"{code(finding.signature, 80)} · {inline(finding_line(finding))}",
    ]
    bullets = [f"{inline(key, 80)}: {inline(value, 300)}" for key, value in finding.identity.items()]
    bullets += [f"{CONDITION_SIGNS[condition.held]} {inline(condition.text)}" for condition in finding.conditions]
    if finding.explained_by:
        bullets.append(f"explained by {inline(finding.explained_by, 80)}")
    if finding.confused_with:
        bullets.append("often confused with " + ", ".join(inline(other, 80) for other in finding.confused_with))
    bullets += [f"not observed: {inline(missing)}" for missing in finding.unseen]
    lines += ["", *(f"- {bullet}" for bullet in bullets)] if bullets else []
    if finding.hypotheses:
        rows = [
            (str(number), one.title, one.standing, *("; ".join(texts) for texts in (one.supporting, one.contradicting)),
             ", ".join(one.unseen))
            for number, one in enumerate(finding.hypotheses, start=1)
        ]  # fmt: skip
        head = ("", "possible cause", "standing", "for it", "against it", "not observed")
        lines += ["", "Possible causes, the likeliest first:", "", *markdown_table(head, rows)]
    if finding.evidence:
        proof = (f"{one_line(item.source, 200)}:{item.line}  {item.text}" for item in finding.evidence)
        lines += ["", "Evidence:", "", *fenced(proof)]
    if finding.advice:
        lines += ["", "Advice:", "", *(f"- {inline(advice)}" for advice in finding.advice)]
    return lines


def _alerts(picture: MonitorState) -> list[str]:
    head = ("", "state", "severity", "signature", "for", "count", "lost", "activity")
    row = partial(_alert, picture=picture)
    return table_section("Alerts", head, picture.alerts, row, _SHOWN_ALERTS, (0, 4, 5, 6))


def _alert(alert: Alert, picture: MonitorState) -> tuple[str, ...]:
    state = alert.state.value
    if alert.inhibited_by and alert.state is AlertState.INHIBITED:
        state += f" by {alert.inhibited_by}"
    if alert.flapping:
        state += ", flapping"
    end = alert.changed if alert.state is AlertState.RESOLVED else alert.held_until(picture.now)
    return (
        str(alert.number),
        state,
        alert.finding.severity.label,
        alert.finding.signature,
        format_seconds(max(0.0, end - max(alert.began, alert.since))),
        f"{alert.count:,}",
        format_seconds(alert.lost_s) if alert.lost_s > 0 else "–",
        code(_activity(alert, picture)),
    )


def _activity(alert: Alert, picture: MonitorState) -> str:
    """Sparkline of its occurrences within the window."""
    end = picture.now + 1e-3
    counts = bucket([(time, 1.0) for time in alert.activity], end - picture.window_s, end, _TREND, add)
    return spark(counts, 0.0, limits(counts)[1])


def _metrics(snapshot: Diagnosis) -> list[str]:
    head = ("metric", "Good", "Warning", "Critical", "now", "p50", "p95", "max", "critical", "trend")
    ranked = sorted(snapshot.metrics.values(), key=most_critical_first)
    table = table_section("Metrics", head, ranked, partial(_metric, snapshot=snapshot), _SHOWN_METRICS, range(1, 9))
    origins = sorted({metric.bands_from for metric in ranked if metric.bands_from})
    return [*table, *(["", f"Thresholds from: {inline(', '.join(origins))}."] if origins else [])]


def _metric(metric: MetricStats, snapshot: Diagnosis) -> tuple[str, ...]:
    figures = (metric.last, metric.summary.p50, metric.summary.p95, metric.summary.max)
    critical = "–" if metric.band is None else format_share(metric.band_shares.get("critical", 0.0))
    shown = (amount(value, metric.unit) for value in figures)
    return (metric.name, *limits_text(metric), *shown, critical, code(_trend(metric, snapshot)))


def _trend(metric: MetricStats, snapshot: Diagnosis) -> str:
    less_is_worse = metric.good is not None and metric.critical is not None and metric.critical < metric.good
    end = snapshot.run.end - snapshot.run.start + 1e-3
    values = bucket(metric.series, 0.0, end, _TREND, min if less_is_worse else max)
    low, high = limits(values, metric.unit)
    return spark(values, low, high, critical=None if less_is_worse else metric.critical)


def _sources(snapshot: Diagnosis, picture: MonitorState | None) -> list[str]:
    now = {source.name: source for source in (picture.sources if picture else ())}
    offsets = {offset.source: offset for offset in snapshot.clock_offsets}
    head = ("source", "format", "state", "last line", "size", "lines", "recognised", "unusable", "clock")

    def row(source: SourceSummary) -> tuple[str, ...]:
        live, offset = now.get(source.spec), offsets.get(source.spec)
        counts = (f"{count:,}" for count in (source.lines, source.events, source.skipped))
        clock = "–" if live is None or live.offset_s is None else f"{live.offset_s:+.3f} s"
        if offset is not None:
            clock = f"{offset.offset_s:+.3f} s ± {format_seconds(offset.uncertainty_s)}"
        state = "read" if live is None else live.freshness.value
        age = _age(source, snapshot) if live is None or picture is None else _live_age(live, picture)
        return source.spec, source.format, state, age, format_bytes(source.bytes), *counts, clock

    return table_section("Sources", head, snapshot.run.sources, row, _SHOWN_SOURCES, range(3, 9))


def _live_age(now: SourceStatus, picture: MonitorState) -> str:
    """Age of the last line by its timestamp, or else by the time it was read."""
    age = now.age_s if now.last is None else max(0.0, picture.now - now.last)
    return "–" if age is None else f"{format_seconds(age)} ago"


def _age(source: SourceSummary, snapshot: Diagnosis) -> str:
    if source.last_s is None:
        return "–"
    return f"{format_seconds(max(0.0, snapshot.run.end - snapshot.run.start - source.last_s))} before the end"


def _made(snapshot: Diagnosis) -> list[str]:
    parts = [f"perfmon {snapshot.version}", f"Python {platform.python_version()}", platform.platform()]
    return ["---", "", f"Made by {inline(' · '.join(parts))}"]
