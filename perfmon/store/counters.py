"""Counters of progress: their tracks, leaps and pace."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass

# --- How quickly counters grow by their own clocks: progress bars, and lines that print the time since they began ---

_LONG_ENOUGH_S = 10.0
"""Clocks of bars show whole seconds: over so long a stretch the mean is within a tenth."""
_JUST_BEGUN_S = 1.0
"""Within it a run that was resumed jumps to where it had been: that says nothing about its pace."""

_TRUSTED = 4
"""So many frames in a row that agree make a bar a clock, in a log that has one of its own."""
_MOST = 4096
_ALIKE = 32
"""So many counters of one name are told apart."""
_EPOCH = re.compile(r"\bepochs? (?P<named>\d+)$|^(?P<first>\d+)(?=/\d+$)", re.IGNORECASE)
"""What a counter is called that counts within an epoch: `Epoch 3`, `3/40`."""

Slot = tuple[int, str, str]
"""Log, kind and key of a counter."""


@dataclass(slots=True)
class _Counted:
    amount: float
    elapsed_s: float
    began: float
    """On the axis of its log, at the earliest."""
    now: float
    """What its log had told of when it was shown last."""
    from_amount: float
    from_s: float
    """Where the stretch begins that is measured."""
    frames: int = 1
    """Shown since it began."""
    odd: bool = False
    """Its work went back while its time went on, or the other way round: no clock, whatever it shows."""


class Paces:
    """The counters of all logs that print how long they have counted."""

    def __init__(self) -> None:
        self._counted: dict[Slot, _Counted] = {}
        self._beside: dict[Slot, list[_Counted]] = {}
        """Others of the same name, in the order in which they were shown: trials or ranks that nothing tells apart."""
        self._epochs: dict[Slot, tuple[int, Slot]] = {}
        """The newest of the counters that differ in the number of an epoch alone: its number."""

    def along(self, slot: Slot, amount: float, elapsed_s: float, now: float) -> tuple[float, float | None]:
        """The same in a log whose other lines have a clock: only a counter that behaves like one moves it on."""
        known = self._counted.get(slot)
        odd = known is not None and (known.odd or _contradicts(known, amount, elapsed_s))
        time, pace = self.shown(slot, amount, elapsed_s, now)
        counted = self._counted[slot]
        counted.odd = odd
        return (now, None) if odd else (time, pace) if counted.frames >= _TRUSTED else (now, pace)

    def shown(self, slot: Slot, amount: float, elapsed_s: float, now: float) -> tuple[float, float | None]:
        """A counter shows an amount, that many seconds after it began, when its log has told of time up to `now`.

        Returns up to when the log has told of time now, and the seconds for each one more since a while ago, None
        while that is too short a stretch. Counters of one log may run at the same time, one within the other: their
        times are not added up.
        """
        if len(self._counted) > _MOST:
            self._counted.clear()
            self._beside.clear()
        counted = self._counted_by(slot, amount, elapsed_s)
        before = self._epoch_before(slot) if counted is None else None
        if counted is None or _began_anew(counted, amount, elapsed_s):
            # A bar is drawn as it begins: one that is met late ran beside what the log told of meanwhile.
            began = now if elapsed_s <= _LONG_ENOUGH_S else max(0.0, now - elapsed_s)
            if before is not None:  # nor did it run beside that of the epoch before
                began = max(began, before.began + before.elapsed_s)
            self._counted[slot] = _Counted(amount, elapsed_s, began, now, amount, elapsed_s)
            return max(now, began + elapsed_s), None
        if now < counted.now:  # the clock of the log was set back
            counted.began += now - counted.now
        counted.amount, counted.elapsed_s, counted.now = amount, elapsed_s, now
        counted.frames += 1
        if elapsed_s <= _JUST_BEGUN_S:
            counted.from_amount, counted.from_s = amount, elapsed_s
        pace = None
        passed, grown = elapsed_s - counted.from_s, amount - counted.from_amount
        if passed >= _LONG_ENOUGH_S and grown > 0:
            pace = passed / grown
            counted.from_amount, counted.from_s = amount, elapsed_s
        return max(now, counted.began + elapsed_s), pace

    def _counted_by(self, slot: Slot, amount: float, elapsed_s: float) -> _Counted | None:
        """Identify the counter of a name that is shown: the one that has counted nearly as long, else a new one.

        One that goes back without having just begun is another one.
        """
        shown = self._counted.get(slot)
        if shown is None:
            return None
        beside = self._beside.get(slot, [])
        if not beside and not (_began_anew(shown, amount, elapsed_s) or elapsed_s <= _JUST_BEGUN_S < shown.elapsed_s):
            return shown
        fitting = [
            one for one in (*beside, shown)
            if one.elapsed_s <= elapsed_s and (one.amount < amount or (one is shown and one.amount == amount))
        ]  # fmt: skip
        best = max(fitting, key=lambda one: (one.elapsed_s, one is shown), default=None)
        if best is shown:
            return shown
        beside = [one for one in beside if one is not best]
        self._beside[slot] = [*beside, shown][-_ALIKE:]
        if best is None:
            del self._counted[slot]
        else:
            self._counted[slot] = best
        return best

    def _epoch_before(self, slot: Slot) -> _Counted | None:
        """The counter of the epoch before the one that a new counter names."""
        named = _EPOCH.search(slot[2])
        if named is None:
            return None
        begin, end = named.span("named" if named["named"] else "first")
        family, epoch = (slot[0], slot[1], f"{slot[2][:begin]}#{slot[2][end:]}"), int(slot[2][begin:end])
        if len(self._epochs) > _MOST:
            self._epochs.clear()
        known = self._epochs.get(family)
        self._epochs[family] = (epoch, slot)
        return self._counted.get(known[1]) if known is not None and known[0] == epoch - 1 else None


def _began_anew(counted: _Counted, amount: float, elapsed_s: float) -> bool:
    """Bars of several ranks may share a key: those are a little apart."""
    fell = counted.elapsed_s - elapsed_s
    return fell > _LONG_ENOUGH_S or (fell >= 0.0 and amount < 0.5 * counted.amount)


def _contradicts(counted: _Counted, amount: float, elapsed_s: float) -> bool:
    went_back = amount < 0.5 * counted.amount and elapsed_s >= counted.elapsed_s > _JUST_BEGUN_S
    return went_back or (amount > counted.amount and elapsed_s < counted.elapsed_s - _JUST_BEGUN_S)


_GIVEN_UP = 3


class Tellers:
    """Chooses the kind of line that counts the steps of a log, if several do: their counts may be one apart, or one of
    them only shows every tenth step.
    """

    def __init__(self) -> None:
        self._leading: dict[tuple[int, str], int] = {}
        self._last: dict[tuple[int, str], float] = {}
        self._others: dict[tuple[int, str], set[float]] = {}
        """What others told since the leading one told last."""

    def is_new(self, slot: tuple[int, str], pattern: int, step: float) -> bool:
        """Return True if a line of a pattern shows a step of that log and component that no line has shown."""
        last = self._last.get(slot)
        if last is None or self._leading[slot] == pattern or self._takes_over(slot, last, step):
            self._leading[slot], self._last[slot] = pattern, step
            self._others.pop(slot, None)
            return step != last
        return False

    def _takes_over(self, slot: tuple[int, str], last: float, step: float) -> bool:
        """The leading one is behind, or has fallen silent."""
        others = self._others.setdefault(slot, set())
        others.add(step)
        return step > last + 1 or len(others) > _GIVEN_UP


_MOST_TIMES = 65_536
"""Progress of one log and kind beyond that is kept at half the resolution: 18 hours of one event a second."""
_MOST_TOGETHER = 2048


class ProgressTrack:
    """Times of progress of one kind in a log, in seconds on the log's own axis; at most one entry a `resolution_s`."""

    __slots__ = ("_together", "count", "kind", "lines", "live", "resolution_s", "source", "times")

    def __init__(self, source: int, kind: str) -> None:
        self.source, self.kind = source, kind
        self.times = array("d")
        self.lines = array("Q")
        self.live = array("Q")
        """How many recognised lines of the log that tell of no progress stand before each of these."""
        self.resolution_s = 0.0
        self.count = 0
        """All that there was, whatever is kept."""
        self._together = array("Q")

    @property
    def last_line(self) -> int:
        """Line of the last progress; 0 if there was none."""
        return max(self.lines[-1] if self.lines else 0, self._together[-1] if self._together else 0)

    def all_lines(self) -> list[int]:
        """Lines of progress: also those that share their time with the one before, as all do in a log that has no
        clock. Of many of these some are kept.
        """
        return sorted([*self.lines, *self._together])

    def add(self, time: float, line: int, live: int) -> None:
        """Progress at a line."""
        self.count += 1
        if self.times and 0.0 <= time - self.times[-1] <= self.resolution_s:
            self._together.append(line)
            if len(self._together) > _MOST_TOGETHER:
                self._together = self._together[::2]
            return
        self.times.append(time)
        self.lines.append(line)
        self.live.append(live)
        if len(self.times) > _MOST_TIMES:
            self._coarsen()

    def _coarsen(self) -> None:
        self.resolution_s = max(1.0, 2 * self.resolution_s)
        old = self.times, self.lines, self.live
        self.times, self.lines, self.live = array("d"), array("Q"), array("Q")
        for time, line, live in zip(*old, strict=True):
            if not self.times or not 0.0 <= time - self.times[-1] <= self.resolution_s:
                self.times.append(time)
                self.lines.append(line)
                self.live.append(live)


