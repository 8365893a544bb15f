"""All samples of a metric in time order, whatever logs and groups they come from."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from perfmon.model import Ref
from perfmon.series import Series

from .columns import Column
from .items import Item


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
