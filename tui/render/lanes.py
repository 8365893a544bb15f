"""Lanes of the timeline as rows: metrics, spans as Gantt bars, figures at the end."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from math import ceil, floor, isfinite, isnan
from operator import itemgetter

from rich.style import Style

from perfmon.core import percentile, plain
from perfmon.sources.formats import short_names
from perfmon.textgraphics import ASCII, compact_seconds, compact_value, fit, gantt, limits, line, shown_unit, spark
from perfmon.viewmodel import (
    Bar,
    Leg,
    Level,
    MetricLane,
    SpanLane,
    Transition,
    Viewport,
    held,
    is_level,
)

from ..theme import ThemeStyles
from .rows import Row, Run, cells

# --- The legs of weight updates over the time axis, and cells put together to runs ---

Cell = tuple[str, Style]
"""A character of one cell."""
_Legs = tuple[bool, tuple[tuple[str, float, float], ...]]
"""State (open or not) of a bar, and its phases: kind, start and end, in columns."""
_CLOSED = 0.5
"""Columns of the shortest update with a mark of its end: with two columns by chance a shorter one would have it."""
_LEG_STYLES = {"send": "send", "queue": "queue", "rpc": "rpc", "done": "done", "unknown": "unknown"}


def gantt_runs(
    bars: Sequence[Bar], port: Viewport, columns: int, skin: ThemeStyles, *, heat: bool = False
) -> list[Run]:
    """The bars on one row, the later ones before those that they share columns with; with `heat` in the styles of their
    levels: characters show the phase then."""
    cells: dict[int, Cell] = {}
    for bar in bars:
        still_open, legs = _legs_of(bar, port)
        level = bar.level if heat and bar.level > Level.GOOD else Level.NONE
        cells.update(_drawn(legs, columns, still_open, skin, level))
    return runs_of(cells, columns, skin)


def runs_of(cells: Mapping[int, Cell], columns: int, skin: ThemeStyles) -> list[Run]:
    """The cells at their columns, blanks between them: neighbours of one style as one run."""
    blank = (" ", skin.style("text"))
    drawn = (cells.get(column, blank) for column in range(columns))
    return [("".join(char for char, _ in group), style) for style, group in groupby(drawn, key=itemgetter(1))]


def _legs_of(bar: Bar, port: Viewport) -> _Legs:
    """Phases of a bar, at the resolution of drawing."""
    start, column_s = port.start, port.column_s
    legs = tuple([(leg.kind, (leg.start - start) / column_s, (leg.end - start) / column_s) for leg in bar.legs])
    if bar.open:  # quarters of a column are fine enough: it is then drawn again only when it shows
        legs = tuple([(kind, floor(4 * begin) / 4, ceil(4 * end) / 4) for kind, begin, end in legs])
    elif legs and legs[-1][2] - legs[0][1] >= _CLOSED:  # it shows whether its last line came with the RPC's or after it
        legs = (*legs, ("done", legs[-1][2], legs[-1][2]))
    else:
        legs = tuple(leg for leg in legs if leg[0] != "done") or legs
    return bar.open, legs


@lru_cache(maxsize=512)
def _drawn(
    legs: tuple[tuple[str, float, float], ...], columns: int, still_open: bool, skin: ThemeStyles, level: Level
) -> tuple[tuple[int, Cell], ...]:
    placed = [Leg(kind, begin, end) for kind, begin, end in legs]
    drawn = gantt(placed, 0.0, float(columns), columns, still_open=still_open, glyphs=skin.glyphs)
    return tuple(
        (column, (char, skin.level(level) if level else skin.style(_LEG_STYLES.get(kind, "metric"))))
        for column, (char, kind) in enumerate(drawn)
        if kind
    )


# --- The lanes of the board as rows: what each shows over the common time axis, and the figures at its end ---

UPDATES = "weight-update"
_NAMED = 18
"""Cells of the longest words that name a lane: with fewer columns it would have another name elsewhere."""
_STYLES = {
    "checkpoint-write": "checkpoint-write",
    "checkpoint-wait": "checkpoint-wait",
    "generation-batch": "generation",
}
_SHARED_OUT = ((150, 26, 9, 36), (100, 18, 8, 19), (72, 18, 8, 12), (58, 17, 7, 5))
"""From so many cells on: those of a lane's name, of its newest value and of its figures."""
_RANKS = {Level.NONE: 2, Level.GOOD: 10, Level.WARNING: 20, Level.CRITICAL: 30}
"""Eight times the level of a bar, and its height."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Distribution of the columns of a row."""

    label: int
    now: int
    chart: int
    stats: int

    @classmethod
    @lru_cache(64)
    def of(cls, width: int) -> Geometry:
        """The one for a pane of that width; the chart has what the others leave. Of one width it is one object."""
        label, now, stats = next(
            (parts for least, *parts in _SHARED_OUT if width >= least),
            [9, 7, 5 if width >= 48 else 0],
        )
        return cls(label, now, max(4, width - label - now - stats - 5), stats)

    @property
    def begin(self) -> int:
        """The cell at which the chart begins."""
        return self.label + self.now + 4


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of the board."""

    kind: str
    """`update`, `updates`, a kind of span, `metric` or `alerts`."""
    key: str
    """Key that opens it: id of the update, name of the metric."""
    label: str
    style: str
    """Name of the style of the label."""
    now: str
    level: Level
    runs: list[Run]
    """The chart, of as many cells as it has columns."""
    stats: str
    shown: Bar | MetricLane | SpanLane | None = None
    bars: Sequence[Bar] = ()
    """Of a row of several: what the cursor may stand on."""


def update_lane(bar: Bar, port: Viewport, geometry: Geometry, skin: ThemeStyles) -> Lane:
    """One weight update on a row of its own."""
    step = f" s{bar.values['step']:.0f}" if "step" in bar.values else ""
    wall = compact_value(bar.values.get("wall_ms", 0.0), "ms", geometry.now)
    return Lane(
        "update", bar.key, f"{plain(bar.key, 10)}{step}", "text", wall, bar.level,
        gantt_runs((bar,), port, geometry.chart, skin), _shares(bar, geometry), bar,
    )  # fmt: skip


def shared_lane(bars: Sequence[Bar], port: Viewport, geometry: Geometry, skin: ThemeStyles, label: str) -> Lane:
    """Several weight updates on one row."""
    last = bars[-1]
    wall = compact_value(last.values.get("wall_ms", 0.0), "ms", geometry.now)
    runs = gantt_runs(bars, port, geometry.chart, skin, heat=True)
    walls = sorted(bar.values["wall_ms"] for bar in bars if "wall_ms" in bar.values and not bar.open)
    share = sum(bar.level is Level.CRITICAL for bar in bars) / len(bars) if any(bar.level for bar in bars) else None
    stats = _figures(
        [percentile(walls, part) if walls else None for part in (0.5, 0.95, 1)], share, "ms", geometry, skin
    )
    return Lane("updates", last.key, label, "text", wall, last.level, runs, stats, last, bars)


def _shares(bar: Bar, geometry: Geometry) -> str:
    wall = bar.values.get("wall_ms", 0.0)
    queue, rpc = bar.values.get("queue_ms"), bar.values.get("rpc_ms")

    def part(name: str, value: float | None, cells: int) -> str:
        share = f"{100 * value / wall:3.0f}%" if value is not None and wall > 0 else "  ? "
        text = "?" if value is None else compact_value(value, "ms", cells)
        return f"{name} {text.rjust(cells)} {share}"

    if geometry.stats >= 36:
        return f" {part('queue', queue, 6)}  {part('rpc', rpc, 6)}"
    if geometry.stats >= 19:
        return " " + part("queue", queue, 7)
    if geometry.stats >= 12:
        return f" q {100 * queue / wall:3.0f}%" if queue is not None and wall > 0 else " q ?"
    return f" q{100 * queue / wall:3.0f}%" if queue is not None and wall > 0 and geometry.stats else ""


def span_lane(
    lane: SpanLane, stats: MetricLane | None, longest_s: float, port: Viewport, geometry: Geometry, skin: ThemeStyles
) -> Lane:
    """Spans of a kind on one row: a column is as high as its worst span.

    Without thresholds a span is as high as it is long, `longest_s` being the highest: the same in all such lanes.
    """
    worst: dict[int, int] = {}
    start, column_s, last_column = port.start, port.column_s, geometry.chart - 1
    unit = 1000.0 if lane.metric.endswith("_ms") else 1.0
    least, high = unit * _LEAST_S, unit * longest_s
    for bar in lane.bars:
        rank = _RANKS[bar.level]
        if high and not bar.level:
            if (length := bar.values.get(lane.metric, 0.0)) < least:
                continue
            rank = min(6, int(7 * length / high))
        first = max(0, int((bar.start - start) // column_s))
        for column in range(first, min(last_column, int((bar.end - start) // column_s)) + 1):
            if rank > worst.get(column, -1):
                worst[column] = rank
    usual = skin.style(_STYLES.get(lane.kind, "metric"))
    drawn = {rank: (skin.spark[rank % 8], _bar_style(Level(rank // 8), usual, skin)) for rank in set(worst.values())}
    runs = runs_of({column: drawn[rank] for column, rank in worst.items()}, geometry.chart, skin)
    last = lane.telling
    now = "" if last is None else length_of(last, lane.metric, geometry.now)
    now_level = last.level if last is not None else Level.NONE
    figures = _stats(stats, geometry, skin) if stats else ""
    name = lane_name(lane.metric)
    return Lane(lane.kind, lane.metric, name, "text", now, now_level, runs, figures, lane, lane.bars)


_LEAST_S = 0.0005
"""Shorter spans are 0 ms in figures."""


def lane_name(metric: str, group: str = "") -> str:
    """The same few words for a metric at every width; its own name where there are none. `group` is its queue."""
    words = short_names().get(metric, metric)
    return plain(f"{group} {words if len(words) <= _NAMED else metric}".lstrip(), 40)


def length_of(bar: Bar, metric: str, cells: int) -> str:
    """Duration of a span, by its metric."""
    value = bar.values.get(metric, next(iter(bar.values.values()), None))
    return "" if value is None else compact_value(value, "ms" if metric.endswith("_ms") else "s", cells)


def _bar_style(level: Level, usual: Style, skin: ThemeStyles) -> Style:
    return skin.level(level) if level > Level.GOOD else usual


def metric_lane(lane: MetricLane, column_s: float, geometry: Geometry, skin: ThemeStyles) -> Lane:
    """A metric over time, coloured by its thresholds; where nothing was measured for long there is nothing.

    What has thresholds, and durations, are bars from zero; other levels (loss, reward, rates) are a line that fits.
    """
    limit = None if lane.lower_is_worse else lane.critical
    # A new value changes the figures next to the chart, but only the worst one of a column shows in that.
    fits = lane.good is None and is_level(lane.unit) and lane.unit != "%"
    runs = list(_chart(array("d", lane.values).tobytes(), lane.levels, limit, lane.unit, column_s, fits, skin))
    now = "" if lane.now is None else compact_value(lane.now, shown_unit(lane.unit), geometry.now)
    now = "nan" if lane.now is not None and isnan(lane.now) else now
    name, figures = lane_name(lane.metric, lane.group), _stats(lane, geometry, skin)
    return Lane("metric", lane.name, name, "text", now, lane.now_level, runs, figures, lane)


@lru_cache(128)
def _chart(
    packed: bytes, levels: bytes, limit: float | None, unit: str, column_s: float, fits: bool, skin: ThemeStyles
) -> tuple[Run, ...]:
    """The values, packed as doubles, as bars or as a line that fits; `limit` where more of it is worse."""
    values: Sequence[float] = array("d", packed)
    values, levels = held(values, levels, unit, column_s)
    if fits and skin.glyphs is not ASCII:
        drawn = line(values, *_fitting(values))
    else:
        low, high = _fitting(values) if fits else _scale(values, limit, unit)
        # A full block would touch the lane above.
        drawn = spark(values, low, high, critical=limit, glyphs=skin.glyphs).replace(skin.spark[7], skin.spark[6])
    runs: list[Run] = []
    begin = 0
    for level, same in groupby(levels):
        end = begin + len(list(same))
        runs.append((drawn[begin:end], skin.level(Level(level))))
        begin = end
    return tuple(runs)


_LEAST_RANGE = 0.1
"""Share of the largest value that the height of a line stands for, at least: less would make much of noise."""


def _fitting(values: Sequence[float]) -> tuple[float, float]:
    """Lowest and highest value of a line."""
    known = [value for value in values if isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    room = _LEAST_RANGE * max(abs(low), abs(high)) - (high - low)
    return (low - room / 2, high + room / 2) if room > 0 else (low, high)


def _scale(values: Sequence[float], limit: float | None, unit: str) -> tuple[float, float]:
    """Lowest and highest value of a lane's chart: with a limit, what is good stays low."""
    known = [value for value in values if value == value]  # noqa: PLR0124 - all but NaN
    if limit is not None and known:
        return min(0.0, *known), max(limit, *known)
    return limits(known, unit)