@dataclass(slots=True)
class Leap:
    """Two values of a counter that stand a pause apart."""

    source: int
    start: float
    end: float
    """Seconds on the log's axis."""
    line: int
    """The line of the second value."""
    before: float
    after: float
    kept_pace: bool
    """The count grew meanwhile about as quickly as before: lines are missing, or it prints rarely."""
    total: float | None = None

    @property
    def fell(self) -> bool:
        """The counter began again, or went back: another epoch or another run."""
        return self.after < self.before


@dataclass(slots=True)
class WorkCounter:
    """A counter of a log that grows towards a total: a progress bar, `step 7/100`."""

    kind: str
    key: str
    source: int
    first: float
    """When it was seen first, on the log's axis, and with which amount."""
    first_amount: float
    time: float
    """The same of the last time it changed."""
    amount: float
    line: int
    total: float | None = None
    elapsed_s: float | None = None
    """By its own clock."""
    first_elapsed_s: float | None = None
    """The same when it was seen first."""
    remaining_s: float | None = None
    """As the line estimates it."""
    restarts: int = 0
    """How often it began anew."""
    rise: float = 1.0
    """By how much it grew last."""
    text: str = ""
    """The line that showed it last."""
    label: str = ""
    """Its key with the figures in it."""
    before: tuple[float, float] | None = None
    """The time that it had counted for, by its own clock, when it was seen first; without what its first item took,
    which may hold a start."""
