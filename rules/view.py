"""The run as the rules see it: tracks of samples, spans and silence on one time axis."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, compress, islice, repeat
from operator import attrgetter, ge

from perfmon.ledger import length, union, without
from perfmon.model import Ref, Span
from perfmon.recent import Recent, on_own_axes
from perfmon.series import Series
from perfmon.store import Store

from .activity import Activity, activity_of, startup_of
from .bands import Bands
from .begun import begun
from .deaths import Death, death_of
from .goals import TimeLimit, Way, limit_of, way_of
from .in_flight import in_flight
from .items import UPDATE, UPDATE_METRICS, Item, Streams, value_of
from .nested import inner_counters
from .productive import held_up, productive_of
from .restarts import Restart, restarts
from .run_state import RunState, finished_at, state_of
from .runs import Boundary, boundaries, downtime_of, pauses_of, run_began, started, wasted_of
from .silence import Quiet, apart, dark_run, logs_of, quiet_logs, silences
from .stalls import Stall, stalls_of
from .still_open import still_open
from .successors import bygone
from .told_twice import ToldTwice, told_twice
from .tracks import EMPTY, Track, merged
from .tries import failed_start, with_tries

Window = tuple[float, float]
_BY_START = attrgetter("start", "end", "key")
_END = attrgetter("end")


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
    def intervals(self) -> dict[tuple[str, int, str], float]:
        """Likewise for the seconds between samples of a metric, log and group: see `perfmon.rules.claims`."""
        return {}

    @cached_property
    def worked_out(self) -> dict[tuple[object, ...], object]:
        """Likewise for what conditions find out about all samples of a metric at once, by condition and group."""
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
        tracks = {metric: merged(metric, held, self.shifts, self.clip) for metric, held in grouped.items()}
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
        tracks = {name: merged(name, held, self.shifts, self.clip) for name, held in grouped.items()}
        twice = self._twice
        return tracks if twice is None else {name: twice.once(track) for name, track in tracks.items()}

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

    # --- silence ----------------------------------------------------------------------------------------------
    @cached_property
    def quiet_logs(self) -> list[Quiet]:
        """Stretches without a line, log by log."""
        return quiet_logs(self)

    @cached_property
    def bygone(self) -> Mapping[int, float]:
        """Logs whose run is over, by index, with the moment at which it was."""
        return bygone(self.store.sources, self.shifts)

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

    # --- progress ---------------------------------------------------------------------------------------------
    @cached_property
    def activity(self) -> Activity:
        """The progress that the logs tell of."""
        return activity_of(self)

    @cached_property
    def inner(self) -> set[int]:
        """The ids of the counters that count within another one."""
        return inner_counters(self.store.progress.counters.values())

    @cached_property
    def way(self) -> Way | None:
        """How far the run is."""
        return way_of(self)

    @cached_property
    def limit(self) -> TimeLimit | None:
        """How long it may last."""
        return limit_of(self)

    @cached_property
    def stalls(self) -> list[Stall]:
        """Where the run stood still."""
        return stalls_of(self)

    @cached_property
    def productive(self) -> list[Window]:
        """The time of which evidence shows that it was spent on progress."""
        return productive_of(self)

    def held_up(self, kind: str) -> list[Window]:
        """The time in which a phase of a kind held up the work."""
        return held_up(kind, self)

    @cached_property
    def startup(self) -> list[Window]:
        """The time before the run got under way."""
        return startup_of(self)

    @cached_property
    def boundaries(self) -> list[Boundary]:
        """Where later runs begin in the same logs."""
        return boundaries(self)

    @cached_property
    def run_began(self) -> float:
        """When the last run in the logs began."""
        return run_began(self)

    @cached_property
    def started(self) -> float:
        """When the start of that began, with the tries of it that failed."""
        return started(self)

    @cached_property
    def downtime(self) -> list[Window]:
        """The time between a run and the one that resumed it."""
        return downtime_of(self)

    @cached_property
    def wasted(self) -> list[Window]:
        """The time in which steps were made again."""
        return wasted_of(self)

    @cached_property
    def interrupted(self) -> list[Window]:
        """The time in which no process was left that could go on, or one made steps again after that."""
        after = [(self.death.time, self.window[1])] if self.death is not None and self.timed else []
        return union([*self.downtime, *self.wasted, *after])

    @cached_property
    def pauses(self) -> list[Window]:
        """The time between runs that lines divide."""
        return pauses_of(self)

    @cached_property
    def death(self) -> Death | None:
        """What the last run in the logs died of."""
        return with_tries(death_of(self), self)

    @cached_property
    def failed_start(self) -> Death | None:
        """What the last start died of, while it is tried once more."""
        return failed_start(self) if self.death is None else None

    @cached_property
    def over_at(self) -> float | None:
        """When the run failed or ended; None where it goes on."""
        return finished_at(self) if self.death is None else self.death.time

    @cached_property
    def state(self) -> RunState:
        """How the run stands."""
        return state_of(self)


def tells_of(store: Store, names: Sequence[str]) -> bool:
    """Whether any span, metric or mark of these names is in a store."""
    told = any(store.spans.get(name) or (name == UPDATE and store.updates) for name in names)
    return told or any(name in names for name, _ in (*store.series, *store.marks) if names)
