"""The run as it was observed: spans, samples, marks and steps on one time axis, within a window."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, compress, islice, repeat
from math import inf
from operator import attrgetter, ge
from typing import TypeVar, cast

from perfmon.core import Ref, Span, Window
from perfmon.store import Failure, Recent, RunMark, Series, SourceState, Store, WorkCounter, on_own_axes

from .bands import Bands
from .tracks import EMPTY, UPDATE, UPDATE_METRICS, Item, Track, merged

BY_START = attrgetter("start", "end", "key")
_END = attrgetter("end")
_T = TypeVar("_T")
_OfLog = TypeVar("_OfLog", WorkCounter, Failure, RunMark)


@dataclass
class RunView:
    """The store of a run on one axis, within a window."""

    store: Store
    bands: Bands
    shifts: Mapping[int, float] = field(default_factory=dict)
    """Seconds to add to the axis of each log."""
    clip: Window | None = None
    """Only what is within it counts."""
    timed: bool = True
    """Some log has a clock; else times are durations added up in order."""
    guessed: frozenset[int] = frozenset()
    """Logs whose place on the axis was guessed."""
    present: float | None = None
    """The time up to which the logs are monitored, where that is later than their last line; None: they are not."""
    recent: Recent | None = None
    """Knows which spans may lie within `clip`; None: all are."""

    def once(self, key: Hashable, derive: Callable[[], _T]) -> _T:
        """The result of `derive`, which is called when the key is first used."""
        if key not in self._derived:
            self._derived[key] = derive()
        return cast(_T, self._derived[key])

    @cached_property
    def _derived(self) -> dict[Hashable, object]:
        return {}

    def fact(self, find: Callable[[RunView], _T]) -> _T:
        """The result of a function of the run, which is called once."""
        return self.once(find, lambda: find(self))

    def shift(self, source: int) -> float:
        """Seconds to add to the axis of a log."""
        return self.shifts.get(source, 0.0)

    @cached_property
    def logs(self) -> list[SourceState]:
        """The logs of the run itself, without those of pollers."""
        return [state for state in self.store.sources if not state.polled]

    def extent(self, state: SourceState) -> Window:
        """First and last moment of a log."""
        shift = self.shift(state.index)
        return ((state.first or 0.0) + shift, (state.last or 0.0) + shift)

    def counters(self, source: int) -> list[WorkCounter]:
        """The counters of a log."""
        return self._by_log("counters", self.store.progress.counters.values()).get(source, [])

    def failures(self, source: int) -> list[Failure]:
        """The failures that a log reports."""
        return self._by_log("failures", self.store.failures.kept).get(source, [])

    def run_marks(self, source: int, kind: str) -> list[RunMark]:
        """The first (`begin`) or last (`end`) words of runs in a log."""
        marks = self._by_log("marks", self.store.progress.marks).get(source, ())
        return [mark for mark in marks if mark.kind == kind]

    def _by_log(self, name: str, items: Iterable[_OfLog]) -> Mapping[int, list[_OfLog]]:
        """Items by their log: of many logs each is looked at by itself."""

        def grouped() -> Mapping[int, list[_OfLog]]:
            groups: dict[int, list[_OfLog]] = {}
            for item in items:
                groups.setdefault(item.source, []).append(item)
            return groups

        return self.once(("by log", name), grouped)

    def counted_steps(self, source: int) -> list[list[tuple[int, float]]]:
        """(line, step) of a log, for each component that counts steps in it."""
        return self._counted_steps.get(source, [])

    @cached_property
    def _counted_steps(self) -> Mapping[int, list[list[tuple[int, float]]]]:
        found: dict[int, list[list[tuple[int, float]]]] = {}
        for series in self.store.steps.values():
            groups: dict[int, list[tuple[int, float]]] = {}
            for source, line, step in zip(series.sources, series.lines, series.values, strict=True):
                groups.setdefault(source, []).append((line, step))
            for source, rows in groups.items():
                found.setdefault(source, []).append(rows)
        return found

    def marked(self, name: str) -> Iterator[Series]:
        """The marks of a name by group, whatever part of the run is evaluated."""
        return (series for (marked, _), series in self.store.marks.items() if marked == name)

    @cached_property
    def whole(self) -> Window:
        """First and last moment that is observed, whatever part of it is evaluated."""
        low, high = self.reported
        return (low, high if self.present is None else max(high, self.present))

    @cached_property
    def reported(self) -> Window:
        """First and last moment that the logs report."""
        extents = [
            self.extent(state)
            for state in logs_of(self.store.sources)
            if state.first is not None and state.last is not None
        ]
        for state in self.store.sources:
            if not self.timed and state.clockless and state.pseudo > 0:  # by the durations of work in its lines
                shift = self.shift(state.index)
                extents.append((shift, state.pseudo + shift))
        starts, ends = [low for low, _ in extents], [high for _, high in extents]
        for kind, spans in self._spans.items():
            starts += [span.start for span in spans[:1]]
            ends += self._ends[kind][-1:]
        if not starts:
            return (0.0, 0.0)
        return (min(starts), max(ends))

    @cached_property
    def window(self) -> Window:
        """First and last moment that is looked at."""
        low, high = self.whole
        if self.clip is not None:
            low, high = max(low, self.clip[0]), min(high, self.clip[1])
        return (low, max(low, high))

    @cached_property
    def recent_spans(self) -> Mapping[str, Sequence[Span]] | None:
        """Those that may lie within the part that is looked at, also what has not ended; None: all are."""
        if self.recent is None or self.clip is None:
            return None
        since = on_own_axes(self.clip[0], self.shifts)
        return {kind: self.recent.spans(kind, since) for kind in self.recent.kinds}

    @cached_property
    def _spans(self) -> dict[str, list[Item]]:
        return self._ended_spans()

    def _ended_spans(self) -> dict[str, list[Item]]:
        """By kind, each kind by start."""
        if self.recent_spans is not None:
            return {kind: self._items(held) for kind, held in self.recent_spans.items()}
        spans = {kind: self._items(held) for kind, held in self.store.spans.items()}
        if self.store.updates:
            spans[UPDATE] = self._items(self.store.updates)
        return spans

    def spans(self, kind: str) -> list[Item]:
        """Spans of a kind by start; weight updates have their legs' durations as values."""
        return self._spans.get(kind, [])

    @property
    def span_kinds(self) -> Iterable[str]:
        """Kinds that the run has."""
        return self._spans.keys()

    def _items(self, spans: Iterable[Span]) -> list[Item]:
        items = [
            Item(span.start, span.end, None, span.fields, span.refs, "", span.key, span.source, span)
            for span in spans
            if span.start is not None and span.end is not None
        ]
        if self.shifts:
            for item in items:
                shift = self.shift(item.source)
                item.start, item.end = item.start + shift, item.end + shift
        if self.clip is not None:
            low, high = self.clip
            items = [item for item in items if item.end >= low and item.start <= high]
        items.sort(key=BY_START)
        return items

    @cached_property
    def _ends(self) -> dict[str, list[float]]:
        """For each kind the running maximum of ends: where to stop looking back for overlaps."""
        return {kind: list(accumulate(map(_END, items), max)) for kind, items in self._spans.items()}

    @cached_property
    def _starts(self) -> dict[str, list[float]]:
        return {kind: [item.start for item in items] for kind, items in self._spans.items()}

    def overlapping(self, kind: str, start: float, end: float, most: int | None = None) -> list[Item]:
        """Spans of a kind that share time with start..end; the first `most` of them."""
        items = self.spans(kind)
        if not items:
            return []
        stop = bisect_left(self._starts[kind], end)
        first = bisect_right(self._ends[kind], start, 0, stop)
        if most is not None:
            return list(islice((items[at] for at in range(first, stop) if items[at].end > start), most))
        return [item for item in items[first:stop] if item.end > start]

    def alone(self, kind: str, other: str) -> list[Item]:
        """Spans of a kind that share time with none of another one."""
        items = self.spans(kind)
        if not items or not self.spans(other):
            return items
        over = map(bisect_right, repeat(self._ends[other]), self._starts[kind])
        begun = map(bisect_left, repeat(self._starts[other]), map(_END, items))
        return list(compress(items, map(ge, over, begun)))

    def has_any(self, names: Sequence[str]) -> bool:
        """Some span, metric or mark of these names is in the run, inside of the window or not."""
        return has_any_of(self.store, names)

    def span_at_line(self, kind: str, ref: Ref) -> Item | None:
        """The span of a kind that a line reports."""
        lines = self.once(("lines", kind), lambda: {held: item for item in self.spans(kind) for held, _ in item.refs})
        return lines.get(ref)

    @cached_property
    def metrics(self) -> dict[str, Track]:
        """Every metric's track."""
        tracks = self._merged(self.store.series)
        # By their ends, which is when a line reported their durations; of those that end together in order of start.
        tracks |= _update_tracks(sorted(self.spans(UPDATE), key=_END))
        return {metric: track for metric, track in tracks.items() if len(track)}

    def track(self, metric: str) -> Track:
        """One metric's samples, an empty track when there are none."""
        return self._judged.get(metric, EMPTY)

    @property
    def _judged(self) -> Mapping[str, Track]:
        return self.metrics

    def has_group(self, metric: str, group: str) -> bool:
        """Some samples of a metric are of this group."""
        return (metric, group) in self.store.series

    @cached_property
    def marks(self) -> Mapping[str, Track]:
        """The track of every mark; the values are counts."""
        return self._merged(self.store.marks)

    def _merged(self, held: Mapping[tuple[str, str], Series]) -> dict[str, Track]:
        grouped: dict[str, list[Series]] = {}
        for (name, _), series in held.items():
            grouped.setdefault(name, []).append(series)
        return {name: merged(name, several, self.shifts, self.clip) for name, several in grouped.items()}

    @cached_property
    def steps(self) -> dict[str, Track]:
        """Progress by component; the values are step numbers."""
        return {
            component: merged("step", [series], self.shifts, self.clip)
            for component, series in self.store.steps.items()
        }


