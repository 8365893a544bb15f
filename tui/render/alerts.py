"""Alerts as rows: one line each, all details, the weight updates behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, isfinite

from perfmon.alerting import of_pollers
from perfmon.core import Severity, TimeBase
from perfmon.diagnosis import Moment, TimelineRow
from perfmon.textgraphics import axis, compact, compact_seconds, cut, fit, gantt, spark, ticks
from perfmon.viewmodel import Alert, AlertState, Bar, Leg, Level, MonitorState

from ..theme import ThemeStyles
from .rows import Row, Run, Words, moment_text, wrapped

# --- An alert as one row: what it is, how long, how often, what it cost, and when it happened ---

WORDS = {Severity.CRITICAL: "CRIT", Severity.WARNING: "WARN", Severity.INFO: "INFO"}
LEVELS = {Severity.CRITICAL: "critical", Severity.WARNING: "warning", Severity.INFO: "info"}
_STATES = {
    AlertState.ACKED: "accent",
    AlertState.PENDING: "warning",
    AlertState.RESOLVING: "info",
    AlertState.UNKNOWN: "stale",
}
"""Styles of the glyphs of states; a firing one has that of its severity, the others are faint."""
_DIM = (AlertState.INHIBITED, AlertState.SILENCED, AlertState.RESOLVED)
_AGE, _COUNT, _LOST = 6, 5, 6
_COUNTED = 55
"""From so many cells on, titles leave room for how often."""
_WINDOWS = 3
"""Windows that the sparkline reaches back."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Cells of each part of a row; 0: omitted."""

    title: int
    says: int
    counts: bool
    lost: bool
    spark: int

    @classmethod
    def of(cls, width: int) -> Columns:
        """For a pane of that width."""
        spark_cells = 13 if width >= 150 else 8 if width >= 96 else 0
        lost, counts = width >= 44, width >= _COUNTED
        room = width - 3 - (5 + _AGE + 1 if width >= 30 else 0) - (_COUNT + 1 if counts else 0)
        room -= (_LOST + 1 if lost else 0) + (spark_cells + 1 if spark_cells else 0)
        title = max(0, room) if width < 72 else 32 if width >= 150 else 27
        return cls(title, max(0, room - title - 1), counts, lost, spark_cells)


def state_style(alert: Alert) -> str:
    """The style of an alert's state."""
    if alert.state is AlertState.FIRING:
        return LEVELS[alert.finding.severity]
    return _STATES.get(alert.state, "faint")


def age_s(alert: Alert, picture: MonitorState) -> float:
    """Seconds that it has held this time, as far as its logs show; of what is over, since it ended.

    In a run that is over nothing holds any more: how long it held until its last occurrence, as row 1 has it; of what
    lasted no time, such as the failure, the time since then.
    """
    now = picture.present if picture.is_over else picture.now
    if alert.state is AlertState.RESOLVED:
        return max(0.0, now - alert.changed)
    if picture.is_over and alert.last - alert.since >= 1.0:
        return alert.last - alert.since
    return max(0.0, (now if picture.is_over else alert.held_until(now)) - alert.since)


def _age(seconds: float) -> str:
    """Whole seconds: an age is repainted once a second at most."""
    return f"{int(seconds)}s" if seconds < 100 else compact_seconds(seconds, _AGE).replace(" ", "")


def state_words(alert: Alert, base: TimeBase) -> str:
    """Note on its state; "" if it is firing."""
    match alert.state:
        case AlertState.FIRING:
            words = ""
        case AlertState.RESOLVED:
            words = f"resolved after {compact_seconds(max(0.0, alert.changed - alert.since), 8)}"
        case AlertState.INHIBITED:
            words = f"explained by {alert.inhibited_by}" if alert.inhibited_by else "inhibited"
        case AlertState.SILENCED:
            until = alert.silenced_until
            words = "silenced" if until is None or not isfinite(until) else f"silenced until {moment_text(until, base)}"
        case AlertState.UNKNOWN:
            words = "unknown: no response" if of_pollers(alert.finding) else "unknown: no log output"
        case other:
            words = other.value
    return f"flapping{', ' if words else ''}{words}" if alert.flapping else words


