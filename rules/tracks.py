"""The data of a run as rules read it: items, tracks of samples, columns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import attrgetter

from perfmon.core import Fields, Ref, Span, Update
from perfmon.store import Series

# --- What signatures judge: spans, samples and silences as items, their values, and what they follow ---

UPDATE = "weight-update"
START_KINDS = frozenset(
    (
        "shards", "files", "graphs", "model-load", "compile", "graph-capture", "engine-init", "download",
        "data-prepare", "checkpoint-load", "samples",
    )
)  # fmt: skip
"""Progress of a run that starts: no work of its own."""
_USUAL_OP = "update_weights"
"""Its RPC is `rpc_ms`; that of another operation is a metric of its own."""
SPAN_METRICS = {
    "checkpoint-write": ("write_ms", 1000.0),
    "checkpoint-wait": ("wait_ms", 1000.0),
    "generation-batch": ("dur_ms", 1000.0),
    "policy-wait": ("policy_wait_s", 1.0),
    "batch-wait": ("batch_wait_s", 1.0),
    "weight-sync": ("weight_sync_s", 1.0),
}
"""The metric that the duration of a span is, and its units per second."""
START_SPANS = (
    "model-load", "compile", "graph-capture", "engine-init", "download", "data-prepare", "checkpoint-load",
)  # fmt: skip
"""Kinds of spans of which a start is made up, whichever format tells of them."""
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


# --- Samples in time order, of which stretches are asked for again and again: the windows of neighbours overlap ---

_BLOCK = 256


class Column:
    """Times and values of some samples of a metric, and where those stand in its track (None: all of it)."""

    __slots__ = ("_peaks", "places", "times", "values")

    def __init__(self, times: Sequence[float], values: Sequence[float], places: Sequence[int] | None = None) -> None:
        self.times, self.values, self.places = times, values, places
        self._peaks: list[float] | None = None

    def largest(self, start: int, stop: int) -> float:
        """The largest value of start..stop, `stop` not included, which is not empty.

        Windows of an hour, asked for at each of their samples, would take as long as the square of their number.
        """
        first, last = -(-start // _BLOCK), stop // _BLOCK
        values = self.values
        if last - first < 2:
            return max(values[start:stop])
        if self._peaks is None:
            self._peaks = [max(values[at : at + _BLOCK]) for at in range(0, len(values), _BLOCK)]
        return max(*values[start : first * _BLOCK], *self._peaks[first:last], *values[last * _BLOCK : stop])

    def place(self, time: float, value: float) -> int:
        """Where a sample of this time stands; of several of one time the last one that has the value, else the last.

        -1 where none is that old.
        """
        last = at = bisect_right(self.times, time) - 1
        while at >= 0 and self.times[at] == time:
            if self.values[at] == value:
                return at
            at -= 1
        return last

    def __len__(self) -> int:
        return len(self.values)


# --- All samples of a metric in time order, whatever logs and groups they come from ---


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
    columns: dict[str, Column] = field(default_factory=dict)
    streams: dict[tuple[int, str], Column] = field(default_factory=dict)
    """Likewise of one log and group."""
    only: tuple[int, str] | None = None
    """The log and group of all samples, where it is known that they are of one."""

    def __len__(self) -> int:
        return len(self.values)

    def between(self, start: float, end: float) -> tuple[int, int]:
        """Index range of the samples in start..end, both included."""
        return bisect_left(self.times, start), bisect_right(self.times, end)

    def window(self, item: Item, window_n: int, window_s: float) -> tuple[Column, int, int]:
        """Samples of the item's group up to its end and above its floor: the last `window_n` of `window_s` seconds.

        0 for either: without that limit. The samples start..stop of a column, `stop` not included.
        """
        column = self.column(item.group)
        times = column.times
        stop = bisect_right(times, item.end)
        start = bisect_right(times, item.floor, 0, stop)
        if window_s:
            start = bisect_right(times, item.end - window_s, start, stop)
        return column, max(start, stop - window_n) if window_n else start, stop

    def stream(self, source: int, group: str) -> Column:
        """Samples of one log and group, and of no other. Worked out once."""
        if self.only is not None:
            return self.column("") if self.only == (source, group) else _NOTHING
        if not self.streams:
            places: dict[tuple[int, str], list[int]] = {}
            for at in range(len(self)):
                places.setdefault((self.source(at), self.group(at)), []).append(at)
            for key, mine in places.items():
                self.streams[key] = Column([self.times[at] for at in mine], [self.values[at] for at in mine], mine)
        return self.streams.get((source, group), _NOTHING)

    def column(self, group: str) -> Column:
        """Samples of a group and of none; those of all for "". Worked out once: rules ask at every sample."""
        found = self.columns.get(group)
        if found is None:
            if group:
                places = [at for at in range(len(self)) if self.group(at) in ("", group)]
                times, values = [self.times[at] for at in places], [self.values[at] for at in places]
                found = Column(times, values, places)
            else:
                found = Column(self.times, self.values)
            self.columns[group] = found
        return found


_NOTHING = Column((), ())
EMPTY = Track("", (), (), lambda _: (Ref(0, 0, 0), ""), lambda _: "", lambda _: 0)


def merged(metric: str, held: Sequence[Series], shifts: Mapping[int, float], clip: tuple[float, float] | None) -> Track:
    """All series of a metric on the run's axis, `shifts` added to those of each log; only what lies within `clip`."""
    if len(held) == 1 and not shifts and clip is None and _ascending(held[0].times):
        only = held[0]
        return Track(
            metric,
            only.times,
            only.values,
            lambda at: (only.ref(at), only.text(at)),
            lambda _: only.group,
            lambda at: only.sources[at],
            only=(only.sources[0], only.group) if only and only.steady() else None,
        )
    low, high = clip or (float("-inf"), float("inf"))
    if len(held) == 1 and held[0].steady():
        return _cut(metric, held[0], shifts.get(held[0].sources[0], 0.0) if held[0] else 0.0, low, high)
    earlier: Counter[object] = Counter()
    rows: list[tuple[float, int, int, str, int, int]] = []
    for place, series in enumerate(held):
        if not series:
            continue
        first, stop, shift = 0, len(series), 0.0
        if series.steady():
            shift = shifts.get(series.sources[0], 0.0)
            first, stop = bisect_left(series.times, low - shift), bisect_right(series.times, high - shift)
            if first:
                earlier[series.sources[0], series.group] += first
            if not shift:
                told = series.times[first:stop], series.sources[first:stop], series.offsets[first:stop]
                rows += zip(*told, repeat(series.group), repeat(place), range(first, stop))
                continue
        for at in range(first, stop):
            moved = series.times[at] + shifts.get(series.sources[at], 0.0)
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


def _cut(metric: str, only: Series, shift: float, low: float, high: float) -> Track:
    """The samples of low..high of a metric that has one series, in order already: nothing else is looked at."""
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
        only=(only.sources[0], only.group) if only else None,
    )


def _ascending(values: Sequence[float]) -> bool:
    before = float("-inf")
    for value in values:
        if value < before:
            return False
        before = value
    return True
