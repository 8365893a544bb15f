"""The timeline of a viewport, built from the store: lanes of spans, metrics and alerts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import floor, isfinite, isnan, nan
from typing import TypeVar

from perfmon.clocks import Alignment
from perfmon.core import ALL_LEGS, LEGS, Progress, Span, Update, metric_unit
from perfmon.diagnosis import Diagnosis
from perfmon.rules import SPAN_METRICS, UPDATE_METRICS, Band, Bands, Route, bands_of, route, update_values
from perfmon.store import NOT_FINITE, UPDATES, Recent, Series, Store, last_value, on_own_axes
from perfmon.textgraphics import Leg

from .board import Bar, Board, Course, Level, MetricLane, SpanLane, Transition, Viewport, with_open
from .buckets import Buckets, CourseBuilder, DenseBars, OverviewBuilder, course_of

# --- Spans as bars: weight updates with their known phases, growing while they are open ---

_DONE = 1 << LEGS.index("client.done")
_RPC_DONE = 1 << LEGS.index("rpc.done")
_STEP = re.compile(r"step[_-]?(\d{1,12})")
_LEVELS = (Level.GOOD, Level.WARNING, Level.CRITICAL)


def band_level(bands: Bands, metric: str, value: float) -> Level:
    """The level of a value; NONE for a metric without thresholds."""
    level = bands.level(metric, value)
    return Level.NONE if level is None else _LEVELS[level]


@lru_cache(256)
def _step_of(path: str) -> float | None:
    """The step whose weights a path names."""
    step = _STEP.search(path)
    return None if step is None else float(step[1])


def span_bar(span: Span, shift: float, now: float, bands: Bands) -> Bar | None:
    """A span other than a weight update; None if its start is unknown."""
    if span.start is None:
        return None
    start = span.start + shift
    open_ = span.end is None
    end = max(start, now) if span.end is None else span.end + shift
    metric, scale = SPAN_METRICS.get(span.kind, ("duration_s", 1.0))
    value = (end - start if span.duration_s is None else span.duration_s) * scale
    level = band_level(bands, metric, value)
    return Bar(span.kind, span.key, start, end, open_, level, (), {metric: value}, (), span.seq)


def update_bar(
    update: Update, shift: float, now: float, bands: Bands, offset_s: float | None, in_flight: bool
) -> Bar | None:
    """A weight update; None if its start is unknown.

    `offset_s` is the server's monotonic clock less the client's, None without lines of a server. `in_flight` means that
    nothing suggests that its end was missed.
    """
    if update.start is None:
        return None
    start = update.start + shift
    open_ = in_flight and not update.legs & _DONE
    end = max(start, now) if open_ else start + _wall_s(update)
    legs = _legs(update, start, end, offset_s)
    values = update_values(update)
    if open_ and "queue_ms" not in values and legs and legs[0].kind in ("queue", "unknown"):
        values["queue_ms"] = 1000.0 * (legs[0].end - legs[0].start)
    level = max((band_level(bands, metric, value) for metric, value in values.items()), default=Level.NONE)
    step = _step_of(str(update.fields.get("path", "")))
    if step is not None:
        values["step"] = step
    values.setdefault("wall_ms", 1000.0 * (end - start))
    missing = () if open_ else tuple(name for at, name in enumerate(LEGS) if not update.legs & (1 << at))
    return Bar(update.kind, update.key, start, end, open_, level, legs, values, missing, update.seq)


def _wall_s(update: Update) -> float:
    if update.wall_ms is not None:
        return update.wall_ms / 1000.0
    if update.duration_s is not None:
        return update.duration_s
    return sum(value for value in (update.queue_ms, update.rpc_ms) if value is not None) / 1000.0


def _legs(update: Update, start: float, end: float, offset_s: float | None) -> tuple[Leg, ...]:
    """Wait and RPC, then the rest; a wait without lines of the server may be the network's."""
    wait = "queue" if update.server is not None or (update.client is None) else "unknown"
    if update.queue_ms is not None:
        begun = min(end, start + update.queue_ms / 1000.0)
    elif update.recv_t is not None and update.send_t is not None:
        begun = min(end, start + max(0.0, update.recv_t - update.send_t - (offset_s or 0.0)))
    elif update.legs & _DONE:
        return (Leg("unknown", start, end),)
    else:
        return (Leg("queue" if offset_s is not None else "unknown", start, end),)
    done = end
    if update.rpc_ms is not None and (update.legs & (_DONE | _RPC_DONE)):
        done = min(end, begun + update.rpc_ms / 1000.0)
    legs = [Leg(wait, start, begun), Leg("rpc", begun, done), Leg("done", done, end)]
    return tuple(leg for leg in legs if leg.end > leg.start)


