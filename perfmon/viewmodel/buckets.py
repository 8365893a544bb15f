"""The columns of the timeline: metrics, their courses for charts, and the whole run in one row."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, repeat
from math import ceil, floor, inf, isnan, log, nan
from typing import TYPE_CHECKING

from perfmon.clocks import Alignment
from perfmon.core import Span
from perfmon.store import STEP_KINDS, Series, Store

from .board import AlertKey, AlertState, Bar, Course, Level, Overview, Transition, Viewport
from .state import TimeRange

if TYPE_CHECKING:
    from perfmon.diagnosis import Diagnosis

_HELD = 1.5
"""Times its usual distance between samples for which a value holds."""


@dataclass(frozen=True, slots=True)
class BaselineRun:
    """The metrics of a recorded run, to be drawn behind those of another."""

    name: str
    times: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Seconds since its first line, ascending, by metric."""
    values: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def course(self, metric: str, port: Viewport, begin: float, count: int) -> Sequence[float]:
        """Its values at the same age as the run that began at `begin`, in `count` parts of the viewport."""
        times, values = self.times.get(metric, ()), self.values.get(metric, ())
        if not times:
            return (nan,) * count
        reach, width = _HELD * _usual_distance(times), (port.end - port.start) / count
        shown = array("d")
        for at in range(count):
            low = port.start - begin + at * width
            first, last = bisect_left(times, low), bisect_left(times, low + width)
            if first < last:
                shown.append(sum(values[first:last]) / (last - first))
            else:
                shown.append(values[first - 1] if first and low - times[first - 1] <= reach else nan)
        return shown


def baseline_run(name: str, snapshot: Diagnosis) -> BaselineRun:
    """The run of a diagnosis, as far as its metrics are one series each."""
    series = {metric: sorted(stats.series) for metric, stats in snapshot.metrics.items() if stats.series}
    times = {metric: array("d", [time for time, _ in points]) for metric, points in series.items()}
    return BaselineRun(name, times, {metric: array("d", [v for _, v in points]) for metric, points in series.items()})


