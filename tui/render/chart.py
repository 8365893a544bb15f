"""One metric as large as there is room for: columns of blocks over the time axis, with its limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite, isnan, log10, nan

from perfmon.core import TimeBase
from perfmon.textgraphics import axis, compact_value, cut, fit, ticks
from perfmon.viewmodel import Level, MetricLane, Viewport

from ..theme import ThemeStyles
from .rows import Row, Run

LABEL = 9
"""Cells of the scale on the left."""
_MINUTES = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21600.0, 86400.0)
_DECIMAL = (1.0, 2.0, 2.5, 5.0, 10.0)
_MOST, _LEAST = 1e300, 1e-290
"""Values beyond, and differences below, are no measurements: they would only break the arithmetic."""
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


def resampled(lane: MetricLane, width: int) -> Columns:
    """The lane in `width` columns: of several the worst one, and each as often as it has to be."""
    count = len(lane.values)
    if not count or width <= 0:
        return Columns((nan,) * max(0, width), (Level.NONE,) * max(0, width))
    worst = min if lane.lower_is_worse else max
    values, levels = [], []
    for at in range(width):
        first = at * count // width
        last = max(first + 1, (at + 1) * count // width)
        known = [value for value in lane.values[first:last] if not isnan(value)]
        values.append(worst(known) if known else nan)
        levels.append(Level(max(lane.levels[first:last], default=0)))
    return Columns(tuple(values), tuple(levels))


# --- the scale --------------------------------------------------------------------------------------------------------
def scale_of(lane: MetricLane, columns: Columns, rows: int) -> Scale:
    """Round values that hold all columns and the limits nearby, with about three rows between two of them."""
    known = [min(max(value, -_MOST), _MOST) for value in columns.values if isfinite(value)]
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


def chart_rows(
    lane: MetricLane,
    port: Viewport,
    base: TimeBase,
    now: float,
    size: tuple[int, int],
    cursor: int | None,
    skin: ThemeStyles,
) -> list[Row]:
    """The chart in exactly `size` (cells, rows), at least 3 rows; `cursor` is a column of it."""
    width, height = max(1, size[0] - LABEL - 1), size[1]
    columns = resampled(lane, width)
    below = 1 + (height >= 10) + (height >= 7)
    rows = max(1, height - below)
    drawn = _plot(lane, columns, rows, cursor, skin)
    if height >= 10:
        drawn.append(_marks(columns, cursor, skin))
    named = ticks(port.start, port.end, width, origin=None if base is TimeBase.WALL else now)
    if height >= 7:
        line = [skin.glyph("horizontal")] * width
        for tick in named:
            line[tick.column] = skin.glyph("cross")
        drawn.append(((" " * (LABEL - 1) + " " + skin.glyph("bottom-left") + "".join(line), skin.style("frame")),))
    drawn.append(((" " * (LABEL + 1) + axis(named, width), skin.style("muted")),))
    return drawn


def _plot(lane: MetricLane, columns: Columns, rows: int, cursor: int | None, skin: ThemeStyles) -> list[Row]:
    scale = scale_of(lane, columns, rows)
    per_row = (scale.high - scale.low) / rows
    named: dict[int, tuple[str, str]] = {}
    measured = any(isfinite(value) for value in columns.values)
    for value in scale.values if measured else ():  # else round numbers of nothing, several of them alike
        named[_row_of(value, scale.low, per_row, rows)] = (_label(value, lane.unit), "muted")
    limits: dict[int, str] = {}
    for limit, style in ((lane.good, "warning"), (lane.critical, "critical")):
        if limit is not None and scale.low < limit <= scale.high:
            at = _row_of(limit, scale.low, per_row, rows)
            limits[at] = style
            named[at] = (_label(limit, lane.unit), style)
    heights = [_eighths(value, scale, rows) for value in columns.values]
    drawn = [_row(at, heights, columns, named, limits, cursor, skin) for at in range(rows - 1, -1, -1)]
    if not measured and rows >= _ROOM_FOR_WORDS:
        words = cut(f" {skin.glyph('waiting')} {_NOTHING}", len(heights))
        drawn[1] = (*drawn[1][:2], (words.ljust(len(heights)), skin.style("muted")))
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
    heights: Sequence[int],
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
    for column, height in enumerate(heights):
        ground = "cursor" if column == cursor else "background"
        filled = min(8, height - 8 * at)
        if filled > 0:
            runs.append((skin.spark[filled - 1], skin.level(columns.levels[column], ground)))
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
