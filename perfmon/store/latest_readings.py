"""Latest readings of every GPU, host and queue, with a little history, for panes.

They are the readings that are judged and recorded, so a replay shows the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from perfmon.sources.pollers import Area, PolledBlock, Reading

HISTORY = 120
"""Polls that are remembered of every value."""
_GAPS = 3
"""Waits that tell how often a thing is polled: the shortest of them, for an outage is none."""
_MOST = 4096
"""Things that are remembered: those that were not heard of for longest are forgotten first."""
_TOGETHER_S = 60.0
"""So long what one poller said of a process is shown beside what another one says: it may have left the GPU."""
_YOUNGER_S = 5.0
_NOTHING = Reading(Area.VALUE, "")


@dataclass(frozen=True, slots=True)
class Seen:
    """One thing as it was polled last."""

    host: str
    reading: Reading
    at: float
    """When: seconds by the clock that the caller gave."""
    history: Mapping[str, tuple[float, ...]]
    """The last values by name, oldest first; at most HISTORY of each."""
    every_s: float | None = None
    """Seconds from one reading of it to the next, as it was lately; None before the second one."""


class _Teller:
    """One poller that tells of a thing, and what it told last."""

    __slots__ = ("at", "gaps", "reading", "source")

    def __init__(self, reading: Reading, at: float, source: int) -> None:
        self.reading, self.at, self.source = reading, at, source
        self.gaps: deque[float] = deque(maxlen=_GAPS)


class _Thing:
    __slots__ = ("history", "tellers")

    def __init__(self) -> None:
        self.tellers: dict[str, _Teller] = {}
        """What they look at → who tells of it; the newest comes last."""
        self.history: dict[str, deque[float]] = {}

    def take(self, reading: Reading, at: float, source: int) -> None:
        told_of = "gpu" if reading.area is Area.PROCESS and "gpu" in reading.words else ""
        if _younger(reading, self.tellers.get(told_of)):
            self.tellers, self.history = {}, {}
        teller = self.tellers.pop(told_of, None) or _Teller(reading, at, source)
        if at > teller.at:
            teller.gaps.append(at - teller.at)
        teller.reading, teller.at, teller.source = reading, at, source
        self.tellers = {key: other for key, other in self.tellers.items() if at - other.at <= _TOGETHER_S}
        self.tellers[told_of] = teller
        for key, value in reading.values.items():
            self.history.setdefault(key, deque(maxlen=HISTORY)).append(value)

    @property
    def newest(self) -> _Teller:
        return next(reversed(self.tellers.values()))

    @property
    def reading(self) -> Reading:
        """The readings of all pollers as one; of the same value the newest."""
        if len(self.tellers) == 1:
            return self.newest.reading
        values: dict[str, float] = {}
        words: dict[str, str] = {}
        for teller in self.tellers.values():
            values.update(teller.reading.values)
            words.update(teller.reading.words)
        if not self.tellers:
            return _NOTHING
        commands = (teller.reading.words.get("command", "") for teller in self.tellers.values())
        if command := max(commands, key=lambda text: (len(text), text)):
            words["command"] = command
        newest = self.newest.reading
        return Reading(newest.area, newest.name, values, words)

    @property
    def every_s(self) -> float | None:
        return min((gap for teller in self.tellers.values() for gap in teller.gaps), default=None)


def _younger(reading: Reading, before: _Teller | None) -> bool:
    """Return True if a process is younger than before: its number was given to another one."""
    then = None if before is None else before.reading.values.get("uptime_s")
    now = reading.values.get("uptime_s")
    return then is not None and now is not None and now < then - _YOUNGER_S


class LatestReadings:
    """All things that pollers spoke of."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with every reading."""
        self._things: dict[tuple[str, Area, str], _Thing] = {}

    def hear(self, block: PolledBlock, source: int) -> None:
        """Take in the readings of a poller, whose log has this number."""
        for reading in block.readings if block.at is not None else ():
            if reading is not None:
                self.take(block.host, reading, block.at or 0.0, source)

    def take(self, host: str, reading: Reading, at: float, source: int = 0) -> None:
        """One reading, at a moment of the clock of its log."""
        key = (host, reading.area, reading.name)
        thing = self._things.pop(key, None) or _Thing()
        self._things[key] = thing
        thing.take(reading, at, source)
        self.version += 1
        if len(self._things) > _MOST:
            del self._things[next(iter(self._things))]

    def seen(self, area: Area | None = None, shifts: Mapping[int, float] | None = None) -> tuple[Seen, ...]:
        """Return the latest readings, of one kind or all, by host and name; `shifts` by log are added to the times."""
        shifts = shifts or {}
        return tuple(
            Seen(
                host,
                thing.reading,
                thing.newest.at + shifts.get(thing.newest.source, 0.0),
                {key: tuple(values) for key, values in thing.history.items()},
                thing.every_s,
            )
            for (host, kind, _), thing in sorted(self._things.items(), key=_place)
            if area is None or kind is area
        )


def _place(item: tuple[tuple[str, Area, str], _Thing]) -> tuple[str, str, int, str]:
    """By host and kind; numbers by their value."""
    host, area, name = item[0]
    return host, area, int(name) if name.isascii() and name.isdigit() and len(name) < 18 else -1, name