def alert_row(
    alert: Alert, skin: ThemeStyles, ground: str, width: int, picture: MonitorState, named: bool = False
) -> Row:
    """Exactly `width` cells; `named` adds whom it is about, where several are of one kind."""
    columns = Columns.of(width)
    dim = alert.state in _DIM
    loud = "faint" if dim else LEVELS[alert.finding.severity]

    def run(text: str, style: str, cells: int, right: bool = False) -> Run:
        return (fit(text, cells, right=right, glyphs=skin.glyphs), skin.style(style, ground))

    glyph = skin.glyph("flapping" if alert.flapping else alert.state.value)
    runs = [run(f" {glyph}", state_style(alert), 3)]
    if width >= 30:
        runs.append(run(WORDS[alert.finding.severity], loud, 5))
        runs.append(run(_age(age_s(alert, picture)), "faint" if dim else "muted", _AGE, True))
        runs.append(run("", "text", 1))
    runs.append(run(_title(alert, columns), "faint" if dim else _title_style(alert), columns.title))
    if columns.says:
        runs.append(run("", "text", 1))
        text = whole_figures(_says(alert, picture.time_base, named), columns.says, skin.glyph("cut"))
        runs.append(run(text, "faint" if dim else "muted", columns.says))
    if columns.counts:
        count = compact(alert.count, _COUNT - 1) + "×" if alert.count else "-"
        runs.append(run(count, "faint" if dim else "text", _COUNT + 1, True))
    if columns.lost:
        lost = compact_seconds(alert.lost_s, _LOST) if alert.lost_s > 0 else "-"
        runs.append(run(lost, loud if alert.lost_s > 0 else "faint", _LOST + 1, True))
    if columns.spark:
        runs.append(run("", "text", 1))
        runs.append(run(_activity(alert, picture, columns.spark, skin), "faint" if dim else loud, columns.spark))
    return tuple(runs)


def whole_figures(text: str, room: int, cut_off: str) -> str:
    """Shorten it without cutting a number in two, which would be a wrong one."""
    if len(text) <= room or room < 1:
        return text
    head, _, last = text[: room - 1].rpartition(" ")
    halved = text[room - 1] != " " and any(char.isdigit() for char in last)
    return f"{head} {cut_off}" if halved else text


def preview(alert: Alert, skin: ThemeStyles, width: int, room: int) -> list[Row]:
    """Sentence, next steps and a command of an alert, in up to `room` rows."""
    rows: list[Row] = []
    advice = [(f"{skin.glyph('next')} {text}", "accent") for text in alert.finding.advice]
    commands = [(f"$ {text}", "muted") for text in alert.finding.commands[:1]]
    for text, style in ((alert.finding.sentence, "muted"), *advice, *commands):
        lines = wrapped(text, max(1, width - 5))
        if len(rows) + len(lines) > room:
            lines = [*lines[: room - 1], f"{lines[room - 1]} {skin.glyph('cut')}"] if not rows and room > 0 else []
        rows += [((f"   {line}", skin.style(style)),) for line in lines]
    return rows


def heading_row(skin: ThemeStyles, width: int, window_s: float) -> Row:
    """Content of the columns."""
    columns = Columns.of(width)
    parts = [fit("", 3), fit("", 5), fit("age", _AGE, right=True), " ", fit("what", columns.title)]
    if columns.says:
        parts += [" ", fit("evidence", columns.says)]
    parts += [fit("n", _COUNT + 1, right=True), fit("lost", _LOST + 1, right=True)]
    if columns.spark:
        parts += [" ", fit(f"last {_WINDOWS * window_s / 60:.0f}m", columns.spark)]
    return ((cut("".join(parts), width), skin.style("faint")),)


def _title(alert: Alert, columns: Columns) -> str:
    """The glyph of an acknowledged one is that of one that fires."""
    shown = columns.says > 0 or alert.state is not AlertState.ACKED
    return alert.finding.title if shown else f"acked: {alert.finding.title}"


def _title_style(alert: Alert) -> str:
    return "title" if alert.state is AlertState.FIRING else "text"


def _says(alert: Alert, base: TimeBase, named: bool) -> str:
    about = ", ".join(value for _, value in sorted(alert.finding.identity.items())) if named else ""
    return " · ".join(part for part in (about, state_words(alert, base), alert.finding.sentence) if part)


def _activity(alert: Alert, picture: MonitorState, cells: int, skin: ThemeStyles) -> str:
    """Occurrences a stretch of time; the stretches lie still, so that the row changes only when one is over."""
    stretch = _WINDOWS * picture.window_s / cells
    if not (stretch > 0.0 and isfinite(stretch) and isfinite(picture.now)):
        return ""
    begin = (ceil(picture.now / stretch) - cells) * stretch
    counts = [0.0] * cells
    for time in alert.activity:
        if begin <= time < begin + cells * stretch:
            counts[min(cells - 1, int((time - begin) / stretch))] += 1
    return spark(counts, 0.0, max(counts), glyphs=skin.glyphs)


# --- Occurrences of an alert: weight updates as bars that all begin at 0, anything else as a list of moments ---

_UPDATE = "weight-update"
_LABEL, _FIGURES, _MARK = 17, 29, 3
_MOST = 12
_OF_SPANS = (1, 2)
"""Numbers in the id of a moment that is a span: the span's own, and which of several of its moments."""


def traces_of(alert: Alert, picture: MonitorState) -> list[Bar]:
    """The weight updates among its occurrences, newest first: their steps in the keys, all starting at 0.

    Only those that the picture still knows.
    """
    bars = {bar.seq: bar for bar in picture.board.bars(_UPDATE)}
    slowest = {row.key: row for row in (picture.snapshot.slowest if picture.snapshot else ())}
    return [trace for moment in reversed(alert.finding.moments) for trace in _trace(moment, bars, slowest)]


