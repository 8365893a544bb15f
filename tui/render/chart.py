"""A metric as large as there is room for: bars with limits or a line, smoothed, with a baseline run behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite, isnan, log10, nan

from perfmon.core import TimeBase
from perfmon.textgraphics import ASCII, axis, compact_value, cut, fit, ticks, trace
from perfmon.viewmodel import Course, Level, MetricLane, Viewport, held, held_values, is_level, smoothed

from ..theme import ThemeStyles
from .rows import Row, Run

LABEL = 9
"""Cells of the scale on the left."""
_MINUTES = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21600.0, 86400.0)
_DECIMAL = (1.0, 2.0, 2.5, 5.0, 10.0)
_MOST, _LEAST = 1e300, 1e-290
"""Values beyond, and differences below, are no measurements: they would only break the arithmetic."""
_LEAST_RANGE = 0.05
_NEAR = 3.0
"""A limit that is no further away than so many times the largest value is within the scale."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A metric in as many columns as a chart has."""

    values: tuple[float, ...]
    """The worst value of each; NaN where nothing was measured."""
    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True)
class Scale:
    """Label on the left."""

    low: float
    high: float
    step: float

    @property
    def values(self) -> list[float]:
        """Round values from low to high."""
        return [self.low + at * self.step for at in range(round((self.high - self.low) / self.step) + 1)]


