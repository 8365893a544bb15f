"""The data of a run as rules read it: items, tracks of samples, columns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from perfmon.core import LEGS, Fields, Ref, Span, Update
from perfmon.store import Series

# --- What signatures judge: spans, samples and silences as items, their values, and what they follow ---

UPDATE = "weight-update"
SENT, RECEIVED, CALLED, RPC_DONE, DONE = (1 << at for at in range(len(LEGS)))
"""The bits of `Update.legs`."""
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
"""Kinds of spans of which a start is made up, of any format."""
UPDATE_METRICS = ("queue_ms", "rpc_ms", "rpc_ms.reload_weights", "wall_ms")


@dataclass(slots=True)
class Item:
    """Something that a signature judges."""

    start: float
    end: float
    own_values: Mapping[str, float] | None
    """Its values by metric; None for those of its span, which are rarely needed."""
    fields: Fields
    refs: Sequence[tuple[Ref, str]]
    group: str = ""
    key: str = ""
    source: int = 0
    span: Span | None = None
    stream: object = ""
    """The stream it belongs to: neighbours in time are items of the same stream."""
    at: int = 0
    """Its place in the stream."""
    floor: float = float("-inf")
    """Time of the last item of its stream that is not judged: windows do not reach behind it."""

    @property
    def values(self) -> Mapping[str, float]:
        """By metric."""
        if self.own_values is None:
            self.own_values = {} if self.span is None else values_of(self.span)
        return self.own_values


@dataclass(slots=True)
class Stream:
    """Items that follow one another by their starts: updates of one server, samples of one log and group."""

    starts: list[float] = field(default_factory=list)
    first: float = 0.0
    """End of the first item."""
    last: float = 0.0
    """End of the last one."""

    def add(self, start: float, end: float) -> int:
        """Counts an item; returns its place."""
        if not self.starts:
            self.first = end
        self.last = end
        self.starts.append(start)
        return len(self.starts) - 1

    def count_after(self, end: float, at: int) -> int:
        """The number of items behind place `at` that had not begun before `end`: others cover the time before it."""
        return len(self.starts) - max(at + 1, bisect_left(self.starts, end))

    @property
    def interval(self) -> float:
        """Mean seconds between items; 0 for a single one."""
        return (self.last - self.first) / (len(self.starts) - 1) if len(self.starts) > 1 else 0.0


def values_of(span: Span) -> dict[str, float]:
    """The duration of a span as a metric; of an update those of its phases."""
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


# --- Samples in time order ---

_BLOCK = 256


class Column:
    """Times and values of some samples of a metric."""

    def __init__(self, times: Sequence[float], values: Sequence[float]) -> None:
        self.times, self.values = times, values

    @cached_property
    def _peaks(self) -> list[float]:
        return [max(self.values[at : at + _BLOCK]) for at in range(0, len(self.values), _BLOCK)]

    def largest(self, start: int, stop: int) -> float:
        """The largest value of start..stop, `stop` not included, which is not empty.

        Windows of an hour, needed at each of their samples, would take as long as the square of their number.
        """
        first, last = -(-start // _BLOCK), stop // _BLOCK
        values = self.values
        if last - first < 2:
            return max(values[start:stop])
        return max(*values[start : first * _BLOCK], *self._peaks[first:last], *values[last * _BLOCK : stop])

    def place(self, time: float, value: float) -> int:
        """The index of a sample of this time; of several of one time the last one that has the value, else the last.

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


