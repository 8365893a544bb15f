"""The board as rows: title, axis, lanes, and one cursor through all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import TYPE_CHECKING

from perfmon.core import counted, plain, short_duration
from perfmon.textgraphics import Tick, axis, compact_seconds, compact_value, cut, fit, spark, ticks
from perfmon.viewmodel import Board, Level, MetricLane, MonitorState, SpanLane, Viewport

from ..theme import LEVELS, ThemeStyles
from .lanes import UPDATES, Cell, Geometry, Lane, LaneChoice, lanes_of, length_of, runs_of, shown_unit
from .rows import Row, Run, cells, plain_moment

if TYPE_CHECKING:
    from perfmon.viewmodel import Overview

_MOST_UPDATES = 20
_WITH_OVERVIEW = 6
"""Rows of the axis and of lanes from which on the whole run has one, too."""
_OUT_OF_VIEW = 0.1
"""Share of the view that has to lie before or behind it: less is no reason for a row."""
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
    dragged: tuple[int, int] | None = None
    """Columns that the mouse has been dragged over: on the overview if `whole`, else on the timeline."""
    whole: bool = False


_Made = tuple[tuple[object, ...], tuple[object, ...], Lane, Row]
"""Objects and values that a lane was drawn of, the lane, and its row."""


@dataclass(frozen=True, slots=True)
class RenderedTimeline:
    """The rows below the title, and the lane that each of them shows."""

    rows: list[Row]
    lanes: list[Lane | None]
    keys: list[tuple[str, str]]
    """Of all lanes, those out of view included."""
    top: int
    selected: int
    overview: bool = False
    """The first row is the whole run; then comes the axis."""
    made: Mapping[tuple[str, str], _Made] = field(default_factory=dict)
    """By key; a lane of the same objects is not drawn again."""


def draw_board(
    picture: MonitorState,
    width: int,
    height: int,
    sight: TimelineView,
    skin: ThemeStyles,
    header: bool = True,
    before: RenderedTimeline | None = None,
) -> RenderedTimeline:
    """`height` rows of the timeline of a picture: with `header` the whole run and the axis, and the lanes in view;
    those that `before` has are taken from there."""
    geometry = Geometry.of(width)
    rows: list[Row] = []
    overview = header and height >= _WITH_OVERVIEW and is_part(picture)
    if overview and picture.overview is not None:
        rows.append(_overview_row(picture.overview, picture, geometry, sight, skin))
    if header:
        rows.append(_axis_row(picture, geometry, sight, skin))
    drawn = _drawn_lanes(
        picture, geometry, height - len(rows), sight, skin, before.made if before else {}, brief=not header
    )
    above: list[Lane | None] = [None] * len(rows)
    return replace(drawn, rows=[*rows, *drawn.rows], lanes=[*above, *drawn.lanes], overview=overview)


def is_part(picture: MonitorState) -> bool:
    """Return true if there is more of the run than is in view."""
    port, whole = picture.board.viewport, picture.overview
    if whole is None or whole.viewport.columns != port.columns:
        return False
    before, after = port.start - whole.begin, picture.now - port.end
    return max(before, after) > _OUT_OF_VIEW * (port.end - port.start)


def _overview_row(
    whole: Overview, picture: MonitorState, geometry: Geometry, sight: TimelineView, skin: ThemeStyles
) -> Row:
    """The whole run: its pace, when alerts were active, and between brackets what is in view."""
    paces, port, board = whole.paces, whole.viewport, picture.board.viewport
    known = sorted(pace for pace in paces if not isnan(pace))
    usual = known[len(known) * 9 // 10] if known else 0.0  # a few quick steps leave the others their height
    chars = spark([min(pace, usual) for pace in paces], 0.0, usual or 1.0, glyphs=skin.glyphs)
    cells: dict[int, Cell] = {}
    for column, (char, level) in enumerate(zip(chars, whole.levels, strict=True)):
        idle = char == " " and port.start + (column + 1) * port.column_s > whole.begin
        usual_style = skin.style("faint" if idle else "metric")
        style = skin.level(Level(level)) if level > Level.GOOD else usual_style
        cells[column] = (skin.glyph("dot") if idle else char.replace(skin.spark[7], skin.spark[6]), style)
    for time, level in whole.starts:
        if level > Level.GOOD:
            cells[max(0, min(geometry.chart - 1, port.column(time)))] = (skin.mark(level), skin.level(level))
    first = max(0, min(geometry.chart - 2, port.column(board.start)))
    last = max(first + 1, min(geometry.chart - 1, port.column(board.end)))
    for column, char in ((first, "["), (last, "]")):
        cells[column] = (char, skin.style("accent"))
    if sight.dragged is not None and sight.whole:
        low, high = sorted(sight.dragged)
        cells |= {column: (cells[column][0], skin.style("selection")) for column in range(low, high + 1)}
    ran = short_duration(float(int(picture.now - whole.begin)))
    alerts = counted(len(whole.starts), "alert") if whole.starts and geometry.stats > 6 else ""
    return (
        (f" {fit('whole run', geometry.label)}", skin.style("faint")),
        (f"{fit(ran, geometry.now, right=True, glyphs=skin.glyphs)}   ", skin.style("muted")),
        *runs_of(cells, geometry.chart, skin),
        (fit(f" {alerts}", geometry.stats + 1), skin.style("faint")),
    )


def _drawn_lanes(
    picture: MonitorState,
    geometry: Geometry,
    body: int,
    sight: TimelineView,
    skin: ThemeStyles,
    before: Mapping[tuple[str, str], _Made],
    *,
    brief: bool,
) -> RenderedTimeline:
    """The lanes in view, in at most `body` rows."""
    board, finding = picture.board, picture.verdict_finding
    level = Level.NONE if finding is None else LEVELS[finding.severity.value]
    proof, group = ((), "") if finding is None else (finding.proof, finding.identity.get("group", ""))
    others = () if picture.snapshot is None else picture.snapshot.findings
    also = frozenset(name for one in others if one.state == "firing" and not one.explained_by for name in one.proof)
    update_rows = min(_MOST_UPDATES, max(3, int(_EXPANDED * body))) if sight.expanded else 1
    choice = LaneChoice(sight.order, sight.wanted, update_rows, proof, group, also, not brief)
    lanes = lanes_of(board, geometry, skin, choice)
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
    made: dict[tuple[str, str], _Made] = {}
    for at, pending in enumerate(lanes[top : top + body], top):
        proven = level if pending.proves else Level.NONE
        chosen = sight.focused and at == selected
        state = (column, chosen, proven, board.viewport)
        known = before.get(pending.key)
        if known is not None and known[1] == state and all(map(_same, known[0], pending.basis)):
            made[pending.key] = known
        else:
            lane = pending.draw()
            row = lane_row(lane, board.viewport, geometry, column, chosen, skin, proven)
            made[pending.key] = pending.basis, state, lane, row
        shown.append(made[pending.key][2])
        rows.append(made[pending.key][3])
    if not lanes and sight.wanted and body > 0:
        text = f" {skin.glyph('waiting')} no lane matches {plain(sight.wanted, 30)!r}: esc, or / and enter, shows all"
        rows, shown = [((cut(text, geometry.begin + geometry.chart), skin.style("muted")),)], [None]
    return RenderedTimeline(rows, shown, keys, top, selected, made=made)


def _same(one: object, other: object) -> bool:
    """The same object, or an equal one of a kind that is made for each picture."""
    return one is other or (isinstance(one, Viewport | str | float) and one == other)


def _axis_row(picture: MonitorState, geometry: Geometry, sight: TimelineView, skin: ThemeStyles) -> Row:
    port, cursor, faint = picture.board.viewport, sight.cursor, skin.style("faint")
    named = ticks(port.start, port.end, geometry.chart, origin=picture.now, zero="end" if picture.is_over else "now")
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
    figures = "@cursor" if cursor is not None else "last" if picture.is_over else "now"
    low, high = sorted(sight.dragged) if sight.dragged is not None and not sight.whole else (0, -1)
    return (
        (f" {fit('lane', geometry.label)}{fit(figures, geometry.now, right=True)}   ", faint),
        (line[:low], faint),
        (line[low : high + 1], skin.style("selection")),
        (line[high + 1 :], faint),
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
    now, level, age_s = lane.now, lane.level, 0.0
    if column is not None and isinstance(lane.shown, MetricLane):
        now, level, age_s = at_column(lane.shown, column, geometry, port.column_s)
    elif column is not None and lane.bars:
        now, level, age_s = bar_at(lane, port, column, geometry)
    mark = skin.mark(level) if level is not Level.NONE and now and not age_s else " "
    label, room = geometry.label, geometry.now
    if age_s:  # an age takes what the name leaves
        now = _aged(now, age_s, label + room - cells(lane.label) - 1)
        label, room = label + room - max(room, cells(now)), max(room, cells(now))
    head: list[Run] = [
        (skin.glyph("edge"), skin.level(proven)) if proven else (" ", skin.style("text")),
        (fit(lane.label, label, glyphs=skin.glyphs), label_style),
        (fit(now, room, right=True, glyphs=skin.glyphs), skin.style("faint" if age_s else "text")),
        (f" {mark}", skin.level(level)),
        (" ", skin.style("text")),
    ]
    runs = lane.runs if column is None else with_cursor(lane.runs, column, skin)
    tail = (fit(lane.stats, geometry.stats + 1, glyphs=skin.glyphs), skin.style("muted"))
    return (*head, *runs, tail)


def at_column(lane: MetricLane, column: int, geometry: Geometry, column_s: float) -> tuple[str, Level, float]:
    """The value under the cursor; else the last one before it in view, and its age in seconds."""
    at = min(column, len(lane.values) - 1)
    while at >= 0 and isnan(lane.values[at]):
        at -= 1
    if at < 0:
        return "-", Level.NONE, 0.0
    level = Level(lane.levels[at])
    value = compact_value(lane.values[at], shown_unit(lane.unit), geometry.now)
    return value, level, (column - at) * column_s


def _aged(value: str, seconds: float, room: int) -> str:
    """A value with its age, as closely as it needs; without, where it does not fit at all."""
    age = f"{int(seconds)} s" if seconds < 100 else compact_seconds(seconds, 4)
    brief = f"{value.replace(' ', '')} {age.replace(' ', '')} ago"
    shown = (f"{value} ({age} ago)", brief, value)
    return next((text for text in shown if cells(text) <= room), value)


def bar_at(lane: Lane, port: Viewport, column: int, geometry: Geometry) -> tuple[str, Level, float]:
    """Duration of the worst span under the cursor; else of the last one before it, and its age in seconds."""
    metric = lane.shown.metric if isinstance(lane.shown, SpanLane) else "wall_ms"
    under = [bar for bar in lane.bars if port.column(bar.start) <= column <= port.column(bar.end)]
    if under:
        worst = max(under, key=lambda bar: (bar.level, bar.end - bar.start))
        return length_of(worst, metric, geometry.now), worst.level, 0.0
    before = [bar for bar in lane.bars if port.column(bar.end) < column]
    if not before:
        return "-", Level.NONE, 0.0
    last = max(before, key=lambda bar: bar.end)
    age_s = (column - port.column(last.end)) * port.column_s
    return length_of(last, metric, geometry.now), last.level, age_s


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


def board_title(board: Board, sight: TimelineView, drawn: RenderedTimeline) -> tuple[str, str]:
    """Title of the timeline, left and right."""
    port: Viewport = board.viewport
    left = f"{short_duration(port.end - port.start)}, one column {short_duration(port.column_s)}"
    if sight.wanted:
        left += f", lanes with {sight.wanted!r}"
    if sight.order != "verdict":
        left += f", by {sight.order}"
    hidden = len(drawn.keys) - sum(lane is not None for lane in drawn.lanes)
    right = counted(hidden, "more lane") if hidden > 0 else ""
    return left, right