def _update_tracks(ended: Sequence[Item]) -> dict[str, Track]:
    """The metrics of weight updates, which are in the order of their ends."""
    held: dict[str, tuple[list[Item], list[float]]] = {metric: ([], []) for metric in UPDATE_METRICS}
    for item in ended:
        for metric, value in item.values.items():
            if metric in held:
                items, values = held[metric]
                items.append(item)
                values.append(value)
    return {metric: _update_track(metric, *rows) for metric, rows in held.items()}


def _update_track(metric: str, items: Sequence[Item], values: Sequence[float]) -> Track:
    return Track(
        metric,
        [item.end for item in items],
        values,
        lambda at: items[at].refs[-1] if items[at].refs else (Ref(items[at].source, 0, 0), ""),
        [(item.source, "") for item in items],
    )


def logs_of(states: Sequence[SourceState]) -> Sequence[SourceState]:
    """Logs of the run itself that have a time; where there are none, those of pollers."""
    return [state for state in states if not state.polled and state.first is not None] or states


def has_any_of(store: Store, names: Sequence[str]) -> bool:
    """Some span, metric or mark of these names is in a store."""
    spans = any(store.spans.get(name) or (name == UPDATE and store.updates) for name in names)
    return spans or any(name in names for name, _ in (*store.series, *store.marks) if names)


def bands_of(store: Store, bands: Bands) -> Bands:
    """The bands that apply to the run in a store."""

    def largest(metric: str) -> float:
        peaks = (
            peak for (name, _), series in store.series.items() if name == metric for _, peak in series.peaks.values()
        )
        return max(peaks, default=-inf)

    return bands.holding(lambda names: has_any_of(store, names), largest)
