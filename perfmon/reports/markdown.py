"""The texts of a report's folder: SUMMARY.md, timeline.txt and slowest_updates.txt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfmon.core import format_bytes, format_seconds, format_share
from perfmon.diagnosis import Diagnosis, Finding, MetricStats, SourceSummary, TimelineRow
from perfmon.textgraphics import Leg, axis, compact_seconds, fit, gantt, ticks
from perfmon.viewmodel import Bar, Level, MonitorState

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
    fields_text,
    finding_line,
    inline,
    limits_text,
    loss_notes,
    markdown_table,
    one_line,
    run_line,
    section,
    table,
    table_section,
    verdict_line,
)

BREAKDOWN = ("wall_ms", "queue_ms", "rpc_ms")
_SHOWN_OVERLAPS = 8


def timeline_text(snapshot: Diagnosis) -> Iterator[str]:
    """Lines in time order: start, end, duration in seconds, kind and key, fields; overlaps follow, marked `<->`."""
    yield "# start_s     end_s     dur_s    what; <-> marks overlapping spans and updates"
    if not snapshot.timeline:
        yield "no spans were observed"
    for row in sorted(snapshot.timeline, key=lambda row: (row.start_s, row.end_s)):
        duration = row.end_s - row.start_s
        name = f"{one_line(row.kind, 60)} {one_line(row.key, 120)}".rstrip()
        yield f"{row.start_s:9.3f} {row.end_s:9.3f} {duration:9.3f}  {name}  {fields_text(row.fields)}".rstrip()
        yield from (f"{'<->':>31} {one_line(other, 200)}" for other in row.overlaps[:_SHOWN_OVERLAPS])
        if len(row.overlaps) > _SHOWN_OVERLAPS:
            yield f"{'<->':>31} and {len(row.overlaps) - _SHOWN_OVERLAPS} more"


def slowest_text(snapshot: Diagnosis) -> Iterator[str]:
    """The ten slowest weight updates with their breakdown, overlaps and lines."""
    if not snapshot.slowest:
        yield "no weight update was observed"
        return
    head = ("", "trace", "at", *(name.removesuffix("_ms") for name in BREAKDOWN), "queue share")
    rows = [head, *(_update_row(at, row) for at, row in enumerate(snapshot.slowest, 1))]
    yield from table(rows, frozenset({1}), (3, 40, 12, 10, 10, 10, 12))
    for at, row in enumerate(snapshot.slowest, 1):
        yield from _slowest_detail(at, row)


def _update_row(at: int, row: TimelineRow) -> tuple[str, ...]:
    wall, queue, rpc = (_number(row, name) for name in BREAKDOWN)
    share = "–" if not wall or queue is None else f"{100 * queue / wall:.0f} %"
    shown = (amount(value, "ms") for value in (wall, queue, rpc))
    return (str(at), row.key, f"{row.start_s:.3f} s", *shown, share)


def _slowest_detail(at: int, row: TimelineRow) -> Iterator[str]:
    yield ""
    yield f"{at}. {one_line(row.key, 120)}  {fields_text(row.fields)}"
    yield from (f"   <-> {one_line(other, 200)}" for other in row.overlaps[:_SHOWN_OVERLAPS])
    yield from (f"   {one_line(item.source, 200)}:{item.line}  {one_line(item.text)}" for item in row.evidence)


def _number(row: TimelineRow, name: str) -> float | None:
    value = row.fields.get(name)
    return value if isinstance(value, float | int) else None


# --- Weight updates as text: each begins at zero, and shows how long it was queued and how long the engine took ---

UPDATE = "weight-update"
LEGEND = "○ sent   ░ queued   █ RPC   ● done   ▒ queue or network (not logged)   ▸ still open"
_LAST, _SLOWEST = 8, 5
_SAME_S = 1.0
_KEY, _AT, _WIDTH, _FIGURE = 12, 8, 40, 7


def waterfall_lines(snapshot: Diagnosis, picture: MonitorState | None) -> list[str]:
    """The last and the slowest weight updates; nothing where none was observed."""
    origin = snapshot.run.start
    lanes = picture.board.spans if picture else ()
    bars = [bar for lane in lanes if lane.kind == UPDATE for bar in lane.bars]
    bars = bars or [_bar(row, origin) for row in snapshot.timeline if row.kind == UPDATE]
    last = sorted(bars, key=lambda bar: bar.start)[-_LAST:]
    slowest = [_known(row, origin, bars) for row in snapshot.slowest[:_SLOWEST]]
    if not last and not slowest:
        return []
    lines = [LEGEND]
    if last:
        lines += ["", f"The last {len(last)}:" if len(last) > 1 else "The last one:", "", *_drawn(last, origin)]
    if slowest and slowest != last:
        title = f"The slowest {len(slowest)}:" if len(slowest) > 1 else "The slowest:"
        lines += ["", title, "", *_drawn(slowest, origin)]
    return section("Weight updates", lines)


def _known(row: TimelineRow, origin: float, bars: Sequence[Bar]) -> Bar:
    """The bar of an update, from the timeline if it is there: that knows what each line reports."""
    same = (bar for bar in bars if bar.key == row.key and abs(bar.start - origin - row.start_s) < _SAME_S)
    return next(same, None) or _bar(row, origin)


def _bar(row: TimelineRow, origin: float) -> Bar:
    """A bar from durations: the queue comes first, and what no line reports stays unknown."""
    values = {name: value for name in BREAKDOWN if (value := _number(row, name)) is not None}
    start, end = origin + row.start_s, origin + row.end_s
    queue, rpc = values.get("queue_ms"), values.get("rpc_ms")
    if queue is None:
        split, before, after = end if rpc is None else max(start, end - rpc / 1000.0), "unknown", "rpc"
    else:
        split, before, after = min(end, start + queue / 1000.0), "queue", "unknown" if rpc is None else "rpc"
    return Bar(
        UPDATE, row.key, start, end, False, Level.NONE, (Leg(before, start, split), Leg(after, split, end)), values
    )


def _drawn(bars: Sequence[Bar], origin: float) -> list[str]:
    """Bars that all begin at zero, in a code block."""
    longest = max(bar.end - bar.start for bar in bars)
    scale = axis(ticks(0.0, longest, _WIDTH, origin=0.0, zero="0", plus=""), _WIDTH)
    names = "".join(fit(name, _FIGURE + 1, right=True) for name in ("wall", "queue", "rpc"))
    lines = [f"{fit('trace', _KEY)} {fit('at', _AT, right=True)}  {scale} {names}"]
    for bar in bars:
        wall = bar.end - bar.start
        legs = [Leg(leg.kind, leg.start - bar.start, leg.end - bar.start) for leg in bar.legs if leg.end > leg.start]
        if legs and not bar.open:
            legs.append(Leg("done", wall, wall))
        cells = "".join(cell for cell, _ in gantt(legs, 0.0, longest, _WIDTH, still_open=bar.open))
        times = (1000.0 * wall, bar.values.get("queue_ms"), bar.values.get("rpc_ms"))
        figures = "".join(f" {_figure(value)}" for value in times)
        start = fit(format_seconds(bar.start - origin), _AT, right=True)
        lines.append(f"{fit(bar.key or '–', _KEY)} {start}  {cells} {figures}".rstrip())
    return fenced(lines)


def _figure(ms: float | None) -> str:
    return fit("–" if ms is None else compact_seconds(ms / 1000.0, _FIGURE), _FIGURE, right=True)


# --- SUMMARY.md: the verdict, where the time went, the findings with their proof, and what was not seen ---

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
