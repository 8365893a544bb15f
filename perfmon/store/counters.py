"""How quickly counters grow by their own clocks: progress bars, and lines that print the time since they began."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
        """Which of the counters of a name is shown: the one that has counted nearly as long, else a new one.

        One that goes back without having just begun is not the one that was shown before.
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
    """Which kind of line tells of the steps of a log, where several do: their counts may be one apart, or one of them
    tells of every tenth step alone."""

    def __init__(self) -> None:
        self._leading: dict[tuple[int, str], int] = {}
        self._last: dict[tuple[int, str], float] = {}
        self._others: dict[tuple[int, str], set[float]] = {}
        """What others told since the leading one told last."""

    def is_new(self, slot: tuple[int, str], pattern: int, step: float) -> bool:
        """Whether a line of a pattern tells of a step of that log and component that no line has told of."""
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