def _trace(moment: Moment, bars: Mapping[int, Bar], slowest: Mapping[str, TimelineRow]) -> Iterator[Bar]:
    bar = bars.get(moment.id[0]) if len(moment.id) in _OF_SPANS else None
    if bar is not None:
        legs = tuple(Leg(leg.kind, leg.start - bar.start, leg.end - bar.start) for leg in bar.legs)
        if legs and not bar.open:
            legs = (*legs, Leg("done", legs[-1].end, legs[-1].end))
        yield replace(bar, key=f"{bar.key}{_step(bar.values)}", start=0.0, end=bar.end - bar.start, legs=legs)
    elif moment.key and moment.key in slowest:
        yield _of_row(slowest[moment.key])


def _of_row(row: TimelineRow) -> Bar:
    """A weight update whose bar is not on the timeline: its phases follow from its figures."""
    values = {name: value for name, value in row.fields.items() if isinstance(value, float)}
    queue_s, rpc_s = values.get("queue_ms", 0.0) / 1000, values.get("rpc_ms", 0.0) / 1000
    end_s = max(row.end_s - row.start_s, queue_s + rpc_s)
    legs = (Leg("queue", 0.0, queue_s), Leg("rpc", queue_s, queue_s + rpc_s), Leg("done", end_s, end_s))
    return Bar(_UPDATE, f"{row.key}{_step(row.fields)}", 0.0, end_s, False, Level.NONE, legs, values)


def _step(values: Mapping[str, float | str]) -> str:
    step = values.get("step")
    return "" if step is None else f" s{step:.0f}" if isinstance(step, float) else f" s{step}"


def waterfall(alert: Alert, picture: MonitorState, skin: ThemeStyles, width: int) -> list[Words]:
    """An axis and a bar each, newest first; where there are no weight updates, when it occurred and how long."""
    traces = traces_of(alert, picture)
    if not traces:
        return _moments(alert, picture)
    label = _LABEL if width >= 72 else 10
    figures = _FIGURES if width >= 72 else 0
    room = max(8, width - label - figures - _MARK)
    end = max(1e-3, *(trace.end for trace in traces))
    scale = axis(ticks(0.0, end, room, origin=0.0, zero="0 s", plus=""), room)
    rows: list[Words] = [((" " * label, "faint"), (scale, "faint"))]
    rows += [_bar(trace, end, room, label, figures, skin) for trace in traces[:_MOST]]
    rest = alert.finding.count - min(len(traces), _MOST)
    return [*rows, *([((f" {rest} more in this window", "faint"),)] if rest > 0 else [])]


def _bar(trace: Bar, end: float, room: int, label: int, figures: int, skin: ThemeStyles) -> Words:
    cells = gantt(trace.legs, 0.0, end, room, still_open=trace.open, glyphs=skin.glyphs)
    words: list[tuple[str, str]] = [(fit(f" {trace.key}", label, glyphs=skin.glyphs), "text")]
    words += [(character, kind if kind in ("send", "queue", "rpc", "done") else "unknown") for character, kind in cells]
    words.append((f" {skin.mark(trace.level) if trace.level else ' '} ", _LEVELS[trace.level]))
    if figures:
        parts = [f"{name} {_ms(trace.values, f'{name}_ms'):>8}" for name in ("queue", "rpc")]
        words.append((fit("  ".join(parts), figures), "muted"))
    return tuple(words)


_LEVELS = {Level.NONE: "faint", Level.GOOD: "good", Level.WARNING: "warning", Level.CRITICAL: "critical"}


def _ms(values: Mapping[str, float], name: str) -> str:
    value = values.get(name) if name in values else next((v for n, v in values.items() if n.startswith(name)), None)
    return "?" if value is None else compact_seconds(value / 1000, 8)


def _moments(alert: Alert, picture: MonitorState) -> list[Words]:
    begin = picture.snapshot.run.start if picture.snapshot else picture.now
    rows: list[Words] = []
    for moment in reversed(alert.finding.moments[-_MOST:]):
        long = moment.end_s - moment.start_s
        when = moment_text(begin + moment.start_s, picture.time_base)
        end = begin + moment.end_s
        # Pollers go on while the run is silent, and time does after its end.
        now = picture.now if end <= picture.now and not picture.is_over else picture.present
        ago = f"{compact_seconds(max(0.0, now - end), 8)} ago"
        lasted = f"took {compact_seconds(long, 8)}" if long > 0 else ""
        words: Words = ((f" {when:<12}", "text"), (f"{ago:>14}  {lasted:<16}", "muted"), (moment.key, "text"))
        rows.append(words)
    rest = alert.finding.count - len(rows)
    return [*rows, *([((f" {rest} more in this window", "faint"),)] if rest > 0 else [])]
