"""Latest readings of every GPU, host and queue, with a little history, for panes.

They are the readings that are judged and recorded, so a replay shows the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from perfmon.sources.pollers import Area, PolledBlock, Reading

from .store import Series, Store

HISTORY = 120
"""Length of the history of every value."""
_GAPS = 3
"""Waits that define the interval of an entity: the shortest of them, as an outage is none."""
_MOST = 4096
"""Most entities; those without readings for longest are dropped first."""
_TOGETHER_S = 60.0
"""Time for which readings of a process by several pollers are combined: it may have left the GPU."""
_YOUNGER_S = 5.0
_NOTHING = Reading(Area.VALUE, "")


@dataclass(frozen=True, slots=True)
class Seen:
    """The latest reading of one entity."""

    host: str
    reading: Reading
    at: float
    """Time of the reading: seconds by the clock that the caller gave."""
    history: Mapping[str, tuple[float, ...]]
    """The last values by name, oldest first; at most HISTORY of each."""
    every_s: float | None = None
    """Seconds from one reading of it to the next, as it was lately; None before the second one."""


class _Reporter:
    """A poller of an entity, and its latest reading."""

    __slots__ = ("at", "gaps", "reading", "source")

    def __init__(self, reading: Reading, at: float, source: int) -> None:
        self.reading, self.at, self.source = reading, at, source
        self.gaps: deque[float] = deque(maxlen=_GAPS)


class _Entity:
    __slots__ = ("history", "reporters")

    def __init__(self) -> None:
        self.reporters: dict[str, _Reporter] = {}
        """Pollers by the device that they read; the newest comes last."""
        self.history: dict[str, deque[float]] = {}

    def take(self, reading: Reading, at: float, source: int) -> None:
        device = "gpu" if reading.area is Area.PROCESS and "gpu" in reading.words else ""
        if _younger(reading, self.reporters.get(device)):
            self.reporters, self.history = {}, {}
        reporter = self.reporters.pop(device, None) or _Reporter(reading, at, source)
        if at > reporter.at:
            reporter.gaps.append(at - reporter.at)
        reporter.reading, reporter.at, reporter.source = reading, at, source
        self.reporters = {key: other for key, other in self.reporters.items() if at - other.at <= _TOGETHER_S}
        self.reporters[device] = reporter
        for key, value in reading.values.items():
            self.history.setdefault(key, deque(maxlen=HISTORY)).append(value)

    @property
    def newest(self) -> _Reporter:
        return next(reversed(self.reporters.values()))

    @property
    def reading(self) -> Reading:
        """The readings of all pollers as one; of the same value the newest."""
        if len(self.reporters) == 1:
            return self.newest.reading
        values: dict[str, float] = {}
        words: dict[str, str] = {}
        for reporter in self.reporters.values():
            values.update(reporter.reading.values)
            words.update(reporter.reading.words)
        if not self.reporters:
            return _NOTHING
        commands = (reporter.reading.words.get("command", "") for reporter in self.reporters.values())
        if command := max(commands, key=lambda text: (len(text), text)):
            words["command"] = command
        newest = self.newest.reading
        return Reading(newest.area, newest.name, values, words)

    @property
    def every_s(self) -> float | None:
        return min((gap for reporter in self.reporters.values() for gap in reporter.gaps), default=None)


def _younger(reading: Reading, before: _Reporter | None) -> bool:
    """Return True if a process is younger than before: its number was given to another one."""
    then = None if before is None else before.reading.values.get("uptime_s")
    now = reading.values.get("uptime_s")
    return then is not None and now is not None and now < then - _YOUNGER_S


class LatestReadings:
    """The latest readings of all entities."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with every reading."""
        self._entities: dict[tuple[str, Area, str], _Entity] = {}

    def ingest(self, block: PolledBlock, source: int) -> None:
        """Take in the readings of a poller, whose log has this number."""
        for reading in block.readings if block.at is not None else ():
            if reading is not None:
                self.take(block.host, reading, block.at or 0.0, source)

    def take(self, host: str, reading: Reading, at: float, source: int = 0) -> None:
        """One reading, at a moment of the clock of its log."""
        key = (host, reading.area, reading.name)
        entity = self._entities.pop(key, None) or _Entity()
        self._entities[key] = entity
        entity.take(reading, at, source)
        self.version += 1
        if len(self._entities) > _MOST:
            del self._entities[next(iter(self._entities))]

    def seen(self, area: Area | None = None, shifts: Mapping[int, float] | None = None) -> tuple[Seen, ...]:
        """Return the latest readings, of one kind or all, by host and name; `shifts` by log are added to the times."""
        shifts = shifts or {}
        return tuple(
            Seen(
                host,
                entity.reading,
                entity.newest.at + shifts.get(entity.newest.source, 0.0),
                {key: tuple(values) for key, values in entity.history.items()},
                entity.every_s,
            )
            for (host, kind, _), entity in sorted(self._entities.items(), key=_place)
            if area is None or kind is area
        )


