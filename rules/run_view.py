"""The run as it was observed: spans, samples, marks and steps on one time axis, within a window."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, compress, islice, repeat
from operator import attrgetter, ge
from typing import TypeVar, cast

from perfmon.core import Ref, Span, Window
from perfmon.store import Recent, Series, SourceState, Store, on_own_axes

from .bands import Bands
from .tracks import EMPTY, UPDATE, UPDATE_METRICS, Item, Streams, Track, merged, value_of

BY_START = attrgetter("start", "end", "key")
_END = attrgetter("end")
_T = TypeVar("_T")


@dataclass
class RunView:
    """The store of a run on one axis, within a window."""

    store: Store
    bands: Bands
    shifts: Mapping[int, float] = field(default_factory=dict)
    """Seconds to add to the axis of each log."""
    clip: Window | None = None
    """Only what lies in here is seen."""
    timed: bool = True
    """Some log has a clock; else times are durations added up in order."""
    guessed: frozenset[int] = frozenset()
    """Logs whose place on the axis was guessed."""
    present: float | None = None
    """The moment until which the logs are watched, where that is later than their last line; None: nobody waits."""
    recent: Recent | None = None
    """Knows which spans may lie within `clip`; None: all are looked at."""

    def fact(self, find: Callable[[RunView], _T]) -> _T:
        """What a function finds out about the run; it is asked once."""
        if find not in self._facts:
            self._facts[find] = find(self)
        return cast(_T, self._facts[find])

    @cached_property
    def _facts(self) -> dict[Callable[[RunView], object], object]:
        return {}

    @cached_property
    def whole(self) -> Window:
        """First and last moment that is observed, whatever part of it is looked at."""
        low, high = self.told
        return (low, high if self.present is None else max(high, self.present))

    @cached_property
    def told(self) -> Window:
        """First and last moment that the logs tell of."""
        starts: list[float] = []
        ends: list[float] = []
        for state in logs_of(self.store.sources):
            if state.first is not None and state.last is not None:
                shift = self.shifts.get(state.index, 0.0)
                starts.append(state.first + shift)
                ends.append(state.last + shift)
        for state in self.store.sources:
            if not self.timed and state.clockless and state.pseudo > 0:  # by what its lines say that work took
                starts.append(self.shifts.get(state.index, 0.0))
                ends.append(state.pseudo + self.shifts.get(state.index, 0.0))
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
        """Those that may lie within the part that is looked at, also what has not ended; None: all are looked at."""
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
                shift = self.shifts.get(item.source, 0.0)
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

    def told_of(self, names: Sequence[str]) -> bool:
        """Whether the run tells of any span, metric or mark of these names, inside of the window or not."""
        return tells_of(self.store, names)

    def told_by(self, kind: str, ref: Ref) -> Item | None:
        """The span of a kind that a line tells of."""
        lines = self._told.get(kind)
        if lines is None:
            lines = self._told[kind] = {held: item for item in self.spans(kind) for held, _ in item.refs}
        return lines.get(ref)

    @cached_property
    def _told(self) -> dict[str, dict[Ref, Item]]:
        return {}

    def column(self, kind: str, metric: str) -> list[float | None]:
        """A value of all spans of a kind, as they stand in `spans`."""
        known = self._columns.get((kind, metric))
        if known is None:
            read = value_of(kind, metric)
            known = self._columns[kind, metric] = [
                read(item.span) if item.told is None and item.span is not None else item.values.get(metric)
                for item in self.spans(kind)
            ]
        return known

    @cached_property
    def _columns(self) -> dict[tuple[str, str], list[float | None]]:
        return {}

    @cached_property
    def figures(self) -> dict[tuple[str, str, int, int], str | None]:
        """Likewise for statistics of stretches of tracks: see `perfmon.rules.sentences`."""
        return {}

    @cached_property
    def intervals(self) -> dict[tuple[str, int, str], float]:
        """Likewise for the seconds between samples of a metric, log and group: see `perfmon.rules.causes`."""
        return {}

    @cached_property
    def worked_out(self) -> dict[tuple[object, ...], object]:
        """Likewise for what conditions find out about all samples of a metric at once, by condition and group."""
        return {}

    @cached_property
    def streams(self) -> dict[tuple[str, Sequence[str]], Streams]:
        """Likewise for what they are one of."""
        return {}

    @cached_property
    def metrics(self) -> dict[str, Track]:
        """Every metric's track."""
        grouped: dict[str, list[Series]] = {}
        for (metric, _), series in self.store.series.items():
            grouped.setdefault(metric, []).append(series)
        tracks = {metric: merged(metric, held, self.shifts, self.clip) for metric, held in grouped.items()}
        for metric in UPDATE_METRICS:
            track = self._update_track(metric)
            if len(track):
                tracks[metric] = track
        return {metric: track for metric, track in tracks.items() if len(track)}

    def track(self, metric: str) -> Track:
        """One metric's samples, an empty track when there are none."""
        return self._judged.get(metric, EMPTY)

    @property
    def _judged(self) -> Mapping[str, Track]:
        return self.metrics

    def tells_apart(self, metric: str, group: str) -> bool:
        """Whether a metric is told of this group."""
        return (metric, group) in self.store.series

    @cached_property
    def marks(self) -> dict[str, Track]:
        """Every mark's track; the values are counts."""
        return self._all_marks()

    def _all_marks(self) -> dict[str, Track]:
        grouped: dict[str, list[Series]] = {}
        for (name, _), series in self.store.marks.items():
            grouped.setdefault(name, []).append(series)
        return {name: merged(name, held, self.shifts, self.clip) for name, held in grouped.items()}

    @cached_property
    def steps(self) -> dict[str, Track]:
        """Progress by component; the values are step numbers."""
        return {
            component: merged("step", [series], self.shifts, self.clip)
            for component, series in self.store.steps.items()
        }

    @cached_property
    def _ended(self) -> tuple[list[int], list[Item], list[float]]:
        """Places of the weight updates by their ends, which is when a line told their durations; they, and the ends."""
        spans = self.spans(UPDATE)
        ends = list(map(_END, spans))
        order = sorted(range(len(spans)), key=ends.__getitem__)  # of those that end together the first begun is first
        return order, [spans[at] for at in order], [ends[at] for at in order]

    def _update_track(self, metric: str) -> Track:
        order, items, ends = self._ended
        column = self.column(UPDATE, metric)
        values = [column[at] for at in order]
        if None in values:
            held = [at for at, value in enumerate(values) if value is not None]
            items, ends = [items[at] for at in held], [ends[at] for at in held]
        return Track(
            metric,
            ends,
            [value for value in values if value is not None],
            lambda at: items[at].refs[-1] if items[at].refs else (Ref(items[at].source, 0, 0), ""),
            lambda _: "",
            lambda at: items[at].source,
        )


def logs_of(states: Sequence[SourceState]) -> Sequence[SourceState]:
    """Those that the run itself writes and that have a time; where there are none, what pollers say."""
    return [state for state in states if not state.polled and state.first is not None] or states


def tells_of(store: Store, names: Sequence[str]) -> bool:
    """Whether any span, metric or mark of these names is in a store."""
    told = any(store.spans.get(name) or (name == UPDATE and store.updates) for name in names)
    return told or any(name in names for name, _ in (*store.series, *store.marks) if names)
