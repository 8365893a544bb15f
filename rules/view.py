"""The run as the rules see it: tracks of samples, spans and silence on one time axis."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, compress, repeat
from operator import attrgetter, ge

from perfmon.ledger import length, without
from perfmon.model import Fields, Ref, Span, Update
from perfmon.recent import Recent, on_own_axes
from perfmon.store import Series, Store

from .bands import Bands
from .begun import begun
from .in_flight import in_flight
from .restarts import Restart, restarts
from .silence import Quiet, apart, dark_run, logs_of, quiet_logs, quiet_run, silences
from .still_open import still_open
from .told_twice import ToldTwice, told_twice

Window = tuple[float, float]
UPDATE = "weight-update"
_USUAL_OP = "update_weights"
"""Its RPC is `rpc_ms`; that of another operation is a metric of its own."""
_BY_START = attrgetter("start", "end", "key")
_BY_END = attrgetter("end", "start")
_END = attrgetter("end")
SPAN_METRICS = {
    "checkpoint-write": ("write_ms", 1000.0),
    "checkpoint-wait": ("wait_ms", 1000.0),
    "generation-batch": ("dur_ms", 1000.0),
    "policy-wait": ("policy_wait_s", 1.0),
    "batch-wait": ("batch_wait_s", 1.0),
    "weight-sync": ("weight_sync_s", 1.0),
}
"""The metric that the duration of a span is, and its units per second."""
UPDATE_METRICS = ("queue_ms", "rpc_ms", "rpc_ms.reload_weights", "wall_ms")


@dataclass(slots=True)
class Item:
    """Something that a signature judges."""

    start: float
    end: float
    told: Mapping[str, float] | None
    """Its values by metric; None for those of its span, which few are ever asked for."""
    fields: Fields
    refs: Sequence[tuple[Ref, str]]
    group: str = ""
    key: str = ""
    source: int = 0
    span: Span | None = None
    stream: object = ""
    """What it is one of: neighbours in time are items of the same stream."""
    at: int = 0
    """Its place in the stream."""
    floor: float = float("-inf")
    """Time of the last item of its stream that is not judged: windows do not reach behind it."""

    @property
    def values(self) -> Mapping[str, float]:
        """By metric."""
        if self.told is None:
            self.told = {} if self.span is None else values_of(self.span)
        return self.told


@dataclass(slots=True)
class Stream:
    """Items that follow one another: updates of one server, samples of one log and group."""

    count: int = 0
    first: float = 0.0
    last: float = 0.0

    def add(self, time: float) -> int:
        """Counts an item; returns its place."""
        if not self.count:
            self.first = time
        self.last = time
        self.count += 1
        return self.count - 1

    @property
    def interval(self) -> float:
        """Mean seconds between items; 0 for a single one."""
        return (self.last - self.first) / (self.count - 1) if self.count > 1 else 0.0


Streams = tuple[list[str], list[int], dict[object, Stream]]
"""The stream of each item and its place in it; all streams."""


@dataclass(slots=True)
class Track:
    """All samples of a metric in time order."""

    metric: str
    times: Sequence[float]
    values: Sequence[float]
    ref: Callable[[int], tuple[Ref, str]]
    group: Callable[[int], str]
    source: Callable[[int], int]
    earlier: Mapping[object, int] = field(default_factory=dict)
    """Samples of each (log, group) that lie before what is looked at."""
    mine: dict[str, tuple[list[int], list[float]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    def between(self, start: float, end: float) -> tuple[int, int]:
        """Index range of the samples in start..end, both included."""
        return bisect_left(self.times, start), bisect_right(self.times, end)

    def recent(self, item: Item, window_n: int, window_s: float) -> list[int]:
        """Samples of the item's group up to its end and above its floor: the last `window_n` of `window_s` seconds.

        0 for either: without that limit.
        """
        mine = self._mine(item.group)
        times = self.times if mine is None else mine[1]
        stop = bisect_right(times, item.end)
        start = bisect_right(times, item.floor, 0, stop)
        if window_s:
            start = bisect_right(times, item.end - window_s, start, stop)
        if window_n:
            start = max(start, stop - window_n)
        return list(range(start, stop)) if mine is None else mine[0][start:stop]

    def _mine(self, group: str) -> tuple[list[int], list[float]] | None:
        """Samples of a group and of none, and their times; None for all. Worked out once: rules ask at every sample."""
        if not group or not len(self):
            return None
        found = self.mine.get(group)
        if found is None:
            at = [i for i in range(len(self)) if self.group(i) in ("", group)]
            found = self.mine[group] = (at, [self.times[i] for i in at])
        return found


EMPTY = Track("", (), (), lambda _: (Ref(0, 0, 0), ""), lambda _: "", lambda _: 0)


@dataclass
class View:
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

    # --- spans ------------------------------------------------------------------------------------------------
    @cached_property
    def _spans(self) -> dict[str, list[Item]]:
        if self.recent is not None and self.clip is not None:
            since = on_own_axes(self.clip[0], self.shifts)
            recent = {kind: self.recent.spans(kind, since) for kind in self.recent.kinds}
            spans = {kind: self._items(held) for kind, held in recent.items()}
            if UPDATE in recent:
                spans[UPDATE] = sorted((*spans[UPDATE], *in_flight(recent[UPDATE], self)), key=_BY_START)
            for kind, opened in still_open(self, spans).items():
                spans[kind] = sorted((*spans.get(kind, ()), *opened), key=_BY_START)
            return spans
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
        items.sort(key=_BY_START)
        return items

    @cached_property
    def _ends(self) -> dict[str, list[float]]:
        """For each kind the running maximum of ends: where to stop looking back for overlaps."""
        return {kind: list(accumulate(map(_END, items), max)) for kind, items in self._spans.items()}

    @cached_property
    def _starts(self) -> dict[str, list[float]]:
        return {kind: [item.start for item in items] for kind, items in self._spans.items()}

    def overlapping(self, kind: str, start: float, end: float) -> list[Item]:
        """Spans of a kind that share time with start..end."""
        items = self.spans(kind)
        if not items:
            return []
        stop = bisect_left(self._starts[kind], end)
        first = bisect_right(self._ends[kind], start, 0, stop)
        return [item for item in items[first:stop] if item.end > start]

    @cached_property
    def begun(self) -> Mapping[str, Sequence[float]]:
        """When spans began that have not ended, by kind."""
        return begun(self)

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
    def rhythms(self) -> dict[tuple[str, str, int, int], tuple[float, float]]:
        """Likewise for the steps up to a moment: see `perfmon.rules.conditions.advances`."""
        return {}

    @cached_property
    def streams(self) -> dict[tuple[str, Sequence[str]], Streams]:
        """Likewise for what they are one of."""
        return {}

    # --- samples ----------------------------------------------------------------------------------------------
    @cached_property
    def metrics(self) -> dict[str, Track]:
        """Every metric's track."""
        grouped: dict[str, list[Series]] = {}
        for (metric, _), series in self.store.series.items():
            grouped.setdefault(metric, []).append(series)
        tracks = {metric: self._track(metric, held) for metric, held in grouped.items()}
        for metric in UPDATE_METRICS:
            track = self._update_track(metric)
            if len(track):
                tracks[metric] = track
        return {metric: track for metric, track in tracks.items() if len(track)}

    def track(self, metric: str) -> Track:
        """One metric's samples, an empty track when there are none."""
        return self._judged.get(metric, EMPTY)

    @cached_property
    def _judged(self) -> Mapping[str, Track]:
        """The tracks without what a log and a poller both tell."""
        twice = self._twice
        return self.metrics if twice is None else {name: twice.once(track) for name, track in self.metrics.items()}

    @cached_property
    def _twice(self) -> ToldTwice | None:
        return told_twice(self)

    def tells_apart(self, metric: str, group: str) -> bool:
        """Whether a metric is told of this group."""
        if (metric, group) in self.store.series:
            return True
        return self._twice is not None and metric in self._judged and (metric, group) in self._twice.given

    @cached_property
    def marks(self) -> dict[str, Track]:
        """Every mark's track; the values are counts."""
        grouped: dict[str, list[Series]] = {}
        for (name, _), series in self.store.marks.items():
            grouped.setdefault(name, []).append(series)
        tracks = {name: self._track(name, held) for name, held in grouped.items()}
        twice = self._twice
        return tracks if twice is None else {name: twice.once(track) for name, track in tracks.items()}

    @cached_property
    def steps(self) -> dict[str, Track]:
        """Progress by component; the values are step numbers."""
        return {component: self._track("step", [series]) for component, series in self.store.steps.items()}

    def _track(self, metric: str, held: list[Series]) -> Track:
        if len(held) == 1 and not self.shifts and self.clip is None and _ascending(held[0].times):
            only = held[0]
            return Track(
                metric,
                only.times,
                only.values,
                lambda at: (only.ref(at), only.text(at)),
                lambda _: only.group,
                lambda at: only.sources[at],
            )
        low, high = self.clip or (float("-inf"), float("inf"))
        if len(held) == 1 and held[0].steady():
            return self._cut_track(metric, held[0], low, high)
        earlier: Counter[object] = Counter()
        rows: list[tuple[float, int, int, str, int, int]] = []
        for place, series in enumerate(held):
            if not series:
                continue
            first, stop, shift = 0, len(series), 0.0
            if series.steady():
                shift = self.shifts.get(series.sources[0], 0.0)
                first, stop = bisect_left(series.times, low - shift), bisect_right(series.times, high - shift)
                if first:
                    earlier[series.sources[0], series.group] += first
                if not shift:
                    told = series.times[first:stop], series.sources[first:stop], series.offsets[first:stop]
                    rows += zip(*told, repeat(series.group), repeat(place), range(first, stop))
                    continue
            for at in range(first, stop):
                moved = series.times[at] + self.shifts.get(series.sources[at], 0.0)
                if low <= moved <= high:
                    rows.append((moved, series.sources[at], series.offsets[at], series.group, place, at))
                elif moved < low:
                    earlier[series.sources[at], series.group] += 1
        rows.sort()
        return Track(
            metric,
            [row[0] for row in rows],
            [held[place].values[at] for _, _, _, _, place, at in rows],
            lambda i: (held[rows[i][4]].ref(rows[i][5]), held[rows[i][4]].text(rows[i][5])),
            lambda i: rows[i][3],
            lambda i: rows[i][1],
            earlier,
        )

    def _cut_track(self, metric: str, only: Series, low: float, high: float) -> Track:
        """The samples of low..high of a metric that has one series, in order already: nothing else is looked at."""
        shift = self.shifts.get(only.sources[0], 0.0) if only else 0.0
        first, stop = bisect_left(only.times, low - shift), bisect_right(only.times, high - shift)
        times: Sequence[float] = only.times[first:stop]
        return Track(
            metric,
            [time + shift for time in times] if shift else times,
            only.values[first:stop],
            lambda at: (only.ref(first + at), only.text(first + at)),
            lambda _: only.group,
            lambda at: only.sources[first + at],
            {(only.sources[0], only.group): first} if first else {},
        )

    @cached_property
    def _ended(self) -> tuple[list[int], list[Item], list[float]]:
        """Places of the weight updates by their ends, which is when a line told their durations; they, and the ends."""
        spans = self.spans(UPDATE)
        order = sorted(range(len(spans)), key=list(map(_BY_END, spans)).__getitem__)
        items = [spans[at] for at in order]
        return order, items, [item.end for item in items]

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

    # --- silence ----------------------------------------------------------------------------------------------
    @cached_property
    def quiet_logs(self) -> list[Quiet]:
        """Stretches without a line, log by log."""
        return quiet_logs(self)

    @cached_property
    def apart(self) -> list[Window]:
        """The time between different runs."""
        return apart(self) if self.timed else []

    @cached_property
    def restarts(self) -> list[Restart]:
        """Where a later run begins in the same logs."""
        return restarts(self, silences(self)) if self.timed and self.store.steps else []

    @cached_property
    def observed_s(self) -> float:
        """Seconds of the window but for those between different runs."""
        return length(without([self.window], self.apart)) if self.window[1] > self.window[0] else 0.0

    @cached_property
    def dark(self) -> list[Window]:
        """Stretches in which no log printed a line, whatever the cause."""
        return dark_run(self)

    @cached_property
    def quiet_run(self) -> list[Quiet]:
        """Stretches in which no log printed a line."""
        return quiet_run(self)