@dataclass
class Track:
    """All samples of a metric in time order."""

    metric: str
    times: Sequence[float]
    values: Sequence[float]
    ref: Callable[[int], tuple[Ref, str]]
    keys: Sequence[tuple[int, str]]
    """The log and the group of each."""
    earlier: Mapping[object, int] = field(default_factory=dict)
    """Samples of each (log, group) that lie before what is evaluated."""
    _columns: dict[str, Column] = field(default_factory=dict)
    _firsts: dict[float, float | None] = field(default_factory=dict)

    def first_above(self, limit: float) -> float | None:
        """Time of the first sample above a limit; -inf where the window holds not all of them, None where none is."""
        if limit not in self._firsts:
            first = next((time for time, value in zip(self.times, self.values, strict=True) if value > limit), None)
            self._firsts[limit] = -inf if first is not None and any(self.earlier.values()) else first
        return self._firsts[limit]

    def __len__(self) -> int:
        return len(self.values)

    def source(self, at: int) -> int:
        """The log of a sample."""
        return self.keys[at][0]

    def group(self, at: int) -> str:
        """The group of a sample."""
        return self.keys[at][1]

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

    @cached_property
    def streams(self) -> dict[tuple[int, str], Column]:
        """The samples of each log and group."""
        rows: dict[tuple[int, str], tuple[list[float], list[float]]] = {}
        for key, time, value in zip(self.keys, self.times, self.values, strict=True):
            times, values = rows.setdefault(key, ([], []))
            times.append(time)
            values.append(value)
        return {key: Column(*row) for key, row in rows.items()}

    def stream(self, source: int, group: str) -> Column:
        """Samples of one log and group, and of no other."""
        return self.streams.get((source, group), _NOTHING)

    def column(self, group: str) -> Column:
        """Samples of a group and of none; those of all for "". Derived once: rules need it at every sample."""
        if group not in self._columns:
            places: Iterable[int] = range(len(self.keys))
            if group:
                own, bare = self._places.get(group, []), self._places.get("", [])
                places = sorted(own + bare) if own and bare else own or bare
            self._columns[group] = Column([self.times[at] for at in places], [self.values[at] for at in places])
        return self._columns[group]

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """Indexes of the samples of each group: a run of thousands of engines has as many."""
        places: dict[str, list[int]] = {}
        for at, (_, group) in enumerate(self.keys):
            places.setdefault(group, []).append(at)
        return places


_NOTHING = Column((), ())
EMPTY = Track("", (), (), lambda _: (Ref(0, 0, 0), ""), ())


def merged(metric: str, held: Sequence[Series], shifts: Mapping[int, float], clip: tuple[float, float] | None) -> Track:
    """All series of a metric on the run's axis, `shifts` added to those of each log; only what lies within `clip`."""
    low, high = clip or (-inf, inf)
    if len(held) == 1 and len(held[0]) and held[0].steady() and not shifts.get(held[0].sources[0]):  # nearly all
        return _as_it_is(metric, held[0], low, high)
    earlier: Counter[object] = Counter()
    rows: list[tuple[float, int, int, str, int, int]] = []
    for place, series in enumerate(held):
        first, stop = 0, len(series)
        if stop and series.steady():  # in order, and of one log: of days of samples only those of the window
            source = series.sources[0]
            shift = shifts.get(source, 0.0)
            first, stop = bisect_left(series.times, low - shift), bisect_right(series.times, high - shift)
            earlier[source, series.group] += first
        for at, time, source, offset in zip(
            range(first, stop), series.times[first:stop], series.sources[first:stop], series.offsets[first:stop],
            strict=True,
        ):  # fmt: skip
            moved = time + shifts.get(source, 0.0)
            if low <= moved <= high:
                rows.append((moved, source, offset, series.group, place, at))
            elif moved < low:
                earlier[source, series.group] += 1
    rows.sort()
    return Track(
        metric,
        [row[0] for row in rows],
        [held[place].values[at] for _, _, _, _, place, at in rows],
        lambda i: (held[rows[i][4]].ref(rows[i][5]), held[rows[i][4]].text(rows[i][5])),
        [(source, group) for _, source, _, group, _, _ in rows],
        earlier,
    )


def _as_it_is(metric: str, series: Series, low: float, high: float) -> Track:
    """The samples of one log, which are in order and on the run's axis."""
    first, stop = bisect_left(series.times, low), bisect_right(series.times, high)
    source, group = series.sources[0], series.group
    return Track(
        metric,
        series.times[first:stop].tolist(),
        series.values[first:stop].tolist(),
        lambda i: (series.ref(first + i), series.text(first + i)),
        [(source, group)] * (stop - first),
        {(source, group): first},
    )
