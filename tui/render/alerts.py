"""An alert as one row: what it is, how long, how often, what it cost, and when it happened."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite

from perfmon.alerts import of_pollers
from perfmon.drawing import compact, compact_seconds, cut, fit, spark
from perfmon.model import Severity, TimeBase
from perfmon.picture import Alert, AlertState

from ..skin import Skin
from .moments import moment_text
from .prose import wrapped
from .rows import Row, Run

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


@dataclass(frozen=True, slots=True)
class Moment:
    """Parts of the picture for a row."""

    now: float
    window_s: float
    base: TimeBase


def state_style(alert: Alert) -> str:
    """The style of an alert's state."""
    if alert.state is AlertState.FIRING:
        return LEVELS[alert.finding.severity]
    return _STATES.get(alert.state, "faint")


def age_s(alert: Alert, now: float) -> float:
    """Seconds that it has held this time, as far as its logs tell; of what is over, since it ended."""
    if alert.state is AlertState.RESOLVED:
        return max(0.0, now - alert.changed)
    return max(0.0, alert.held_until(now) - alert.since)


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


def alert_row(alert: Alert, skin: Skin, ground: str, width: int, moment: Moment, named: bool = False) -> Row:
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
        runs.append(run(_age(age_s(alert, moment.now)), "faint" if dim else "muted", _AGE, True))
        runs.append(run("", "text", 1))
    runs.append(run(_title(alert, columns), "faint" if dim else _title_style(alert), columns.title))
    if columns.says:
        runs.append(run("", "text", 1))
        said = whole_figures(_says(alert, moment.base, named), columns.says, skin.glyph("cut"))
        runs.append(run(said, "faint" if dim else "muted", columns.says))
    if columns.counts:
        count = compact(alert.count, _COUNT - 1) + "×" if alert.count else "-"
        runs.append(run(count, "faint" if dim else "text", _COUNT + 1, True))
    if columns.lost:
        lost = compact_seconds(alert.lost_s, _LOST) if alert.lost_s > 0 else "-"
        runs.append(run(lost, loud if alert.lost_s > 0 else "faint", _LOST + 1, True))
    if columns.spark:
        runs.append(run("", "text", 1))
        runs.append(run(_activity(alert, moment, columns.spark, skin), "faint" if dim else loud, columns.spark))
    return tuple(runs)


def whole_figures(text: str, room: int, cut_off: str) -> str:
    """Shorten it without cutting a number in two, which would be a wrong one."""
    if len(text) <= room or room < 1:
        return text
    head, _, last = text[: room - 1].rpartition(" ")
    halved = text[room - 1] != " " and any(char.isdigit() for char in last)
    return f"{head} {cut_off}" if halved else text


def preview(alert: Alert, skin: Skin, width: int, room: int) -> list[Row]:
    """Sentence and next step of an alert, in up to `room` rows."""
    rows: list[Row] = []
    advice = [f"{skin.glyph('next')} {text}" for text in alert.finding.advice[:1]]
    for text, style in ((alert.finding.sentence, "muted"), *((text, "accent") for text in advice)):
        lines = wrapped(text, max(1, width - 5))
        if len(rows) + len(lines) > room:
            lines = [*lines[: room - 1], f"{lines[room - 1]} {skin.glyph('cut')}"] if not rows and room > 1 else []
        rows += [((f"   {line}", skin.style(style)),) for line in lines]
    return rows


def heading_row(skin: Skin, width: int, window_s: float) -> Row:
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
    said = columns.says > 0 or alert.state is not AlertState.ACKED
    return alert.finding.title if said else f"acked: {alert.finding.title}"


def _title_style(alert: Alert) -> str:
    return "title" if alert.state is AlertState.FIRING else "text"


def _says(alert: Alert, base: TimeBase, named: bool) -> str:
    about = ", ".join(value for _, value in alert.key[1]) if named else ""
    return " · ".join(part for part in (about, state_words(alert, base), alert.finding.sentence) if part)


def _activity(alert: Alert, moment: Moment, cells: int, skin: Skin) -> str:
    """Occurrences a stretch of time; the stretches lie still, so that the row changes only when one is over."""
    stretch = _WINDOWS * moment.window_s / cells
    if not (stretch > 0.0 and isfinite(stretch) and isfinite(moment.now)):
        return ""
    begin = (ceil(moment.now / stretch) - cells) * stretch
    counts = [0.0] * cells
    for time in alert.activity:
        if begin <= time < begin + cells * stretch:
            counts[min(cells - 1, int((time - begin) / stretch))] += 1
    return spark(counts, 0.0, max(counts), glyphs=skin.glyphs)