def worst_bars(bars: list[Bar], columns: int, column_of: Mapping[int, int]) -> list[Bar]:
    """Keep the worst of too many bars in each column, by level and length, and open ones."""
    worst: dict[int, Bar] = {}
    kept: list[Bar] = []
    for bar in bars:
        column = column_of[bar.seq]
        held = worst.get(column)
        if bar.open:
            kept.append(bar)
        elif held is None or (bar.level, bar.end - bar.start) > (held.level, held.end - held.start):
            worst[column] = bar
    return sorted([*kept, *worst.values()], key=lambda bar: (bar.start, bar.seq))[-(columns + len(kept)) :]


# --- The timeline of a viewport ---

SPAN_ORDER = (
    UPDATES, "checkpoint-write", "checkpoint-wait", "generation-batch", "weight-sync", "batch-wait", "policy-wait",
)  # fmt: skip
METRIC_ORDER = (
    "queue_ms", "rpc_ms", "rpc_ms.reload_weights", "wait_ms", "dur_ms", "write_ms", "staleness", "trunc_pct",
    "inflight", "gen_tps", "kv_usage", "running", "waiting", "throughput_tps", "queue_fill", "queue_size",
    "queue_empty_share", "put_per_s", "get_per_s", "produced_per_s", "consumed_per_s", "put_wait_share",
    "get_wait_share", "data_share", "gpu_busy",
)  # fmt: skip
_FILL = "queue_fill"
_OF_QUEUES, _MOST_QUEUES = (_FILL, "queue_size", "put_wait_share", "get_wait_share"), 6
"""Metrics of which every queue has a lane of its own, where there are no more queues than that."""
_SHOWN_BY = {"epoch_data_share": "data_share", "lasting_data_share": "data_share", "recent_data_share": "data_share"}
"""Metrics that sum up what the lane of another shows."""
_ABANDONED_S = 3600.0
_SHORT_S, _DENSE = 1.0, 8
"""With more bars per column only the worst are kept."""


@dataclass(frozen=True, slots=True)
class Now:
    """Input of a timeline in addition to the store."""

    viewport: Viewport
    now: float
    alignment: Alignment
    snapshot: Diagnosis | None
    ticks: tuple[Transition, ...]
    version: int | None = None
    """Grows with all that must be shown at once; None: with every change of the store."""
    charted: tuple[str, ...] = ()
    points: int = 0
    """As in `TimeRange`."""


_Lane = TypeVar("_Lane")


