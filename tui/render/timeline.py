"""The board as rows: title, axis, lanes, and one cursor through all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan

from perfmon.core import plain
from perfmon.textgraphics import Tick, axis, compact_seconds, compact_value, cut, fit, ticks
from perfmon.viewmodel import Board, Level, MetricLane, MonitorState, SpanLane, Viewport

from ..theme import ThemeStyles
from .header_footer import plain_moment
from .lanes import UPDATES, Geometry, Lane, lanes_of, length_of, pressing_spans, shown_unit
from .rows import Row, Run, cells, short_duration

_MOST_UPDATES = 7
_ROWS_OF_UPDATES = ((22, _MOST_UPDATES), (13, 4), (9, 3))
"""Minimum rows of updates, by available rows; they also take rows that no other lane needs."""


def lanes_wanted(board: Board, *, brief: bool = False) -> int:
    """Number of lanes, to distribute the room; `brief` as in `lanes_of`."""
    updates = sum(len(lane.bars) for lane in board.spans if lane.kind == UPDATES)
    return min(updates, _MOST_UPDATES) + _other_lanes(board, brief=brief)


def _other_lanes(board: Board, *, brief: bool) -> int:
    """Lanes that are not of weight updates."""
    shown = pressing_spans(board) if brief else board.spans
    spans = [lane.metric for lane in shown if lane.bars and lane.kind != UPDATES]
    return len(spans) + (not brief) + sum(lane.name not in spans for lane in board.metrics)


@dataclass(frozen=True, slots=True)
class TimelineView:
    """View of the timeline."""

    cursor: float | None = None
    """A moment on the axis."""
    selected: int = 0
    """Index of the lane, from 0."""
    top: int = 0
    """The first lane that is shown."""
    order: str = "usual"
    wanted: str = ""
    """Only lanes with this in their name."""
    focused: bool = False


@dataclass(frozen=True, slots=True)
class RenderedTimeline:
    """The rows below the title, and the lane that each of them shows."""

    rows: list[Row]
    lanes: list[Lane | None]
    count: int
    """Of all lanes, those out of sight included."""
    top: int
    selected: int


def draw_board(
    picture: MonitorState, width: int, height: int, sight: TimelineView, skin: ThemeStyles, header: bool = True
) -> RenderedTimeline:
    """`height` rows of the timeline of a picture: with `header` the axis, and the lanes in view."""
    geometry = Geometry.of(width)
    drawn = _drawn_lanes(picture.board, geometry, height - header, sight, skin, brief=not header)
    axis = [_axis_row(picture, geometry, sight.cursor, skin)] if header else []
    return replace(drawn, rows=[*axis, *drawn.rows], lanes=[*[None] * header, *drawn.lanes])


def _drawn_lanes(
    board: Board, geometry: Geometry, body: int, sight: TimelineView, skin: ThemeStyles, *, brief: bool
) -> RenderedTimeline:
    """The lanes in view, in at most `body` rows."""
    update_rows = next((rows for least, rows in _ROWS_OF_UPDATES if body >= least), 1)
    if not sight.wanted:
        update_rows = max(update_rows, min(_MOST_UPDATES, body - _other_lanes(board, brief=brief)))
    lanes = lanes_of(board, geometry, skin, update_rows, sight.order, sight.wanted, brief=brief)
    selected = min(max(0, sight.selected), max(0, len(lanes) - 1))
    top = min(max(0, sight.top), max(0, len(lanes) - body))
    if selected < top:
        top = selected
    elif selected >= top + body:
        top = selected - body + 1
    column = None if sight.cursor is None else board.viewport.column(sight.cursor)
    shown: list[Lane | None] = []
    rows: list[Row] = []
    for at, draw in enumerate(lanes[top : top + body], top):
        lane = draw()
        shown.append(lane)
        rows.append(lane_row(lane, board.viewport, geometry, column, sight.focused and at == selected, skin))
    if not lanes and sight.wanted and body > 0:
        text = f" {skin.glyph('waiting')} no lane matches {plain(sight.wanted, 30)!r}: / with no text shows all"
        rows, shown = [((cut(text, geometry.begin + geometry.chart), skin.style("muted")),)], [None]
    return RenderedTimeline(rows, shown, len(lanes), top, selected)


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
    lane: Lane, port: Viewport, geometry: Geometry, column: int | None, chosen: bool, skin: ThemeStyles
) -> Row:
    """One lane, `chosen` when the selection is on it."""
    label_style = skin.style("selection") if chosen else skin.style(lane.style)
    now, level, aged = lane.now, lane.level, False
    if column is not None and isinstance(lane.shown, MetricLane):
        now, level, aged = at_column(lane.shown, column, geometry, port.column_s)
    elif column is not None and lane.bars:
        now, level = bar_at(lane, port, column, geometry)
    mark = skin.mark(level) if level is not Level.NONE and now and not aged else " "
    head: list[Run] = [
        (" ", skin.style("text")),
        (fit(lane.label, geometry.label, glyphs=skin.glyphs), label_style),
        (fit(now, geometry.now, right=True, glyphs=skin.glyphs), skin.style("faint" if aged else "text")),
        (f" {mark}", skin.level(level)),
        (" ", skin.style("text")),
    ]
    runs = lane.runs if column is None else with_cursor(lane.runs, column, skin)
    tail = (fit(lane.stats, geometry.stats + 1, glyphs=skin.glyphs), skin.style("muted"))
    return (*head, *runs, tail)


def at_column(lane: MetricLane, column: int, geometry: Geometry, column_s: float) -> tuple[str, Level, bool]:
    """The value under the cursor; else, and then True, the last one before it in view, with its age."""
    at = min(column, len(lane.values) - 1)
    while at >= 0 and isnan(lane.values[at]):
        at -= 1
    if at < 0:
        return "-", Level.NONE, False
    level = Level(lane.levels[at])
    if at == column:
        return compact_value(lane.values[at], shown_unit(lane.unit), geometry.now), level, False
    seconds, unit = (column - at) * column_s, shown_unit(lane.unit)
    age = f" -{int(seconds)}s" if seconds < 100 else f" -{compact_seconds(seconds, 4).replace(' ', '')}"
    value = compact_value(lane.values[at], unit, geometry.now)
    return f"{value}{age}" if cells(value) + len(age) <= geometry.now else value, level, True


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
    if sight.order != "usual":
        left += f", {'worst first' if sight.order == 'worst' else 'by name'}"
    hidden = drawn.count - sum(lane is not None for lane in drawn.lanes)
    right = f"{hidden} more lanes" if hidden > 0 else ""
    return left, right
