"""The snapshot page: one self-contained Markdown page about a run at one instant, to be pasted where people talk."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from operator import add

from perfmon.core import YEARLESS_S, TimeBase, format_bytes, format_seconds, without_secrets
from perfmon.diagnosis import ClockOffset, Diagnosis, MetricStats, SourceSummary
from perfmon.sources.pollers import Area
from perfmon.textgraphics import bucket, limits, spark
from perfmon.viewmodel import Alert, AlertState, MonitorState, SourceStatus, bare

from .anonymize import Redactor, retold, texts
from .hosts import machine_sections
from .layout import (
    amount,
    clock_notes,
    code,
    common_folder,
    inline,
    limits_text,
    loss_notes,
    markdown_table,
    percent,
    run_line,
)
from .markdown import finding_lines
from .text_summary import cautions, headline, ledger_lines, verdict_lines, why_lines
from .timeline import waterfall_lines

_SHOWN_FINDINGS = 20
_SHOWN_ALERTS = 40
_SHOWN_METRICS = 100
_SHOWN_SOURCES = 100
_SHOWN_NOTES = 40
_TREND = 24
_SECTION = list[str]


def render_page(
    snapshot: Diagnosis,
    picture: MonitorState | None,
    made: datetime,
    *,
    redact: bool = False,
    notes: Sequence[str] = (),
) -> str:
    """The page, made at `made`; `picture` adds what only a live view knows, `notes` lines of its maker.

    Nothing in a text of a log is markup, and secrets are masked. With `redact` hosts, addresses, paths and users are
    masked too.
    """
    snapshot, picture = cleaned(snapshot, picture, redact)
    folder = common_folder([source.spec for source in snapshot.run.sources])
    snapshot, picture = retold((snapshot, picture), lambda text: text.removeprefix(folder))
    parts = [
        [f"# {inline(headline(snapshot), 200)}", "", _about(snapshot, picture, folder, made)],
        [f"> {inline(said)}" for said in (*cautions(picture), *notes)],
        verdict_lines(snapshot, picture),
        why_lines(snapshot, picture),
        ledger_lines(snapshot),
        _findings(snapshot),
        _alerts(picture),
        _metrics(snapshot),
        waterfall_lines(snapshot, picture),
        *machine_sections(snapshot, picture),
        _sources(snapshot, picture),
        _items("Caveats", [*loss_notes(snapshot.run.sources), *clock_notes(snapshot)]),
        _items("Not observed", snapshot.unseen),
        _made(snapshot),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def cleaned(snapshot: Diagnosis, picture: MonitorState | None, redact: bool) -> tuple[Diagnosis, MonitorState | None]:
    """Both without secrets; with `redact` without names of hosts, addresses, paths and users."""
    snapshot, picture = retold((snapshot, picture), without_secrets)
    if not redact:
        return snapshot, picture
    redactor = Redactor()
    for source in snapshot.run.sources:
        redactor.log(source.spec)
    _learn_machines(redactor, snapshot, picture)
    for text in texts((snapshot, picture)):
        redactor.learn(text)
    return retold((snapshot, picture), redactor.text)


def _learn_machines(redactor: Redactor, snapshot: Diagnosis, picture: MonitorState | None) -> None:
    """Names that stand nowhere but in polls: of hosts, of nodes, and of single GPUs."""
    for seen in (*snapshot.seen, *(picture.seen if picture else ())):
        redactor.machine(seen.host)
        redactor.device(seen.reading.words.get("uuid", ""))
        if seen.reading.area is Area.NODE:
            redactor.machine(seen.reading.name)
    for link in picture.links if picture else ():
        redactor.machine(bare(link.name))


def _about(snapshot: Diagnosis, picture: MonitorState | None, folder: str, made: datetime) -> str:
    run = snapshot.run
    parts = [run_line(run)]
    if folder:
        parts.append(f"in {folder}")
    if run.time_base is TimeBase.WALL:
        parts.append(f"window {_moment(run.start, snapshot)} to {_moment(run.end, snapshot)} by the clock of the logs")
    if picture is not None:
        parts.append(picture.state.value)
    return inline(" · ".join([*parts, f"made {made:%Y-%m-%d %H:%M:%S %z}".rstrip()]))


def _moment(time: float, snapshot: Diagnosis) -> str:
    """A moment by the clock of the logs; seconds where they tell no date."""
    if snapshot.run.time_base is not TimeBase.WALL:
        return f"{time - snapshot.run.start:.1f} s"
    shape = "%H:%M:%S" if time < YEARLESS_S else "%Y-%m-%d %H:%M:%S"
    try:
        return datetime.fromtimestamp(time, UTC).strftime(shape)
    except (ValueError, OverflowError, OSError):
        return f"{time:.1f} s"


def _findings(snapshot: Diagnosis) -> _SECTION:
    live = [finding for finding in snapshot.findings if finding.state != "resolved"]
    over = len(snapshot.findings) - len(live)
    lines = ["## Findings", ""]
    for finding in live[:_SHOWN_FINDINGS]:
        lines += [*finding_lines(finding), ""]
    if not live:
        lines += ["None.", ""]
    if len(live) > _SHOWN_FINDINGS:
        lines += [f"… and {len(live) - _SHOWN_FINDINGS} more.", ""]
    if over:
        lines += [f"{over} more resolved within the window.", ""]
    return lines[:-1]


def _alerts(picture: MonitorState | None) -> _SECTION:
    if picture is None or not picture.alerts:
        return []
    rows = [_alert(alert, picture) for alert in picture.alerts[:_SHOWN_ALERTS]]
    head = ("", "state", "severity", "signature", "for", "count", "lost", "activity")
    more = len(picture.alerts) - len(rows)
    left = ["", f"… and {more} more."] if more > 0 else []
    return ["## Alerts", "", *markdown_table(head, rows, frozenset({0, 4, 5, 6})), *left]


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


def _metrics(snapshot: Diagnosis) -> _SECTION:
    if not snapshot.metrics:
        return []
    head = ("metric", "Good", "Warning", "Critical", "now", "p50", "p95", "max", "critical", "trend")
    ranked = sorted(snapshot.metrics.values(), key=_pressing)
    rows = [_metric(metric, snapshot) for metric in ranked[:_SHOWN_METRICS]]
    more = len(ranked) - len(rows)
    left = ["", f"… and {more} more."] if more > 0 else []
    return ["## Metrics", "", *markdown_table(head, rows, frozenset(range(1, 9))), *left]


def _pressing(metric: MetricStats) -> tuple[bool, float, float, str]:
    shares = metric.band_shares
    return metric.band is None, -shares.get("critical", 0.0), -shares.get("warning", 0.0), metric.name


def _metric(metric: MetricStats, snapshot: Diagnosis) -> tuple[str, ...]:
    figures = (metric.last, metric.summary.p50, metric.summary.p95, metric.summary.max)
    critical = "–" if metric.band is None else percent(metric.band_shares.get("critical", 0.0))
    shown = (amount(value, metric.unit) for value in figures)
    return (metric.name, *limits_text(metric), *shown, critical, code(_trend(metric, snapshot)))


def _trend(metric: MetricStats, snapshot: Diagnosis) -> str:
    less_is_worse = metric.good is not None and metric.critical is not None and metric.critical < metric.good
    end = snapshot.run.end - snapshot.run.start + 1e-3
    values = bucket(metric.series, 0.0, end, _TREND, min if less_is_worse else max)
    low, high = limits(values, metric.unit)
    return spark(values, low, high, critical=None if less_is_worse else metric.critical)


def _sources(snapshot: Diagnosis, picture: MonitorState | None) -> _SECTION:
    sources = snapshot.run.sources
    if not sources:
        return []
    now = {source.name: source for source in (picture.sources if picture else ())}
    offsets = {offset.source: offset for offset in snapshot.clock_offsets}
    head = ("source", "format", "state", "last line", "size", "lines", "recognised", "unusable", "clock")
    rows = [
        _source(source, now.get(source.spec), offsets.get(source.spec), snapshot, picture)
        for source in sources[:_SHOWN_SOURCES]
    ]
    more = len(sources) - len(rows)
    left = ["", f"… and {more} more."] if more > 0 else []
    return ["## Sources", "", *markdown_table(head, rows, frozenset(range(3, 9))), *left]


def _source(
    source: SourceSummary,
    now: SourceStatus | None,
    offset: ClockOffset | None,
    snapshot: Diagnosis,
    picture: MonitorState | None,
) -> tuple[str, ...]:
    counts = (f"{count:,}" for count in (source.lines, source.events, source.skipped))
    clock = "–" if now is None or now.offset_s is None else f"{now.offset_s:+.3f} s"
    if offset is not None:
        clock = f"{offset.offset_s:+.3f} s ± {format_seconds(offset.uncertainty_s)}"
    state = "read" if now is None else now.freshness.value
    age = _age(source, snapshot) if now is None or picture is None else _live_age(now, picture)
    return source.spec, source.format, state, age, format_bytes(source.bytes), *counts, clock


def _live_age(now: SourceStatus, picture: MonitorState) -> str:
    """Age of the last line by its timestamp, or else by the time it was read."""
    age = now.age_s if now.last is None else max(0.0, picture.now - now.last)
    return "–" if age is None else f"{format_seconds(age)} ago"


def _age(source: SourceSummary, snapshot: Diagnosis) -> str:
    if source.last_s is None:
        return "–"
    return f"{format_seconds(max(0.0, snapshot.run.end - snapshot.run.start - source.last_s))} before the end"


def _items(title: str, items: Sequence[str]) -> _SECTION:
    more = [f"- … and {len(items) - _SHOWN_NOTES} more"] if len(items) > _SHOWN_NOTES else []
    return [f"## {title}", "", *(f"- {inline(item)}" for item in items[:_SHOWN_NOTES]), *more] if items else []


def _made(snapshot: Diagnosis) -> _SECTION:
    parts = [f"perfmon {snapshot.version}", f"Python {platform.python_version()}", platform.platform()]
    return ["---", "", f"Made by {inline(' · '.join(parts))}"]