class TimelineBuilder:
    """Builds timelines, step by step with new samples."""

    def __init__(self, store: Store, recent: Recent, bands: Bands) -> None:
        self._store, self._recent, self._bands = store, recent, bands
        self._buckets: dict[str, Buckets] = {}
        self._board: Board | None = None
        self._version = -1
        self._now: Now
        self._growing = False
        self._stamp: tuple[int, dict[int, float], frozenset[str]] = (0, {}, frozenset())
        self._shifts = 0
        """Counts the alignments of the logs."""
        self._closed: dict[str, dict[int, Bar]] = {}
        """Bars of spans that have ended, by kind and number: they do not change."""
        self._dense: dict[str, DenseBars] = {}
        self._spans: dict[str, SpanLane] = {}
        self._judged: tuple[Diagnosis | None, int, Bands] | None = None
        self._metrics: dict[str, MetricLane] = {}
        """The latest lanes: one that has not changed stays the same object, and is not drawn again."""
        self._charts = CourseBuilder()
        self.overview = OverviewBuilder(store).build
        """Builds the overview of the whole run."""

    def build(self, now: Now) -> Board:
        """Build the current timeline; the one before if nothing has changed."""
        version = self._store.version if now.version is None else now.version
        if self._board is not None and self._is_early(now):
            return self._board
        if self._board is not None and not self._growing and self._version == version:
            same = now.snapshot is self._now.snapshot and now.alignment is self._now.alignment
            same = same and (now.charted, now.points) == (self._now.charted, self._now.points)
            if same and now.viewport == self._now.viewport and now.ticks == self._now.ticks:
                return self._board
        bands = self._learned(now.snapshot)
        stamp = (self._store.shifted, now.alignment.shifts, frozenset(bands.table))
        if stamp != self._stamp:
            self._stamp, self._closed = stamp, {}
            self._shifts += 1
        spans = self._span_lanes(now, bands)
        spans = tuple(_kept(self._spans, lane.kind, lane) for lane in spans)
        going = spans if now.snapshot is not None and now.snapshot.run.state is Progress.RUNNING else ()
        lanes = with_open(self._metric_lanes(now, bands), going)
        metrics = tuple(_kept(self._metrics, lane.name, lane) for lane in lanes)
        self._growing = any(bar.open for lane in spans for bar in lane.bars)
        self._version, self._now = version, now
        ticks = self._ticks(now)
        ticks = self._board.ticks if self._board is not None and ticks == self._board.ticks else ticks
        self._board = Board(now.viewport, spans, metrics, ticks, self._courses(now, metrics) if now.charted else {})
        return self._board

    def _is_early(self, now: Now) -> bool:
        """Columns of a young run are so short that each picture would change all lanes: once a second is enough."""
        before = self._now
        same = (now.viewport, now.charted, now.points) == (before.viewport, before.charted, before.points)
        return same and now.viewport.column_s < _SHORT_S and 0.0 <= now.now - before.now < _SHORT_S

    def _courses(self, now: Now, lanes: Sequence[MetricLane]) -> dict[str, Course]:
        """Those of the metrics that are shown as charts."""
        self._charts.keep(now.charted)
        of_updates = self._update_samples(now) if not set(now.charted).isdisjoint(UPDATE_METRICS) else {}
        courses: dict[str, Course] = {}
        for lane in lanes:
            if lane.name not in now.charted:
                continue
            if lane.name in of_updates:
                courses[lane.name] = course_of(of_updates[lane.name], now.viewport, now.points)
                continue
            held = [
                series
                for (metric, group), series in self._store.series.items()
                if metric == lane.metric and lane.group in ("", group)
            ]
            shifts = now.alignment.shifts
            courses[lane.name] = self._charts.of_series(lane.name, held, shifts, now.viewport, now.points, self._shifts)
        return courses

    def _learned(self, snapshot: Diagnosis | None) -> Bands:
        """The thresholds that hold for the run, with those that the diagnosis derived for relative ones."""
        names = len(self._store.series)  # some thresholds hold only where others are reported
        if self._judged is not None and self._judged[0] is snapshot and self._judged[1] == names:
            return self._judged[2]
        table = dict(bands_of(self._store, self._bands).table)
        for metric, band in self._bands.table.items():
            stats = snapshot.metrics.get(metric) if snapshot is not None else None
            if band.relative_to and stats is not None and stats.good is not None and stats.critical is not None:
                table[metric] = replace(band, good=stats.good, critical=stats.critical, relative_to="")
        self._judged = snapshot, names, Bands(table)
        return self._judged[2]

    @staticmethod
    def _ticks(now: Now) -> tuple[Transition, ...]:
        port = now.viewport
        return tuple(tick for tick in now.ticks if port.start <= tick.time <= port.end)

    # --- spans ------------------------------------------------------------------------------------------------
    def _span_lanes(self, now: Now, bands: Bands) -> tuple[SpanLane, ...]:
        kinds = set(self._recent.kinds) | {span.kind for span in self._store.opened()}
        ordered = [kind for kind in SPAN_ORDER if kind in kinds]
        lanes = []
        for kind in ordered:
            bars = self._update_bars(now, bands) if kind == UPDATES else self._bars(kind, now, bands)
            metric = "queue_ms" if kind == UPDATES else SPAN_METRICS[kind][0]
            lanes.append(SpanLane(kind, metric, tuple(self._thinned(bars, now.viewport))))
        return tuple(lanes)

    def _since(self, now: Now) -> float:
        return on_own_axes(now.viewport.start, now.alignment.shifts)

    def _bars(self, kind: str, now: Now, bands: Bands) -> list[Bar]:
        shifts = now.alignment.shifts
        spans = self._recent.spans(kind, self._since(now))
        opened = (span for span in self._store.opened() if span.kind == kind)
        bars: list[Bar | None] = [span_bar(span, shifts.get(span.source, 0.0), now.now, bands) for span in opened]
        if len(spans) > _DENSE * now.viewport.columns:
            return _within([*bars, *self._worst(kind, spans, now, bands)], now.viewport)
        known, fresh = self._closed.get(kind, {}), {}
        for span in spans:
            bar = known.get(span.seq)
            if bar is None and (bar := span_bar(span, shifts.get(span.source, 0.0), now.now, bands)) is None:
                continue
            if bar.end >= now.viewport.start:
                fresh[span.seq] = bar
                bars.append(bar)
        self._closed[kind] = fresh
        return _within(bars, now.viewport)

    def _worst(self, kind: str, spans: Sequence[Span], now: Now, bands: Bands) -> list[Bar]:
        """The worst of very many bars in each column."""
        port, shifts, stamp = now.viewport, now.alignment.shifts, self._shifts
        dense = self._dense.get(kind)
        if dense is None or not dense.holds(port, stamp):
            dense = self._dense[kind] = DenseBars(port.column_s, port.start, stamp)
            self._closed.pop(kind, None)
        dense.read(spans, lambda span: span_bar(span, shifts.get(span.source, 0.0), now.now, bands))
        return dense.bars(port)

    def _update_bars(self, now: Now, bands: Bands) -> list[Bar]:
        updates = [span for span in self._recent.spans(UPDATES, self._since(now)) if isinstance(span, Update)]
        shifts = now.alignment.shifts
        offsets = {offset.client: offset.seconds for offset in now.alignment.offsets}
        begun = {u.seq: u.start + shifts.get(u.source, 0.0) for u in updates if u.start is not None}
        newest: dict[Route, float] = {}
        for done in (update for update in updates if update.end is not None and update.seq in begun):
            newest[route(done)] = max(newest.get(route(done), begun[done.seq]), begun[done.seq])
        bars: list[Bar | None] = []
        known, ended = self._closed.get(UPDATES, {}), {}
        for update in updates:
            if (bar := known.get(update.seq)) is not None:
                bars.append(bar)
                ended[update.seq] = bar
                continue
            shift, start = shifts.get(update.source, 0.0), begun.get(update.seq)
            # One that began before another that is complete already lost its end: its line is missing.
            alive = start is not None and start >= newest.get(route(update), start) and now.now - start < _ABANDONED_S
            bars.append(bar := update_bar(update, shift, now.now, bands, offsets.get(update.source), alive))
            if bar is not None and update.legs == ALL_LEGS and update.queue_ms is not None:
                ended[update.seq] = bar  # complete
        self._closed[UPDATES] = ended
        return _within(bars, now.viewport)

    @staticmethod
    def _thinned(bars: list[Bar], port: Viewport) -> list[Bar]:
        bars.sort(key=lambda bar: (bar.start, bar.seq))
        if len(bars) <= _DENSE * port.columns:
            return bars
        return worst_bars(bars, port.columns, {bar.seq: port.column(bar.start) for bar in bars})

    # --- metrics ----------------------------------------------------------------------------------------------
    def _metric_lanes(self, now: Now, bands: Bands) -> list[MetricLane]:
        grouped: dict[str, list[Series]] = {}
        for (metric, _), series in self._store.series.items():
            grouped.setdefault(metric, []).append(series)
        grouped = {one: held for one, held in grouped.items() if self._belongs(one, held, now)}
        lanes = self._update_lanes(now, bands)
        of_updates = {lane.name for lane in lanes}  # values of updates are judged: no second lane of the name
        for name, held in grouped.items():
            if name in of_updates or (_SHOWN_BY.get(name) in grouped and name not in now.charted):
                continue
            if name in _OF_QUEUES and 1 < len(held) <= _MOST_QUEUES and not (name == "queue_size" and _FILL in grouped):
                lanes += [self._lane(name, [series], now, bands, series.group) for series in held]
            else:
                lanes.append(self._lane(name, held, now, bands))
        places = {metric: at for at, metric in enumerate(METRIC_ORDER)}
        lanes.sort(key=lambda lane: (places.get(lane.metric, len(places)), lane.good is None, lane.name))
        return lanes

    def _belongs(self, metric: str, held: Sequence[Series], now: Now) -> bool:
        """Hosts have panes of their own: of metrics of pollers alone, lanes show those beyond their thresholds."""
        sources = self._store.sources
        polled = all(not len(series) or sources[series.sources[0]].polled for series in held)
        if not polled or metric in METRIC_ORDER or all(state.polled for state in sources):
            return True
        stats = now.snapshot.metrics.get(metric) if now.snapshot is not None else None
        return stats is not None and stats.band not in (None, "good")

    def _lane(self, metric: str, held: Sequence[Series], now: Now, bands: Bands, group: str = "") -> MetricLane:
        band, width = bands.get(metric), now.viewport.column_s
        first = floor(now.viewport.start / width + 0.5)
        buckets = self._grid(f"{group} {metric}", band, width, first)
        buckets.read(held, now.alignment.shifts)
        buckets.forget(first)
        values = buckets.values(first, now.viewport.columns)
        last = last_value(held, lowest=band is not None and not band.higher_is_worse)
        last = nan if self._ends_not_finite(metric, held) else last
        return _metric_lane(metric, values, last, now, band, group)

    def _ends_not_finite(self, metric: str, held: Sequence[Series]) -> bool:
        """True where samples that are nan or infinite came after the last one that is a number."""
        name = metric + NOT_FINITE
        marks = [one for (mark, _), one in self._store.marks.items() if mark == name and len(one)]
        ends = [max((one.times[-1], one.lines[-1]) for one in kept if len(one)) for kept in (marks, held) if any(kept)]
        return bool(marks) and ends[0] == max(ends)

    def _grid(self, name: str, band: Band | None, width: float, first: int) -> Buckets:
        """The buckets of a lane; new ones if the grid changed or samples were moved."""
        held = self._buckets.get(name)
        if held is None or held.width_s != width or first < held.first or held.stamp != self._shifts:
            worst = "mean" if band is None else "max" if band.higher_is_worse else "min"
            held = self._buckets[name] = Buckets(width, first, worst, self._shifts)
        return held

    def _update_samples(self, now: Now) -> dict[str, list[tuple[float, float]]]:
        """Metrics of weight updates, at the time of their lines: the end."""
        samples_of: dict[str, list[tuple[float, float]]] = {}
        for span in self._recent.spans(UPDATES, self._since(now)):
            if isinstance(span, Update) and span.end is not None:
                end = span.end + now.alignment.shifts.get(span.source, 0.0)
                for metric, value in update_values(span).items():
                    samples_of.setdefault(metric, []).append((end, value))
        return samples_of

    def _update_lanes(self, now: Now, bands: Bands) -> list[MetricLane]:
        lanes = []
        width = now.viewport.column_s
        first = floor(now.viewport.start / width + 0.5)
        for metric, samples in self._update_samples(now).items():
            if metric not in UPDATE_METRICS or metric == "wall_ms":
                continue
            buckets = Buckets(width, first, "max")
            for time, value in samples:
                buckets.put(time, value)
            values = buckets.values(first, now.viewport.columns)
            lanes.append(_metric_lane(metric, values, max(samples)[1], now, bands.get(metric)))
        return lanes