def _stats(lane: MetricLane, geometry: Geometry, skin: ThemeStyles) -> str:
    return _figures((lane.p50, lane.p95, lane.max), lane.critical_share, lane.unit, geometry, skin)


def _figures(
    values: Sequence[float | None], critical: float | None, unit: str, geometry: Geometry, skin: ThemeStyles
) -> str:
    """p50, p95 and maximum, and the share that is critical, below the heads of the axis."""
    p50, p95, most = values

    def figure(value: float | None, cells: int) -> str:
        return " " * cells if value is None else compact_value(value, shown_unit(unit), cells).rjust(cells)

    share = "" if critical is None else f"{100 * critical:.0f}%"
    if geometry.stats >= 36:
        return f" {figure(p50, 8)} {figure(p95, 8)} {figure(most, 8)} {share:>7}"
    if geometry.stats >= 19:  # in line with what single weight updates waited, and its share
        return f"{figure(p95, 8):>14} {share:>4}"
    if geometry.stats >= 12:
        return f" {figure(p95, 6)} {share:>4}"
    # No heading says there what it is: the sign does, and what never was critical needs no figure.
    return f" {skin.mark(Level.CRITICAL)}{share:>4}" if share not in ("", "0%") and geometry.stats else ""


def alerts_lane(ticks: Sequence[Transition], port: Viewport, geometry: Geometry, skin: ThemeStyles) -> Lane:
    """Lane of alert starts and ends."""
    cells: dict[int, Cell] = {}
    worst: dict[int, Transition] = {}
    seen = [tick for tick in ticks if port.start <= tick.time <= port.end]
    for tick in seen:
        column = min(port.column(tick.time), geometry.chart - 1)  # one at the very end of a run that is over, too
        if column not in worst or tick.level >= worst[column].level:
            worst[column] = tick
    for column, tick in worst.items():
        firing = tick.state.value == "firing"
        glyph = skin.mark(tick.level) if firing else skin.glyph(tick.state.value)
        cells[column] = (glyph, skin.level(tick.level) if firing else skin.style("muted"))
    firing_now = sum(tick.state.value == "firing" for tick in seen)
    text = f" {firing_now} fired" if firing_now else ""
    return Lane("alerts", "", "alerts", "text", "", Level.NONE, runs_of(cells, geometry.chart, skin), text)