def _place(item: tuple[tuple[str, Area, str], _Entity]) -> tuple[str, str, int, str]:
    """By host and kind; numbers by their value."""
    host, area, name = item[0]
    return host, area, int(name) if name.isascii() and name.isdigit() and len(name) < 18 else -1, name


# --- Queues that logs report, as if they had been polled ---

_OF_QUEUES: Mapping[str, str] = {
    "queue_size": "depth",
    "queue_fill": "fill_pct",
    "queue_empty_share": "empty_pct",
    "put_per_s": "put_per_s",
    "get_per_s": "get_per_s",
    "put_wait_share": "put_wait_pct",
    "get_wait_share": "get_wait_pct",
    "produced_per_s": "put_per_s",
    "consumed_per_s": "get_per_s",
}
"""Values of a reading by the metric that logs have of it."""
_PER_PROCESS = ("produced_per_s", "consumed_per_s")
"""Of each producer or consumer: those of a queue are their sum."""
_UNNAMED = "queue"


def logged_queues(store: Store, host: str, shifts: Mapping[int, float]) -> tuple[Seen, ...]:
    """The latest state of each queue of which logs report something, by name; times as those of `LatestReadings.seen`.

    What logs report of producers and consumers without naming the queue is about the only one there is.
    """
    held: dict[str, list[tuple[str, Series]]] = {}
    for (metric, group), series in store.series.items():
        if metric in _OF_QUEUES and len(series) and not store.sources[series.sources[-1]].polled:
            held.setdefault(_UNNAMED if metric in _PER_PROCESS else group or _UNNAMED, []).append((metric, series))
    if len(held) == 2 and all(metric in _PER_PROCESS for metric, _ in held.get(_UNNAMED, ())):
        of_processes = held.pop(_UNNAMED, [])
        next(iter(held.values())).extend(of_processes)
    return tuple(_logged(name, every, host, shifts) for name, every in sorted(held.items()))


def _logged(name: str, every: Sequence[tuple[str, Series]], host: str, shifts: Mapping[int, float]) -> Seen:
    values: dict[str, float] = {}
    history: dict[str, tuple[float, ...]] = {}
    for metric, series in every:
        key = _OF_QUEUES[metric]
        values[key] = series.values[-1] + (values.get(key, 0.0) if metric in _PER_PROCESS else 0.0)
        history[key] = tuple(series.values[-HISTORY:])
    newest = max((series for _, series in every), key=lambda series: series.times[-1])
    recent = newest.times[-1 - _GAPS :]
    gaps = [after - before for before, after in pairwise(recent) if after > before]
    at = newest.times[-1] + shifts.get(newest.sources[-1], 0.0)
    return Seen(host, Reading(Area.QUEUE, name, values), at, history, min(gaps, default=None))
