"""The board as rows: title, axis, lanes, and one cursor through all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan

from perfmon.core import counted, plain
from perfmon.textgraphics import Tick, axis, compact_value, cut, fit, ticks
from perfmon.viewmodel import Board, Level, MetricLane, MonitorState, SpanLane, Viewport

from ..theme import LEVELS, ThemeStyles
from .header_footer import plain_moment
from .lanes import UPDATES, Geometry, Lane, LaneChoice, lanes_of, length_of, shown_unit
from .rows import Row, Run, short_duration

_MOST_UPDATES = 20
_EXPANDED = 0.6
"""Share of the rows that single weight updates have, at most."""


def lanes_wanted(board: Board, *, brief: bool = False) -> int:
    """Number of lanes, to distribute the room; `brief` where there is none for changes of alerts."""
    spans = [lane.metric for lane in board.spans if lane.bars and lane.kind != UPDATES]
    updates = any(lane.bars for lane in board.spans if lane.kind == UPDATES)
    metrics = sum(lane.name not in spans for lane in board.metrics)
    return updates + len(spans) + metrics + (bool(board.ticks) and not brief)


@dataclass(frozen=True, slots=True)
class TimelineView:
    """View of the timeline."""

    cursor: float | None = None
    """A moment on the axis."""
    chosen: tuple[str, str] | None = None
    """Key of the selected lane; None: the first one."""
    top: int = 0
    """The first lane that is shown."""
    order: str = "verdict"
    wanted: str = ""
    """Only lanes with this in their name."""
    expanded: bool = False
    """Weight updates have a row each."""
    focused: bool = False


@dataclass(frozen=True, slots=True)
class RenderedTimeline:
    """The rows below the title, and the lane that each of them shows."""

    rows: list[Row]
    lanes: list[Lane | None]
    keys: list[tuple[str, str]]
    """Of all lanes, those out of view included."""
    top: int
    selected: int


def draw_board(
    picture: MonitorState, width: int, height: int, sight: TimelineView, skin: ThemeStyles, header: bool = True
) -> RenderedTimeline:
    """`height` rows of the timeline of a picture: with `header` the axis, and the lanes in view."""
    geometry = Geometry.of(width)
    drawn = _drawn_lanes(picture, geometry, height - header, sight, skin, brief=not header)
    axis = [_axis_row(picture, geometry, sight.cursor, skin)] if header else []
    return replace(drawn, rows=[*axis, *drawn.rows], lanes=[*[None] * header, *drawn.lanes])


def _drawn_lanes(
    picture: MonitorState, geometry: Geometry, body: int, sight: TimelineView, skin: ThemeStyles, *, brief: bool
) -> RenderedTimeline:
    """The lanes in view, in at most `body` rows."""
    board, finding = picture.board, picture.verdict_finding
    proof, level = ((), Level.NONE) if finding is None else (finding.proof, LEVELS[finding.severity.value])
    update_rows = min(_MOST_UPDATES, max(3, int(_EXPANDED * body))) if sight.expanded else 1
    lanes = lanes_of(board, geometry, skin, LaneChoice(sight.order, sight.wanted, update_rows, proof, alerts=not brief))
    keys = [lane.key for lane in lanes]
    selected = keys.index(sight.chosen) if sight.chosen in keys else 0
    top = min(max(0, sight.top), max(0, len(lanes) - body))
    if selected < top:
        top = selected
    elif selected >= top + body:
        top = selected - body + 1
    column = None if sight.cursor is None else board.viewport.column(sight.cursor)
    shown: list[Lane | None] = []
    rows: list[Row] = []
    for at, pending in enumerate(lanes[top : top + body], top):
        lane = pending.draw()
        shown.append(lane)
        proven = level if pending.proves else Level.NONE
        chosen = sight.focused and at == selected
        rows.append(lane_row(lane, board.viewport, geometry, column, chosen, skin, proven))
    if not lanes and sight.wanted and body > 0:
        text = f" {skin.glyph('waiting')} no lane matches {plain(sight.wanted, 30)!r}: / with no text shows all"
        rows, shown = [((cut(text, geometry.begin + geometry.chart), skin.style("muted")),)], [None]
    return RenderedTimeline(rows, shown, keys, top, selected)


def _axis_row(picture: MonitorState, geometry: Geometry, cursor: float | None, skin: ThemeStyles) -> Row:
    port, faint = picture.board.viewport, skin.style("faint")
    named = ticks(port.start, port.end, geometry.chart, origin=picture.now)
    if cursor is not None and 0 <= port.column(cursor) < geometry.chart:
        label = plain_moment(cursor, picture)
        begin = min(max(0, port.column(cursor) - len(label) // 2), max(0, geometry.chart - len(label)))
        named.append(Tick(begin, label))  # the last one has its place before all others
    line = axis(named, geometry.chart)
    heads = {
        36: f" {'p50':>8} {'p95':>8} {'max':>8} {'crit':>7}",
        19: f"{'p95':>14} {'crit':>4}",
        12: f"{'p95':>7} {'crit':>4}",
    }
    figures = "@cursor" if cursor is not None else "now"
    return (
        (f" {fit('lane', geometry.label)}{fit(figures, geometry.now, right=True)}   ", faint),
        (line, faint),
        (fit(heads.get(geometry.stats, ""), geometry.stats + 1), faint),
    )


def lane_row(
    lane: Lane,
    port: Viewport,
    geometry: Geometry,
    column: int | None,
    chosen: bool,
    skin: ThemeStyles,
    proven: Level = Level.NONE,
) -> Row:
    """One lane, `chosen` when the selection is on it; `proven` is the level of the verdict that rests on it."""
    label_style = skin.style("selection" if chosen else "title" if proven else lane.style)
    now, level = lane.now, lane.level
    if column is not None and isinstance(lane.shown, MetricLane):
        now, level = at_column(lane.shown, column, geometry)
    elif column is not None and lane.bars:
        now, level = bar_at(lane, port, column, geometry)
    mark = skin.mark(level) if level is not Level.NONE and now else " "
    head: list[Run] = [
        (skin.glyph("edge"), skin.level(proven)) if proven else (" ", skin.style("text")),
        (fit(lane.label, geometry.label, glyphs=skin.glyphs), label_style),
        (fit(now, geometry.now, right=True, glyphs=skin.glyphs), skin.style("text")),
        (f" {mark}", skin.level(level)),
        (" ", skin.style("text")),
    ]
    runs = lane.runs if column is None else with_cursor(lane.runs, column, skin)
    tail = (fit(lane.stats, geometry.stats + 1, glyphs=skin.glyphs), skin.style("muted"))
    return (*head, *runs, tail)


def at_column(lane: MetricLane, column: int, geometry: Geometry) -> tuple[str, Level]:
    """The value under the cursor."""
    if not 0 <= column < len(lane.values) or isnan(lane.values[column]):
        return "-", Level.NONE
    return compact_value(lane.values[column], shown_unit(lane.unit), geometry.now), Level(lane.levels[column])


def bar_at(lane: Lane, port: Viewport, column: int, geometry: Geometry) -> tuple[str, Level]:
    """Duration of the worst span under the cursor."""
    under = [bar for bar in lane.bars if port.column(bar.start) <= column <= port.column(bar.end)]
    if not under:
        return "-", Level.NONE
    worst = max(under, key=lambda bar: (bar.level, bar.end - bar.start))
    metric = lane.shown.metric if isinstance(lane.shown, SpanLane) else "wall_ms"
    return length_of(worst, metric, geometry.now), worst.level


def with_cursor(runs: Sequence[Run], column: int, skin: ThemeStyles) -> list[Run]:
    """The chart with the cursor's line through it."""
    drawn: list[Run] = []
    at = 0
    for text, style in runs:
        within = column - at
        at += len(text)
        if not 0 <= within < len(text):
            drawn.append((text, style))
            continue
        char = text[within]
        marked = skin.style("accent") if char == " " else style + skin.style("cursor")
        cursor = (skin.glyph("vertical") if char == " " else char, marked)
        parts = ((text[:within], style), cursor, (text[within + 1 :], style))
        drawn += [part for part in parts if part[0]]
    return drawn


def board_title(board: Board, span_s: float, sight: TimelineView, drawn: RenderedTimeline) -> tuple[str, str]:
    """Title of the timeline, left and right."""
    port: Viewport = board.viewport
    left = f"{short_duration(span_s)}, one column {short_duration(port.column_s)}"
    if sight.wanted:
        left += f", lanes with {sight.wanted!r}"
    if sight.order != "verdict":
        left += f", by {sight.order}"
    hidden = len(drawn.keys) - sum(lane is not None for lane in drawn.lanes)
    right = counted(hidden, "more lane") if hidden > 0 else ""
    return left, right