def _kept(made: dict[str, _Lane], key: str, lane: _Lane) -> _Lane:
    """Return the lane, as the object that it was before if it is equal."""
    held = made.get(key)
    if held is lane or (held is not None and held == lane):
        return held
    made[key] = lane
    return lane


def _within(bars: Iterable[Bar | None], port: Viewport) -> list[Bar]:
    return [bar for bar in bars if bar is not None and bar.end >= port.start and bar.start <= port.end]


def _metric_lane(
    metric: str, values: Sequence[float], last: float | None, now: Now, band: Band | None, group: str = ""
) -> MetricLane:
    # Statistics are of all queues together.
    stats = now.snapshot.metrics.get(metric) if now.snapshot is not None and not group else None
    summary = stats.summary if stats is not None else None
    levels = bytes(len(values)) if band is None else band.levels(values)
    level = Level.NONE if last is None or band is None else Level(band.level(last) + 1)
    if last is not None and isnan(last):
        level = Level.CRITICAL
    share = stats.band_shares.get("critical", 0.0) if stats is not None and stats.band_shares else None
    if group and band is not None:  # of the columns in which something was measured
        share = levels.count(Level.CRITICAL) / (sum(map(isfinite, values)) or 1)
    return MetricLane(
        name=f"{group} {metric}" if group else metric,
        group=group,
        unit=metric_unit(metric),
        values=values,
        levels=levels,
        now=last,
        now_level=level,
        p50=summary.p50 if summary else None,
        p95=summary.p95 if summary else None,
        max=summary.max if summary else None,
        critical_share=share,
        good=band.good if band is not None else None,
        critical=band.critical if band is not None else None,
        lower_is_worse=band is not None and not band.higher_is_worse,
    )
