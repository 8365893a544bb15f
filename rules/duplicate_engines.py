"""Deduplicates engines that both a log and a poller report; those of several logs with one name stay separate.

No line matches engines of logs and polled ones: they are the same where their values agree at the same times, the most
similar first. Samples of a log while its engine is polled are left out, unless they differ: then they are of another
engine after all, which must not be hidden by a good one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import PurePath
from typing import TYPE_CHECKING

from .tracks import EMPTY, Column, Track

if TYPE_CHECKING:
    from .run_view import RunView

_MEASURES = {"running": 4.0, "kv_usage": 20.0}
"""Metrics to compare engines by, and the level below which a difference means little."""
_ALIKE = 0.25
"""The mean difference, as a share of the larger value, up to which two are one: they are not looked at at once."""
_NEAR_S = 10.0
_MOST_PAIRS, _MOST_ALIKE = 10_000, 20
_FEWEST, _MOST = 2, 20
"""Samples that are compared; of an engine with fewer nothing is known."""

Place = tuple[int, str]
"""Number of a log, and a group in it."""
_Row = tuple[int, str, int]
"""Index of a sample, and the group and the log that it counts for."""


@dataclass(slots=True)
class _Engine:
    place: Place
    measures: dict[str, Column]
    """Its samples of each measure."""

    @property
    def first(self) -> float:
        return min(column.times[0] for column in self.measures.values())

    @property
    def last(self) -> float:
        return max(column.times[-1] for column in self.measures.values())


@dataclass(frozen=True, slots=True)
class DuplicateEngines:
    """The engines of logs and pollers that are the same."""

    polled: Mapping[Place, tuple[Place, float, float]]
    """Engines of logs → the polled one that is the same, and from when to when it was polled."""
    named: Mapping[Place, str]
    """The names of these, and of those that have one that another log uses, too."""
    logs: Mapping[Place, int]
    """Polled engines → number of the log with the same one: the samples of both are one stream."""
    metrics: frozenset[str]
    """Metrics and marks of these engines."""
    given: set[tuple[str, str]] = field(default_factory=set)
    """Metrics and marks with the groups that were renamed."""

    def deduplicate(self, track: Track) -> Track:
        """The track of a metric or mark without duplicates."""
        if track.metric not in self.metrics:
            return track
        rows = list(self._kept(track))
        self.given.update((track.metric, group) for _, group, _ in rows)
        return _picked(track, rows)

    def _kept(self, track: Track) -> Iterator[_Row]:
        polled = track.streams
        least = _MEASURES.get(track.metric, 0.0)
        for at, (place, time) in enumerate(zip(track.keys, track.times, strict=True)):
            name, twin = self.named.get(place, place[1]), self.polled.get(place)
            if twin is None or twin[0] not in polled or not twin[1] - _NEAR_S <= time <= twin[2] + _NEAR_S:
                yield at, name, self.logs.get(place, place[0])
            elif not _same(time, track.values[at], polled[twin[0]], least):
                yield at, place[1] or name, place[0]


def find_duplicate_engines(view: RunView) -> DuplicateEngines | None:
    """The engines that both logs and pollers report; None without any."""
    if not _worth_while(view):
        return None
    engines = _engines(view)
    polled = [engine for engine in engines if _polled(engine.place[1])]
    logged = [engine for engine in engines if not _polled(engine.place[1])]
    twins = _twins(logged, polled) if polled else {}
    named = _named(logged, view)
    for place, (twin, _, _) in twins.items():
        # That of the log stays, for it was there first; without one, that of the poll, where there are others.
        named[place] = named[twin] = named.get(place, place[1]) or (twin[1] if len(polled) > 1 else "")
    if not named:
        return None
    groups = {group for _, group in named}
    names = (name for name, group in (*view.store.series, *view.store.marks) if group in groups)
    logs = {twin: place[0] for place, (twin, _, _) in twins.items()}
    return DuplicateEngines(twins, named, logs, frozenset(names))


# --- who there is -----------------------------------------------------------------------------------------------
def _engines(view: RunView) -> list[_Engine]:
    """Logs and groups that report how many requests run."""
    tracks = {metric: view.metrics.get(metric, EMPTY).streams for metric in _MEASURES}
    return [
        _Engine(place, {metric: streams[place] for metric, streams in tracks.items() if place in streams})
        for place in tracks["running"]
    ]


def _worth_while(view: RunView) -> bool:
    """True where duplicates are possible: most runs are either polled or not, and have engines of different names."""
    held = {
        group: series for (metric, group), series in view.store.series.items() if metric == "running" and len(series)
    }
    polled = [_polled(group) for group in held]
    return any(polled) != all(polled) or any(one.sources.count(one.sources[0]) < len(one) for one in held.values())


def _polled(group: str) -> bool:
    """`host:name` is a name that pollers give: a file of their lines is as good as they are."""
    return ":" in group


# --- who is who -------------------------------------------------------------------------------------------------
def _twins(logged: Sequence[_Engine], polled: Sequence[_Engine]) -> dict[Place, tuple[Place, float, float]]:
    pairs = sorted(
        (distance, _number(one.place[1]) != _number(other.place[1]), one.place, other.place, one, other)
        for one, other in _pairs(logged, polled)
        if (distance := _distance(one, other, only=len(logged) == len(polled) == 1)) <= _ALIKE
    )
    found: dict[Place, tuple[Place, float, float]] = {}
    taken: set[Place] = set()
    for _, _, place, twin, _, other in pairs:
        if place not in found and twin not in taken:
            taken.add(twin)
            found[place] = (twin, other.first, other.last)
    return found


def _pairs(logged: Sequence[_Engine], polled: Sequence[_Engine]) -> Iterator[tuple[_Engine, _Engine]]:
    """Engines to compare: all with all, where they are so many only those with the same number."""
    if len(logged) * len(polled) <= _MOST_PAIRS:
        yield from product(logged, polled)
        return
    numbered: dict[str, list[_Engine]] = {}
    for other in polled:
        numbered.setdefault(_number(other.place[1]), []).append(other)
    for one in logged:
        alike = numbered.get(_number(one.place[1]), [])
        yield from ((one, other) for other in alike[:_MOST_ALIKE])


def _number(group: str) -> str:
    """`000`, `head:gpu-1:8000/0` and `TP0` are all 0."""
    digits = group.rsplit("/", 1)[-1].lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ").lstrip("0")
    return digits or "0"


def _distance(one: _Engine, other: _Engine, only: bool) -> float:
    """The mean difference of their common samples; with too few: none where there are no other engines."""
    found: list[float] = []
    for metric, least in _MEASURES.items():
        if metric in one.measures and metric in other.measures:
            found += _differences(one.measures[metric], other.measures[metric], least)
    if len(found) < _FEWEST:
        return 0.0 if only else 1.0
    return sum(found) / len(found)


def _differences(mine: Column, polled: Column, least: float) -> Iterator[float]:
    stop = bisect_right(mine.times, polled.times[-1] + _NEAR_S)
    rows = slice(max(0, stop - _MOST), stop)
    for time, value in zip(mine.times[rows], mine.values[rows], strict=True):
        near = _near(time, polled)
        if near is not None:
            yield _difference(value, near, least)


def _near(time: float, column: Column) -> float | None:
    """The value that is nearest to a moment."""
    at = bisect_left(column.times, time)
    around = [index for index in (at - 1, at) if 0 <= index < len(column)]
    nearest = min(around, key=lambda index: abs(column.times[index] - time))
    return None if abs(column.times[nearest] - time) > _NEAR_S else column.values[nearest]


def _difference(one: float, other: float, least: float) -> float:
    return abs(one - other) / max(abs(one), abs(other), least, 1e-9)


def _same(time: float, value: float, polled: Column, least: float) -> bool:
    """One of the polls around that moment has about the same value; rates and counts of others are not compared."""
    if not least:
        return True
    first, stop = bisect_left(polled.times, time - _NEAR_S), bisect_right(polled.times, time + _NEAR_S)
    return any(_difference(value, near, least) <= _ALIKE for near in polled.values[first:stop]) or first == stop


def _named(logged: Sequence[_Engine], view: RunView) -> dict[Place, str]:
    """A name with that of its log for engines of several logs at the same time that have one name."""
    groups: dict[str, list[_Engine]] = {}
    for engine in logged:
        groups.setdefault(engine.place[1], []).append(engine)
    return {
        engine.place: _with_log(engine.place, view)
        for engines in groups.values()
        for engine in engines
        if any(other is not engine and other.first < engine.last and engine.first < other.last for other in engines)
    }


def _with_log(place: Place, view: RunView) -> str:
    spec = view.store.sources[place[0]].spec
    return f"{PurePath(spec).name or spec}:{place[1]}".rstrip(":")


# --- tracks -----------------------------------------------------------------------------------------------------
def _picked(track: Track, rows: Sequence[_Row]) -> Track:
    return Track(
        track.metric,
        [track.times[at] for at, _, _ in rows],
        [track.values[at] for at, _, _ in rows],
        lambda at: track.ref(rows[at][0]),
        [(source, name) for _, name, source in rows],
        track.earlier,
    )