def resampled(lane: MetricLane, width: int, span_s: float) -> Columns:
    """The lane, which is of so many seconds, in `width` columns: of several the worst one, and each as often as it has
    to be; levels hold, and durations have the time that they lasted."""
    of_lane, of_levels = held(lane.values, lane.levels, lane.unit, span_s / max(1, len(lane.values)))
    count = len(of_lane)
    if not count or width <= 0:
        return Columns((nan,) * max(0, width), (Level.NONE,) * max(0, width))
    worst = min if lane.lower_is_worse else max
    values, levels = [], []
    for at in range(width):
        first = at * count // width
        last = max(first + 1, (at + 1) * count // width)
        known = [value for value in of_lane[first:last] if not isnan(value)]
        values.append(worst(known) if known else nan)
        levels.append(Level(max(of_levels[first:last], default=0)))
    return Columns(tuple(values), tuple(levels))


# --- the scale --------------------------------------------------------------------------------------------------------
def scale_of(lane: MetricLane, columns: Columns, rows: int, others: Sequence[float] = ()) -> Scale:
    """Round values that hold all columns, `others`, and the limits nearby, with about three rows between two of them.

    Bars start from zero; the scale of a line starts near its lowest value.
    """
    known = [min(max(value, -_MOST), _MOST) for value in (*columns.values, *others) if isfinite(value)]
    if is_line(lane) and known:
        return _fitted(min(known), max(known), rows)
    low, high = min(0.0, *known, 0.0), max(0.0, *known, 0.0)
    if lane.unit == "%" and 50.0 < high <= 100.0 and low >= 0.0:
        high = 100.0
    for limit in (lane.good, lane.critical):
        if limit is not None and isfinite(limit) and high < limit and (limit <= _NEAR * high or not known):
            high = limit
    if high - low < _LEAST:
        high = low + 1.0
    step = _round_step((high - low) / max(1, min(8, rows // 3 or 1)), lane.unit)
    low = step * floor(low / step + 1e-9)
    return Scale(low, low + step * max(1, ceil((high - low) / step - 1e-9)), step)


def _fitted(low: float, high: float, rows: int) -> Scale:
    """Round values around a line; of one that hardly varies at least a twentieth of its value."""
    room = max(_LEAST_RANGE * max(abs(low), abs(high)) - (high - low), 0.0)
    low, high = low - room / 2 if low else low, high + room / 2
    if high - low < _LEAST:
        high = low + 1.0
    step = _round_step((high - low) / max(1, min(8, rows // 3 or 1)), "")
    low = step * floor(low / step + 1e-9)
    return Scale(low, low + step * max(1, ceil((high - low) / step - 1e-9)), step)


def _round_step(least: float, unit: str) -> float:
    """The smallest round number that is not less; of times a round number of seconds, minutes or hours."""
    seconds = least / 1000.0 if unit == "ms" else least
    if unit in ("ms", "s") and seconds > 10.0:
        found = next((step for step in _MINUTES if step >= seconds), None)
        if found is not None:
            return found * (1000.0 if unit == "ms" else 1.0)
    power = 10.0 ** floor(log10(least)) if 0.0 < least < inf else 1.0
    return next((power * step for step in _DECIMAL if power * step >= least * (1 - 1e-9)), 10.0 * power)


# --- drawing ----------------------------------------------------------------------------------------------------------
_NOTHING, _ROOM_FOR_WORDS = "no data in view", 3


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers of a chart besides the columns of the timeline; all of twice as many points as it has cells."""

    course: Course | None = None
    """Finer than the columns, with the least and the largest value of each point."""
    window: int = 0
    """Points over which the mean is drawn; 0: not smoothed."""
    baseline: Sequence[float] = ()
    """A recorded run, behind this one."""


def chart_rows(
    lane: MetricLane,
    port: Viewport,
    base: TimeBase,
    now: float,
    size: tuple[int, int],
    cursor: int | None,
    skin: ThemeStyles,
    layers: Layers | None = None,
    *,
    axis_below: bool = True,
) -> list[Row]:
    """The chart in exactly `size` (cells, rows), at least 3 rows; `cursor` is a column of it."""
    width, height = max(1, size[0] - LABEL - 1), size[1]
    columns = resampled(lane, width, port.end - port.start)
    marked = height >= 10 and any(columns.levels)
    below = marked + (1 + (height >= 7)) * axis_below
    drawn = _plot(lane, columns, max(1, height - below), cursor, skin, layers or Layers())
    if marked:
        drawn.append(_marks(columns, cursor, skin))
    if not axis_below:
        return drawn
    named = ticks(port.start, port.end, width, origin=None if base is TimeBase.WALL else now)
    if height >= 7:
        line = [skin.glyph("horizontal")] * width
        for tick in named:
            line[tick.column] = skin.glyph("cross")
        drawn.append(((" " * (LABEL - 1) + " " + skin.glyph("bottom-left") + "".join(line), skin.style("frame")),))
    drawn.append(((" " * (LABEL + 1) + axis(named, width), skin.style("muted")),))
    return drawn


def is_line(lane: MetricLane) -> bool:
    """True for a level without thresholds, such as a loss: other metrics are bars from zero."""
    return lane.good is None and lane.critical is None and is_level(lane.unit) and lane.unit != "%"


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The layers as characters, by row from the bottom: " " where there is nothing."""

    heights: Sequence[int]
    """Of bars, in eighths of a row; 0 where a line is drawn instead."""
    line: Sequence[str]
    above: Sequence[str]
    behind: Sequence[str]


def _drawn(lane: MetricLane, columns: Columns, scale: Scale, rows: int, skin: ThemeStyles, layers: Layers) -> _Drawn:
    count, course = 2 * len(columns.values), layers.course
    if course is None or len(course.means) != count:
        doubled = [value for value in columns.values for _ in range(2)]
        course = Course(doubled, doubled, doubled)
    if is_level(lane.unit):
        course = Course(*(held_values(values) for values in (course.lows, course.highs, course.means)))

    def traced(lows: Sequence[float], highs: Sequence[float], ascii_mark: str) -> Sequence[str]:
        lines = trace(list(zip(lows, highs, strict=True)), scale.low, scale.high, rows)[::-1]
        if skin.glyphs is ASCII:
            lines = ["".join(char if char == " " else ascii_mark for char in line) for line in lines]
        return lines

    blank = [" " * len(columns.values)] * rows
    means = smoothed(course.means, layers.window) if layers.window else ()
    behind = traced(layers.baseline, layers.baseline, ".") if len(layers.baseline) == count else blank
    line = traced(course.lows, course.highs, "o") if is_line(lane) else blank
    heights = [0 if is_line(lane) else _eighths(value, scale, rows) for value in columns.values]
    return _Drawn(heights, line, traced(means, means, "*") if layers.window else blank, behind)


def _plot(
    lane: MetricLane, columns: Columns, rows: int, cursor: int | None, skin: ThemeStyles, layers: Layers
) -> list[Row]:
    course = layers.course
    others = [*layers.baseline, *(() if course is None else (*course.lows, *course.highs))]
    scale = scale_of(lane, columns, rows, others if is_line(lane) else layers.baseline)
    per_row = (scale.high - scale.low) / rows
    named: dict[int, tuple[str, str]] = {}
    measured = any(isfinite(value) for value in (*columns.values, *others))
    for value in scale.values if measured else ():  # else round numbers of nothing, several of them alike
        named[_row_of(value, scale.low, per_row, rows)] = (_label(value, lane.unit), "muted")
    limits: dict[int, str] = {}
    for limit, style in ((lane.good, "warning"), (lane.critical, "critical")):
        if limit is not None and scale.low < limit <= scale.high:
            at = _row_of(limit, scale.low, per_row, rows)
            limits[at] = style
            named[at] = (_label(limit, lane.unit), style)
    layered = _drawn(lane, columns, scale, rows, skin, layers)
    drawn = [_row(at, layered, columns, named, limits, cursor, skin) for at in range(rows - 1, -1, -1)]
    if not measured and rows >= _ROOM_FOR_WORDS:
        words = cut(f" {skin.glyph('waiting')} {_NOTHING}", len(columns.values))
        drawn[1] = (*drawn[1][:2], (words.ljust(len(columns.values)), skin.style("muted")))
    return drawn


def _row_of(value: float, low: float, per_row: float, rows: int) -> int:
    """Counted from the bottom; a value between two rows stands on the upper edge of the lower one."""
    return min(rows - 1, max(0, ceil((value - low) / per_row - 1e-9) - 1))


def _label(value: float, unit: str) -> str:
    return compact_value(value, unit, LABEL - 2)


def _eighths(value: float, scale: Scale, rows: int) -> int:
    """Height of a column in eighths of a row: at least one if there is data."""
    if isnan(value):
        return 0
    share = (min(max(value, scale.low), scale.high) - scale.low) / (scale.high - scale.low)
    return max(1, round(8 * rows * share))


def _row(
    at: int,
    drawn: _Drawn,
    columns: Columns,
    named: dict[int, tuple[str, str]],
    limits: dict[int, str],
    cursor: int | None,
    skin: ThemeStyles,
) -> Row:
    text, style = named.get(at, ("", "muted"))
    joint = skin.glyph("tee-right" if text else "vertical")
    runs: list[Run] = [(f"{fit(text, LABEL - 1, right=True)} ", skin.style(style)), (joint, skin.style("frame"))]
    blank = skin.glyph("threshold") if at in limits else " "
    usual = "muted" if any(char != " " for line in drawn.above for char in line) else "metric"
    for column, height in enumerate(drawn.heights):
        ground = "cursor" if column == cursor else "background"
        filled = min(8, height - 8 * at)
        if drawn.above[at][column] != " ":
            runs.append((drawn.above[at][column], skin.style("accent", ground)))
        elif filled > 0 and drawn.behind[at][column] != " ":  # a bar would hide what is lower than it
            runs.append((drawn.behind[at][column], skin.style("text", ground)))
        elif filled > 0:
            runs.append((skin.spark[filled - 1], skin.level(columns.levels[column], ground)))
        elif drawn.line[at][column] != " ":
            runs.append((drawn.line[at][column], skin.style(usual, ground)))
        elif drawn.behind[at][column] != " ":
            runs.append((drawn.behind[at][column], skin.style("stale", ground)))  # not the grey of single values
        elif column == cursor and at not in limits:
            runs.append((skin.glyph("vertical"), skin.style("accent", ground)))
        else:
            runs.append((blank, skin.style(limits.get(at, "text"), ground)))
    return tuple(runs)


def _marks(columns: Columns, cursor: int | None, skin: ThemeStyles) -> Row:
    """Marks of columns that are not good, for displays without colours."""
    marks = [skin.mark(level) if level > Level.GOOD else " " for level in columns.levels]
    runs: list[Run] = [(" " * (LABEL + 1), skin.style("text"))]
    for at, (mark, level) in enumerate(zip(marks, columns.levels, strict=True)):
        runs.append((mark, skin.level(level, "cursor" if at == cursor else "background")))
    return tuple(runs)