def tells_of(store: Store, names: Sequence[str]) -> bool:
    """Whether any span, metric or mark of these names is in a store."""
    told = any(store.spans.get(name) or (name == UPDATE and store.updates) for name in names)
    return told or any(name in names for name, _ in (*store.series, *store.marks) if names)


def value_of(kind: str, metric: str) -> Callable[[Span], float | None]:
    """What gives `values_of(span).get(metric)` of spans of a kind, without all their other values."""
    if kind != UPDATE:
        name, scale = SPAN_METRICS.get(kind, ("duration_s", 1.0))
        if metric != name:
            return lambda _: None
        return lambda span: None if span.duration_s is None else span.duration_s * scale
    if metric in ("queue_ms", "wall_ms"):
        return attrgetter(metric)
    name, _, op = metric.partition(".")
    if name != "rpc_ms" or op == _USUAL_OP:
        return lambda _: None
    wanted = op or _USUAL_OP
    return lambda update: update.rpc_ms if update.op == wanted else None  # type: ignore[attr-defined]  # an Update


def values_of(span: Span) -> dict[str, float]:
    """What a span lasted, as a metric; of an update the durations that it has."""
    if span.__class__ is Update:
        return update_values(span)
    if span.duration_s is None:
        return {}
    name, scale = SPAN_METRICS.get(span.kind, ("duration_s", 1.0))
    return {name: span.duration_s * scale}


def update_values(update: Update) -> dict[str, float]:
    """Durations of an update as metrics; a reload's RPC is a metric of its own."""
    values: dict[str, float] = {}
    if update.queue_ms is not None:
        values["queue_ms"] = update.queue_ms
    if update.rpc_ms is not None:
        values["rpc_ms" if update.op == _USUAL_OP else f"rpc_ms.{update.op}"] = update.rpc_ms
    if update.wall_ms is not None:
        values["wall_ms"] = update.wall_ms
    return values


def _ascending(values: Sequence[float]) -> bool:
    before = float("-inf")
    for value in values:
        if value < before:
            return False
        before = value
    return True
