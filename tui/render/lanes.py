"""Lanes of the timeline as rows: metrics, spans as Gantt bars, figures at the end."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from math import ceil, floor, isfinite, isnan
from operator import itemgetter

from rich.style import Style

from perfmon.core import percentile, plain
from perfmon.textgraphics import ASCII, compact_value, gantt, limits, line, spark
from perfmon.viewmodel import (
    Bar,
    Board,
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
from .rows import Run

# --- The legs of weight updates over the time axis, and cells put together to runs ---

Cell = tuple[str, Style]
"""A character of one cell."""
_Legs = tuple[bool, tuple[tuple[str, float, float], ...]]
"""State (open or not) of a bar, and its phases: kind, start and end, in columns."""
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
    elif legs:  # every update that has ended shows it, whether its last line came with the RPC's or after it
        legs = (*legs, ("done", legs[-1][2], legs[-1][2]))
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
_NAMES = {
    "checkpoint-write": "ckpt write",
    "checkpoint-wait": "ckpt wait",
    "generation-batch": "generation",
    "weight-sync": "weight sync",
    "batch-wait": "batch wait",
    "policy-wait": "policy wait",
}
_BRIEF = {
    "checkpoint-write": "ckpt save",
    "generation-batch": "gen batch",
    "weight-sync": "sync",
    "batch-wait": "data wait",
    "policy-wait": "pol. wait",
}
"""Names of lanes in few cells."""
_STYLES = {
    "checkpoint-write": "checkpoint-write",
    "checkpoint-wait": "checkpoint-wait",
    "generation-batch": "generation",
}
_SHARED_OUT = ((150, 17, 9, 36), (100, 15, 8, 19), (72, 14, 8, 12), (66, 14, 7, 5))
"""From so many cells on: those of a lane's name, of its newest value and of its figures."""
_HEIGHTS = {Level.NONE: 2, Level.GOOD: 2, Level.WARNING: 4, Level.CRITICAL: 6}


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


def span_lane(lane: SpanLane, stats: MetricLane | None, port: Viewport, geometry: Geometry, skin: ThemeStyles) -> Lane:
    """Spans of a kind on one row: a column is as high as its worst span."""
    worst: dict[int, Level] = {}
    start, column_s, last_column = port.start, port.column_s, geometry.chart - 1
    for bar in lane.bars:
        first, level = max(0, int((bar.start - start) // column_s)), bar.level
        for column in range(first, min(last_column, int((bar.end - start) // column_s)) + 1):
            if level >= worst.get(column, Level.NONE):
                worst[column] = level
    usual = skin.style(_STYLES.get(lane.kind, "metric"))
    drawn = {level: (skin.spark[height], _bar_style(level, usual, skin)) for level, height in _HEIGHTS.items()}
    runs = runs_of({column: drawn[level] for column, level in worst.items()}, geometry.chart, skin)
    last = lane.telling
    now = "" if last is None else length_of(last, lane.metric, geometry.now)
    now_level = last.level if last is not None else Level.NONE
    label = _NAMES.get(lane.kind, lane.kind)
    label = label if len(label) <= geometry.label else _BRIEF.get(lane.kind, label)
    figures = _stats(stats, geometry, skin) if stats else ""
    return Lane(lane.kind, lane.metric, label, "text", now, now_level, runs, figures, lane, lane.bars)


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
    return Lane(
        "metric", lane.name, plain(lane.name, 40), "text", now, lane.now_level, runs, _stats(lane, geometry, skin), lane
    )


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


def shown_unit(unit: str) -> str:
    """Units that the metric's name contains already take no room."""
    return {"steps": "", "tokens/s": "/s"}.get(unit, unit)


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

    for lane in board.spans:
        bad = _badness(stats.get(lane.metric), lane.bars[-1].level if lane.bars else Level.NONE)
        if lane.kind == UPDATES:
            for key, draw in _updates(lane.bars, port, geometry, skin, choice.update_rows):
                add((lane.kind, lane.metric), bad, key, draw)
        elif lane.bars:
            of_spans.add(lane.metric)
            draw = partial(span_lane, lane, stats.get(lane.metric), port, geometry, skin)
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