# --- A lane with its name and its newest value, or the one at the cursor ---


def lane_row(
    lane: Lane,
    port: Viewport,
    geometry: Geometry,
    column: int | None,
    chosen: bool,
    skin: ThemeStyles,
    proven: Level = Level.NONE,
) -> Row:
    """One lane, `chosen` when the selection is on it; `proven` is the level of the verdict that rests on it.

    Where it has no thresholds of its own its newest value and its chart have that level.
    """
    label_style = skin.style("selection" if chosen else "title" if proven else lane.style)
    now, level, age_s = lane.now, lane.level, 0.0
    if column is not None and isinstance(lane.shown, MetricLane):
        now, level, age_s = at_column(lane.shown, column, geometry, port.column_s)
    elif column is not None and lane.bars:
        now, level, age_s = bar_at(lane, port, column, geometry)
    else:
        level = level or proven
    mark = skin.mark(level) if level is not Level.NONE and now and not age_s else " "
    label, room = geometry.label, geometry.now
    if age_s:  # an age takes what the name leaves, and its end
        now = _aged(now, age_s, label + room - min(10, cells(lane.label)) - 1)
        label, room = label + room - max(room, cells(now)) - 1, max(room, cells(now)) + 1
    head: list[Run] = [
        (skin.glyph("edge"), skin.level(proven)) if proven else (" ", skin.style("text")),
        (fit(lane.label, label, glyphs=skin.glyphs), label_style),
        (fit(now, room, right=True, glyphs=skin.glyphs), skin.style("faint" if age_s else "text")),
        (f" {mark}", skin.level(level)),
        (" ", skin.style("text")),
    ]
    runs = lane.runs if lane.level or not proven else [(text, skin.level(proven)) for text, _ in lane.runs]
    runs = runs if column is None else with_cursor(runs, column, skin)
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
    """The chart with the cursor's line through it; over it where the cursor is reversed, which makes a bar a hole."""
    drawn, over, at = list[Run](), skin.style("cursor").reverse, 0
    for text, style in runs:
        within = column - at
        at += len(text)
        if not 0 <= within < len(text):
            drawn.append((text, style))
            continue
        char = text[within]
        bar = not over and char != " "
        cursor = (char, style + skin.style("cursor")) if bar else (skin.glyph("vertical"), skin.style("accent"))
        parts = ((text[:within], style), cursor, (text[within + 1 :], style))
        drawn += [part for part in parts if part[0]]
    return drawn