def _usual_distance(times: Sequence[float]) -> float:
    """Median of the distances between neighbours, of which half at most are less."""
    apart = sorted(after - before for before, after in pairwise(times))
    return apart[len(apart) // 2] if apart else 0.0


def _held_places(values: Sequence[float]) -> list[int]:
    """Index of the value that each place shows, -1 for none.

    What only lies between two samples of the usual distance keeps the value before it.
    """
    measured = [at for at, value in enumerate(values) if value == value]  # noqa: PLR0124 - all but NaN
    if len(measured) < 2 or len(measured) == len(values):
        return [at if value == value else -1 for at, value in enumerate(values)]  # noqa: PLR0124
    reach = round(_HELD * _usual_distance(measured) + 0.5)
    places = [-1] * measured[0]
    for at, after in zip(measured, [*measured[1:], len(values)], strict=True):
        held = min(after - at, reach)
        places += [at] * held
        places += [-1] * (after - at - held)
    return places


def _lasting_places(values: Sequence[float], width: float) -> list[int]:
    """Index of the value that each place shows, -1 for none; the values are durations, in units of which a place has
    `width`.

    A duration is known at its end: it also has the empty places before, as far back as it began.
    """
    places = [-1] * len(values)
    for at, value in enumerate(values):
        if value == value:  # noqa: PLR0124 - all but NaN
            begin = at
            reach = max(0, at + 1 - round(min(abs(value) / width, len(values)))) if width > 0 else at
            while begin > reach and places[begin - 1] < 0:
                begin -= 1
            places[begin : at + 1] = [at] * (at + 1 - begin)
    return places


def is_level(unit: str) -> bool:
    """A value that holds until the next one is measured; a duration was over with its sample."""
    return unit not in ("ms", "s")


def held(values: Sequence[float], levels: bytes, unit: str, column_s: float) -> tuple[Sequence[float], bytes]:
    """The values and levels with those columns filled that only lie between two samples of the usual distance; of
    durations with those that they lasted."""
    width = column_s * (1000.0 if unit == "ms" else 1.0)
    places = _held_places(values) if is_level(unit) else _lasting_places(values, width)
    shown = bytes([0 if place < 0 else levels[place] for place in places])
    return [nan if place < 0 else values[place] for place in places], shown


def held_values(values: Sequence[float]) -> Sequence[float]:
    """The values with those places filled that `_held_places` fills."""
    return [nan if place < 0 else values[place] for place in _held_places(values)]


def smoothed(values: Sequence[float], window: int) -> Sequence[float]:
    """The mean of the values up to half a window before and behind each place; NaN where nothing was measured."""
    places = [at for at, value in enumerate(values) if not isnan(value)]
    sums = [0.0]
    for at in places:
        sums.append(sums[-1] + values[at])
    shown = array("d", [nan] * len(values))
    for at in places:
        first, last = bisect_left(places, at - window // 2), bisect_right(places, at + window // 2)
        shown[at] = (sums[last] - sums[first]) / (last - first)
    return shown


_MANY = 32
_ROUNDED = 1e-6
"""Columns: a sample at the edge of one may be rounded into it."""


class Buckets:
    """The worst value (or the mean, where no value is worse than another) of each column of an absolute grid.

    Column `n` holds the seconds `n * width_s` up to `(n + 1) * width_s` of the axis, so that columns stay what they
    are while a view moves over them.
    """

    def __init__(self, width_s: float, first: int, worst: str, stamp: int = 0) -> None:
        self.width_s, self.first, self.stamp = width_s, first, stamp
        self._worst = worst
        self._cells: dict[int, float] = {}
        self._counts: dict[int, int] = {}
        self._read: dict[int, tuple[int, int]] = {}
        """Of each series how many samples there had been, and how many of them were gone, when it was read last."""

    def read(self, held: Sequence[Series], shifts: Mapping[int, float]) -> None:
        """Take in new samples of the metric; columns keep samples that the series has dropped."""
        if self._worst == "mean" and any(map(self._unsure, held)):
            self._cells, self._counts, self._read = {}, {}, {}
        for series in held:
            size, ever = len(series), series.ever
            before, _ = self._read.get(id(series), (-1, 0))
            if before == ever or not size:
                continue
            begin = self._begin(series, shifts) if before < 0 else max(0, size - (ever - before))
            self._read[id(series)] = ever, series.gone
            times, values, sources = series.times[begin:], series.values[begin:], series.sources[begin:]
            if len(shifts) and any(shifts.values()):
                moved = [time + shifts.get(source, 0.0) for time, source in zip(times, sources, strict=True)]
                self._put(moved, values)
            elif len(times) > _MANY and series.steady():
                self._put_ordered(times, values)
            else:
                self._put(times, values)

    def _unsure(self, series: Series) -> bool:
        """Some of the new samples may be gone already, so that an old one stands where the first new one is looked
        for: taken in twice it makes a mean wrong, but no value worse than it is."""
        before, gone = self._read.get(id(series), (series.ever, series.gone))
        return gone != series.gone and series.ever - before > len(series) // 3

    def put(self, time: float, value: float) -> None:
        """Takes in one sample."""
        self._put((time,), (value,))

    def values(self, first: int, columns: int) -> list[float]:
        """The values of `columns` columns from column `first` on; NaN where nothing was measured."""
        return list(map(self._cells.get, range(first, first + columns), repeat(nan)))

    def forget(self, before: int) -> None:
        """Lets go of the columns before `before`."""
        if len(self._cells) > 4096:
            self.first = before
            self._cells = {at: value for at, value in self._cells.items() if at >= before}
            self._counts = {at: count for at, count in self._counts.items() if at >= before}

    def _begin(self, series: Series, shifts: Mapping[int, float]) -> int:
        """Index of the first sample in the grid, if the series is in order."""
        if not series.steady():
            return 0
        start = (self.first - _ROUNDED) * self.width_s - shifts.get(series.sources[0], 0.0)
        return bisect_left(series.times, start)  # the column of each sample is worked out by itself

    def _put(self, times: Sequence[float], values: Sequence[float]) -> None:
        cells, width, first = self._cells, self.width_s, self.first
        if self._worst == "mean":
            for time, value in zip(times, values, strict=True):
                self._add(floor(time / width), value, 1)
            return
        more = self._worst == "max"
        for time, value in zip(times, values, strict=True):
            at = floor(time / width)
            held = cells.get(at)
            if held is None:
                if at >= first:
                    cells[at] = value
            elif (value > held) if more else (value < held):
                cells[at] = value

    def _put_ordered(self, times: Sequence[float], values: Sequence[float]) -> None:
        """Take in very many samples in time order: column by column."""
        cells, width, pick = self._cells, self.width_s, max if self._worst == "max" else min
        begin = 0
        while begin < len(times):
            at = floor(times[begin] / width)
            stop = bisect_left(times, (at + 1) * width, begin + 1)
            while stop < len(times) and floor(times[stop] / width) == at:  # the product was rounded down
                stop += 1
            while floor(times[stop - 1] / width) != at:
                stop -= 1
            if self._worst == "mean":
                self._add(at, sum(values[begin:stop]), stop - begin)
                begin = stop
                continue
            worst, held = pick(values[begin:stop]), cells.get(at)
            if held is not None:
                cells[at] = pick(held, worst)
            elif at >= self.first:
                cells[at] = worst
            begin = stop

    def _add(self, at: int, total: float, count: int) -> None:
        """Takes so many values into the mean of a column."""
        if at >= self.first:
            counts, before = self._counts, self._cells.get(at, 0.0)
            counts[at] = counts.get(at, 0) + count
            self._cells[at] = before + (total - count * before) / counts[at]


# --- Very many bars of one kind: of each column of a fixed grid the worst one, kept up to date span by span ---


class DenseBars:
    """The worst bar, by level and length, of those that begin in the same column of an absolute grid.

    Columns are those of `Buckets`: they stay what they are while a view moves over them.
    """

    def __init__(self, width_s: float, start: float, stamp: int) -> None:
        self.width_s, self.start, self.stamp = width_s, start, stamp
        self._spans: Sequence[Span] = ()
        self._read = 0
        self._seen: set[int] = set()
        self._worst: dict[int, Bar] = {}

    def holds(self, port: Viewport, stamp: int) -> bool:
        """Return True if it stays correct for that view."""
        return self.width_s == port.column_s and self.start <= port.start and self.stamp == stamp

    def read(self, spans: Sequence[Span], bar_of: Callable[[Span], Bar | None]) -> None:
        """Takes in the spans that are new; bars stay when their spans are let go of."""
        if spans is self._spans:
            fresh = spans[self._read :]
            self._seen.update([span.seq for span in fresh])
        else:
            fresh = [span for span in spans if span.seq not in self._seen]
            self._spans, self._seen = spans, {span.seq for span in spans}
        self._read = len(spans)
        worst, width = self._worst, self.width_s
        for span in fresh:
            bar = bar_of(span)
            if bar is None or bar.end < self.start:
                continue
            column = floor(bar.start / width)
            held = worst.get(column)
            if held is None or (bar.level, bar.end - bar.start) > (held.level, held.end - held.start):
                worst[column] = bar

    def bars(self, port: Viewport) -> list[Bar]:
        """Those that reach into the view; what ended before it is forgotten, as views move on."""
        self.start = port.start
        self._worst = {column: bar for column, bar in self._worst.items() if bar.end >= port.start}
        return [bar for bar in self._worst.values() if bar.start <= port.end]


# --- The courses of metrics that are shown as charts ---


class CourseBuilder:
    """The courses of the metrics that are shown as charts, kept up to date sample by sample."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[Buckets, Buckets, Buckets]] = {}

    def of_series(
        self, name: str, held: Sequence[Series], shifts: Mapping[int, float], port: Viewport, count: int, stamp: int
    ) -> Course:
        """That of all samples of some series."""
        width = (port.end - port.start) / count
        first = floor(port.start / width + 0.5)
        known = self._held.get(name)
        if known is None or known[0].width_s != width or first < known[0].first or known[0].stamp != stamp:
            low, high, mean = (Buckets(width, first, which, stamp) for which in ("min", "max", "mean"))
            known = self._held[name] = low, high, mean
        for buckets in known:
            buckets.read(held, shifts)
            buckets.forget(first)
        return Course(*(buckets.values(first, count) for buckets in known))

    def keep(self, names: Iterable[str]) -> None:
        """Let go of all others."""
        self._held = {name: held for name in names if (held := self._held.get(name)) is not None}


def course_of(samples: Iterable[tuple[float, float]], port: Viewport, count: int) -> Course:
    """The course of samples (time, value) on the run's axis."""
    width = (port.end - port.start) / count
    first = floor(port.start / width + 0.5)
    low, high, mean = (Buckets(width, first, which) for which in ("min", "max", "mean"))
    for time, value in samples:
        for buckets in (low, high, mean):
            buckets.put(time, value)
    return Course(*(buckets.values(first, count) for buckets in (low, high, mean)))


# --- The whole run in one row: how quickly it made its steps, and when alerts were active ---

_FEW = 3
"""Progress that shows a pace."""
_REST_S = 2.0
"""The pace of the past changes slowly: it is worked out again after so long."""
_ACTIVE = (AlertState.FIRING, AlertState.ACKED, AlertState.RESOLVING)


class OverviewBuilder:
    """Builds overviews; the paces of one are kept for a moment."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._made: Overview | None = None
        self._ticks: Sequence[Transition] = ()

    def build(
        self, begin: float | None, now: float, columns: int, alignment: Alignment, ticks: Sequence[Transition]
    ) -> Overview | None:
        """The run from `begin` to `now`, both on its axis, in so many columns; None before it has begun.

        For a moment it is the one before, unless alerts have changed.
        """
        if begin is None or now <= begin:
            return None
        made = self._made
        if made is not None and made.viewport.columns == columns and made.begin == begin and ticks == self._ticks:
            grown = fitted_span(now - begin) > made.viewport.end - made.viewport.start + _ROUNDED
            if not grown and 0.0 <= now - made.viewport.end < _REST_S:
                return made
        port = Viewport(now - fitted_span(now - begin), now, columns)
        self._ticks = ticks
        self._made = Overview(port, begin, self._steps(port, alignment), *_alerts(port, ticks, now))
        return self._made

    def _steps(self, port: Viewport, alignment: Alignment) -> Sequence[float]:
        """Steps a second in each column, between those before and behind it."""
        times, counts, shift = self._counted(alignment)
        paces = array("d", [nan] * port.columns)
        if len(times) < _FEW:
            return paces
        for column in range(port.columns):
            low = port.start + column * port.column_s - shift
            high = low + port.column_s
            first, last = bisect_right(times, low) - 1, bisect_left(times, high)
            if high <= times[0]:
                continue
            first = max(first, 0)
            if last >= len(times):  # the next step has not come yet
                last = len(times) - 1
                usual = times[last] - times[last - 1]
                passed = port.end - shift - times[first]
                passed = max(passed, usual) if first == last else passed
                made = max(counts[last] - counts[first], 1.0 if first == last else 0.0)
            else:
                passed, made = times[last] - times[first], counts[last] - counts[first]
            paces[column] = max(0.0, made) / passed if 0.0 < passed < inf else nan
        return paces

    def _counted(self, alignment: Alignment) -> tuple[Sequence[float], Sequence[float], float]:
        """Times of progress on its log's axis, how much there was until then, and what brings them onto the run's.

        It is that of steps, else of what there was most of.
        """
        steps = self._store.steps.get("trainer") or max(self._store.steps.values(), key=len, default=None)
        if steps is not None and len(steps) >= _FEW and steps.steady():
            return steps.times, steps.values, alignment.shifts.get(steps.sources[0], 0.0)
        tracks = [track for track in self._store.progress.tracks.values() if len(track.times) >= _FEW]
        of_steps = [track for track in tracks if track.kind.partition(":")[0] in STEP_KINDS]
        best = max(of_steps or tracks, key=lambda track: track.count, default=None)
        if best is None:
            return (), (), 0.0
        return sorted(best.times), range(len(best.times)), alignment.shifts.get(best.source, 0.0)


def _alerts(port: Viewport, ticks: Sequence[Transition], now: float) -> tuple[bytes, tuple[tuple[float, Level], ...]]:
    """The worst level of active alerts in each column, and when they began."""
    levels = bytearray(port.columns)
    since: dict[AlertKey, tuple[float, Level]] = {}
    spans: list[tuple[float, float, Level]] = []
    starts: list[tuple[float, Level]] = []
    for tick in ticks:
        held = since.get(tick.key)
        if tick.state in _ACTIVE and held is None:
            since[tick.key] = tick.time, tick.level
            starts.append((tick.time, tick.level))
        elif tick.state not in _ACTIVE and held is not None:
            spans.append((held[0], tick.time, held[1]))
            del since[tick.key]
    spans += [(begun, now, level) for begun, level in since.values()]
    for begun, ended, level in spans:
        for column in range(max(0, port.column(begun)), min(port.columns - 1, port.column(ended)) + 1):
            levels[column] = max(levels[column], level)
    return bytes(levels), tuple(starts)


_LEAST_SPAN_S, _STEP, _SCROLL_S = 10.0, 1.2, 3.0


def fitted_span(observed_s: float) -> float:
    """Seconds for what was observed so far: in steps of a fifth, so that columns keep for a while what they show."""
    if observed_s <= _LEAST_SPAN_S:
        return _LEAST_SPAN_S
    return float(_LEAST_SPAN_S * _STEP ** ceil(log(observed_s / _LEAST_SPAN_S, _STEP) - 1e-9))


def viewport(shown: TimeRange, now: float, judged_s: float, begin: float | None = None, *, over: bool) -> Viewport:
    """The part of the axis to show: columns lie on a fixed grid, so that they stay what they are while time passes.

    A young run (`begin`) has all of the axis, one that is `over` what it needs. Short columns move several at a time.
    """
    span_s = judged_s if shown.span_s is None else shown.span_s
    if begin is not None:
        span_s = min(span_s, max(_LEAST_SPAN_S, now - begin) if over else fitted_span(now - begin))
    column_s = span_s / shown.columns
    step_s = column_s if over else column_s * max(1, min(shown.columns // 10, round(_SCROLL_S / column_s)))
    end = ceil(now / step_s) * step_s if shown.end is None else ceil(shown.end / column_s) * column_s
    return Viewport(end - shown.columns * column_s, end, shown.columns)
