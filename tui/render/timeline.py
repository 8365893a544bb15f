"""The board as rows: title, axis, lanes, and one cursor through all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isnan
from typing import TYPE_CHECKING

from perfmon.core import counted, plain, short_duration
from perfmon.textgraphics import Tick, axis, cut, fit, spark, ticks
from perfmon.viewmodel import Bar, Board, Level, MetricLane, MonitorState, RunState, Viewport

from ..theme import LEVELS, ThemeStyles
from .lanes import (
    UPDATES,
    Cell,
    Geometry,
    Lane,
    alerts_lane,
    lane_row,
    metric_lane,
    runs_of,
    shared_lane,
    span_lane,
    update_lane,
)
from .rows import Row, plain_moment

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


# --- which lanes there are, and in which order ---


@dataclass(frozen=True, slots=True)
class PendingLane:
    """A lane that is drawn when it is needed: most lanes are out of view."""

    key: tuple[str, str]
    """Kind and name: what the selection stays on."""
    draw: partial[Lane]
    proves: bool = False
    """The verdict rests on it."""

    @property
    def basis(self) -> tuple[object, ...]:
        """The values that it is drawn of."""
        return self.draw.func, *self.draw.args


@dataclass(frozen=True, slots=True)
class LaneChoice:
    """Selection and order of lanes."""

    order: str = "verdict"
    """`verdict`: what proves it, what is critical, then the rest by kind; `kind`; `name`."""
    wanted: str = ""
    """Only lanes with this in their name."""
    update_rows: int = 1
    """Most rows of weight updates: with one they share it."""
    proof: tuple[str, ...] = ()
    """Metrics and kinds of spans that the verdict rests on."""
    group: str = ""
    """The queue or engine that it is about, if it is about one."""
    also: frozenset[str] = frozenset()
    """Metrics and kinds of spans that other firing findings rest on."""
    alerts: bool = True
    """With a lane of alert changes."""


def lanes_of(board: Board, geometry: Geometry, skin: ThemeStyles, choice: LaneChoice) -> list[PendingLane]:
    """All lanes from top to bottom."""
    port, stats = board.viewport, {lane.name: lane for lane in board.metrics}
    ranked: list[tuple[tuple[float, ...], PendingLane]] = []
    of_spans = set[str]()

    def add(names: tuple[str, ...], bad: float, key: tuple[str, str], draw: partial[Lane]) -> None:
        place = min((choice.proof.index(name) for name in names if name in choice.proof), default=None)
        usual = float(len(ranked))
        bad = max(bad, _ALSO) if not choice.also.isdisjoint(names) else bad
        rank = (0.0, float(place), usual) if place is not None else (1.0, -bad, usual) if bad else (2.0, 0.0, usual)
        ranked.append((rank, PendingLane(key, draw, place is not None)))

    unlimited = [one for lane in board.spans if (one := stats.get(lane.metric)) is not None and one.good is None]
    longest_s = max([(one.max or 0.0) / (1000.0 if one.unit == "ms" else 1.0) for one in unlimited], default=0.0)
    for lane in board.spans:
        bad = _badness(stats.get(lane.metric), lane.bars[-1].level if lane.bars else Level.NONE)
        if lane.kind == UPDATES:
            for key, draw in _updates(lane.bars, port, geometry, skin, choice.update_rows):
                add((lane.kind, lane.metric), bad, key, draw)
        elif lane.bars:
            of_spans.add(lane.metric)
            known = stats.get(lane.metric)
            scale_s = 0.0 if known is not None and known.good is not None else longest_s
            draw = partial(span_lane, lane, known, scale_s, port, geometry, skin)
            add((lane.kind, lane.metric), bad, (lane.kind, ""), draw)
    if choice.alerts and board.ticks:
        add((), 0.0, ("alerts", ""), partial(alerts_lane, board.ticks, port, geometry, skin))
    for metric in sorted(board.metrics, key=lambda lane: lane.name) if choice.order == "name" else board.metrics:
        if metric.name not in of_spans or choice.wanted:
            bad = _badness(metric, metric.now_level)
            other = metric.group and choice.group and metric.group != choice.group
            add(
                () if other else (metric.metric,),
                bad,
                ("metric", metric.name),
                partial(metric_lane, metric, port.column_s, geometry, skin),
            )
    if choice.order == "verdict":
        ranked.sort(key=lambda entry: entry[0])
    lanes = [lane for _, lane in ranked]
    if not choice.wanted:
        return lanes
    wanted = choice.wanted.casefold()
    return [one for one in lanes if wanted in f"{(drawn := one.draw()).label}\n{drawn.key}".casefold()]


_ALSO = 2.0
"""More than any share: what another finding rests on comes before what is only beyond its limits."""
_NOTABLE = 0.05
"""Share of critical values from which a lane is of interest, whatever its last value is."""


def _badness(lane: MetricLane | None, now: Level) -> float:
    """Zero where nothing is critical; in tenths, so that lanes keep their places."""
    share = lane.critical_share or 0.0 if lane is not None else 0.0
    return 0.1 + round(share, 1) if share >= _NOTABLE or now is Level.CRITICAL else 0.0


def _updates(
    bars: Sequence[Bar], port: Viewport, geometry: Geometry, skin: ThemeStyles, rows: int
) -> Iterator[tuple[tuple[str, str], partial[Lane]]]:
    """The newest updates on rows of their own, those before them together on one."""
    own = bars if len(bars) <= rows and rows > 1 else bars[len(bars) - (rows - 1) :] if rows > 1 else ()
    rest = bars[: len(bars) - len(own)]
    if rest:
        label = f"weights x{len(rest)}" if geometry.label > 9 else "weights"
        yield ("updates", ""), partial(shared_lane, rest, port, geometry, skin, label)
    for bar in own:
        yield ("update", str(bar.seq)), partial(update_lane, bar, port, geometry, skin)


# --- lanes as rows ---


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
    newest = newest_moment(picture)
    named = ticks(port.start, port.end, geometry.chart, origin=picture.now)
    named = [replace(tick, label=newest) if tick.label == "now" else tick for tick in named]
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
    figures = "@cursor" if cursor is not None else "now" if newest == "now" else "last"
    low, high = sorted(sight.dragged) if sight.dragged is not None and not sight.whole else (0, -1)
    return (
        (f" {fit('lane', geometry.label)}{fit(figures, geometry.now, right=True)}   ", faint),
        (line[:low], faint),
        (line[low : high + 1], skin.style("selection")),
        (line[high + 1 :], faint),
        (fit(heads.get(geometry.stats, ""), geometry.stats + 1), faint),
    )


def newest_moment(picture: MonitorState) -> str:
    """The newest moment of the axis: the present, the end of the run, or its last line where nothing came since."""
    if picture.is_over:
        return "end"
    return "last line" if picture.actual is not None or picture.state is RunState.ENDED else "now"


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
