"""Counters of progress: their tracks, leaps and pace."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

# --- The pace of counters by their own clocks: progress bars, and lines with the time since they started ---

_LONG_ENOUGH_S = 10.0
"""Clocks of bars show whole seconds: over this time the mean is within a tenth."""
_WHOLE_S = 1.0
_JUST_BEGUN_S = 1.0
"""Within it a resumed run jumps to its earlier amount: that is no pace."""

_TRUSTED = 4
"""Frames in a row that have to agree before a bar counts as a clock in a log with timestamps."""
_MOST = 4096
_ALIKE = 32
"""Most counters of one name that are distinguished."""
_EPOCH = re.compile(r"\bepochs? (?P<named>\d+)$|^(?P<first>\d+)(?=/\d+$)", re.IGNORECASE)
"""Name of a counter within an epoch: `Epoch 3`, `3/40`."""

_BEFORE = {"items": ("items",), "step": ("items", "step")}
"""Kinds that the first frames of a bar of a kind, which have no name, seem to count."""

Slot = tuple[int, str, str]
"""Log, kind and key of a counter."""


@dataclass(slots=True)
class _Counted:
    amount: float
    elapsed_s: float
    began: float
    """On the axis of its log, at the earliest."""
    now: float
    """Time of its log when it was last shown."""
    from_amount: float
    from_s: float
    """Start of the measured interval."""
    frames: int = 1
    """Frames since its start."""
    total: float | None = None
    contradictory: bool = False
    """Its amount went back while its time advanced, or the other way round: it is no clock."""


class Paces:
    """The counters of all logs that show their elapsed time."""

    def __init__(self) -> None:
        self._counted: dict[Slot, _Counted] = {}
        self._others_of: dict[Slot, list[_Counted]] = {}
        """Others of the same name, in the order in which they were shown: trials or ranks."""
        self._epochs: dict[Slot, tuple[int, Slot]] = {}
        """The newest of the counters that differ in the number of an epoch alone: its number."""

    def move(self, source: int, seconds: float) -> None:
        """Move the counters of a log with its times: a clock came that dates its earlier lines."""
        held = [one for slot, one in self._counted.items() if slot[0] == source]
        held += [one for slot, others in self._others_of.items() if slot[0] == source for one in others]
        for counted in held:
            counted.began += seconds
            counted.now += seconds

    def along(
        self, slot: Slot, amount: float, elapsed_s: float, now: float, total: float | None = None,
        left_s: float | None = None,
    ) -> tuple[float, float | None]:  # fmt: skip
        """Take in a counter in a log with timestamps: only one that behaves like a clock advances the time."""
        known = self._counted.get(slot)
        contradictory = known is not None and (known.contradictory or _contradicts(known, amount, elapsed_s))
        time, pace = self.shown(slot, amount, elapsed_s, now, total, left_s)
        counted = self._counted[slot]
        counted.contradictory |= contradictory
        return (now, None) if counted.contradictory else (time, pace) if counted.frames >= _TRUSTED else (now, pace)

    def shown(
        self, slot: Slot, amount: float, elapsed_s: float, now: float, total: float | None = None,
        left_s: float | None = None,
    ) -> tuple[float, float | None]:  # fmt: skip
        """Take in the amount of a counter, `elapsed_s` after its start, when the time of its log is `now`, and
        `left_s` remain by its own estimate.

        Return the new time of the log, and the recent seconds per item, None while the interval is too short.
        Counters of one log may run at the same time, one within the other: their times are not added up.
        """
        if len(self._counted) > _MOST:
            self._counted.clear()
            self._others_of.clear()
        counted, before = self._counted_by(slot, amount, elapsed_s), None
        if counted is None:
            before, continued = self._epoch_before(slot, amount, elapsed_s, total)
            continued = continued or self._unnamed_before(slot, amount, elapsed_s, total)
            if continued is not None:
                counted = self._counted[slot] = continued
        if counted is None or _restarted(counted, amount, elapsed_s):
            # A bar is drawn when it starts: one that appears late ran in parallel to the lines before.
            began = now if elapsed_s <= _LONG_ENOUGH_S else max(0.0, now - elapsed_s)
            if before is not None:  # nor did it run in parallel to that of the epoch before
                began = max(began, before.began + before.elapsed_s)
            self._counted[slot] = _Counted(amount, elapsed_s, began, now, amount, elapsed_s, total=total)
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
            pace = _pace(passed, grown, left_s, None if total is None else total - amount)
            counted.from_amount, counted.from_s = amount, elapsed_s
        return max(now, counted.began + elapsed_s), pace

    def _counted_by(self, slot: Slot, amount: float, elapsed_s: float) -> _Counted | None:
        """Identify the counter of a name that is shown: the one that has counted nearly as long, else a new one.

        One that goes back without having just begun is another one.
        """
        shown = self._counted.get(slot)
        if shown is None:
            return None
        others = self._others_of.get(slot, [])
        if not others and not (_restarted(shown, amount, elapsed_s) or elapsed_s <= _JUST_BEGUN_S < shown.elapsed_s):
            return shown
        fitting = [
            one for one in (*others, shown)
            if one.elapsed_s <= elapsed_s and (one.amount < amount or (one is shown and one.amount == amount))
        ]  # fmt: skip
        best = max(fitting, key=lambda one: (one.elapsed_s, one is shown), default=None)
        if best is shown:
            return shown
        others = [one for one in others if one is not best]
        self._others_of[slot] = [*others, shown][-_ALIKE:]
        if best is None:
            del self._counted[slot]
        else:
            self._counted[slot] = best
        return best

    def _epoch_before(
        self, slot: Slot, amount: float, elapsed_s: float, total: float | None
    ) -> tuple[_Counted | None, _Counted | None]:
        """The counter of the epoch before the one that a new counter names, and the one that it continues.

        A bar over all epochs may show the number of the current one: its amount and its time grow.
        """
        named = _EPOCH.search(slot[2])
        if named is None:
            return None, None
        begin, end = named.span("named" if named["named"] else "first")
        family, epoch = (slot[0], slot[1], f"{slot[2][:begin]}#{slot[2][end:]}"), int(slot[2][begin:end])
        if len(self._epochs) > _MOST:
            self._epochs.clear()
        last, newest = self._epochs.get(family, (epoch, slot))
        self._epochs[family] = (epoch, slot)
        known = self._counted.get(newest)
        if known is not None and _continues(known, amount, elapsed_s, total):
            return None, self._counted.pop(newest)
        return known if last == epoch - 1 else None, None

    def _unnamed_before(self, slot: Slot, amount: float, elapsed_s: float, total: float | None) -> _Counted | None:
        """The bar without a name that a new counter continues."""
        if total is None:
            return None
        source, kind, key = slot
        for before, name in unnamed_before(kind, key.removesuffix(of_total(total))):
            known = self._counted.get((source, before, name + of_total(total)))
            if known is not None and _continues(known, amount, elapsed_s, total):
                return self._counted.pop((source, before, name + of_total(total)))
        return None


def _pace(passed: float, grown: float, left_s: float | None, left: float | None) -> float:
    """Seconds per item: `grown` ones in `passed` seconds.

    Clocks of whole seconds leave a range. The time that a bar estimates to be left comes from its finer clock, but may
    lag behind: it counts only within the range.
    """
    pace, whole = passed / grown, 0.0 if passed % 1.0 else _WHOLE_S
    if not left_s or not left or left < 0:
        return pace
    least, most = (
        max((passed - whole) / grown, left_s / left),
        min((passed + whole) / grown, (left_s + _WHOLE_S) / left),
    )
    return (least + most) / 2 if least < most else pace


def of_total(total: float) -> str:
    """Distinction of bars without a name."""
    return f" of {total:g}"


def unnamed_before(kind: str, key: str) -> Iterator[tuple[str, str]]:
    """Kinds and keys of the bar without a name that one of a kind and key may continue.

    What it counts is known once its label is set, or a line with a loss follows. It has the same total.
    """
    place, slash, _ = key.partition("/")
    for name in dict.fromkeys((key, place if slash else "", "")):
        yield from ((before, name) for before in _BEFORE.get(kind, ()) if (before, name) != (kind, key))


def _continues(counted: _Counted, amount: float, elapsed_s: float, total: float | None) -> bool:
    """True if a counter under a new label goes on where the one before was; a full one has ended.

    Without a total that is known only of one that counts nothing, as a bar around an agent's own loop does.
    """
    is_open = counted.amount < total if total is not None else amount == 0
    return is_open and counted.total == total and counted.amount <= amount and counted.elapsed_s <= elapsed_s


def _restarted(counted: _Counted, amount: float, elapsed_s: float) -> bool:
    """True if a counter started again; bars of several ranks with one key are only a little apart."""
    fell = counted.elapsed_s - elapsed_s
    return fell > _LONG_ENOUGH_S or (fell >= 0.0 and amount < 0.5 * counted.amount)


def _contradicts(counted: _Counted, amount: float, elapsed_s: float) -> bool:
    went_back = amount < 0.5 * counted.amount and elapsed_s >= counted.elapsed_s > _JUST_BEGUN_S
    return went_back or (amount > counted.amount and elapsed_s < counted.elapsed_s - _JUST_BEGUN_S)


_GIVEN_UP = 3


class StepSources:
    """Chooses the kind of line that counts the steps of a log, if several do: their counts may be one apart, or one of
    them only shows every tenth step.
    """

    def __init__(self) -> None:
        self._leading: dict[tuple[int, str], int] = {}
        self._last: dict[tuple[int, str], float] = {}
        self._others: dict[tuple[int, str], set[float]] = {}
        """Steps of others since the last one of the leading pattern."""

    def is_new(self, slot: tuple[int, str], pattern: int, step: float) -> bool:
        """Return True if a line of a pattern shows a step of that log and component that no line has shown."""
        last = self._last.get(slot)
        if last is None or self._leading[slot] == pattern or self._takes_over(slot, last, step):
            self._leading[slot], self._last[slot] = pattern, step
            self._others.pop(slot, None)
            return step != last
        return False

    def _takes_over(self, slot: tuple[int, str], last: float, step: float) -> bool:
        """True if the leading one is behind, or has stopped."""
        others = self._others.setdefault(slot, set())
        others.add(step)
        return step > last + 1 or len(others) > _GIVEN_UP


@dataclass(slots=True)
class Leap:
    """Two values of a counter with a pause between them."""

    source: int
    start: float
    end: float
    """Seconds on the log's axis."""
    line: int
    """The line of the second value."""
    before: float
    after: float
    kept_pace: bool
    """The count grew about as quickly as before: lines are missing, or it prints rarely."""
    total: float | None = None

    @property
    def fell(self) -> bool:
        """The counter began again, or went back: another epoch or another run."""
        return self.after < self.before


@dataclass(frozen=True, slots=True)
class Fall:
    """A counter that began again or went back: the next run, the next fold, or another model."""

    source: int
    kind: str
    since: int
    """The line of the value before."""
    line: int
    before: float
    after: float


@dataclass(slots=True)
class WorkCounter:
    """A counter of a log that grows towards a total: a progress bar, `step 7/100`."""

    kind: str
    key: str
    source: int
    first: float
    """Time at which it was first seen, on the log's axis; `first_amount` is its amount then."""
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
    """Number of restarts."""
    rise: float = 1.0
    """By how much it grew last."""
    began_at: float = 0.0
    """The first amount since it began or fell: 0 where it counts from 0."""
    text: str = ""
    """The line that showed it last."""
    label: str = ""
    """Its key with the figures in it."""
    first_line: int = 0
    epoch: float | None = None
    """The epoch, with its fraction, that the next line with one states: the counter may stop and such lines go on."""
    before: tuple[float, float] | None = None
    """The time that it had counted for, by its own clock, when it was seen first, or full after nothing: what a full
    one took was its work. Else without what its first item took, which may hold a start."""

    def is_redrawn(self, amount: float, passed: float) -> bool:
        """Return True if it is drawn once more as it was, `passed` seconds by its own clock after that."""
        return amount == self.amount > 0 and self.elapsed_s is not None and passed >= -_REDRAWN * self.elapsed_s

    def is_resumed(self, amount: float, elapsed_s: float | None) -> bool:
        """Return True if another process draws it on from a checkpoint: its clock begins, its count does not."""
        clocks = elapsed_s, self.elapsed_s
        begins = None not in clocks and (elapsed_s or 0.0) < _RESUMED * (self.elapsed_s or 0.0)
        return begins and amount > max(_MANY, (1.0 - _RESUMED) * self.amount)

    def was_at_work(self, amount: float, total: float | None) -> bool:
        """Return True if it was drawn empty, and next full or with many items: it was at work in between."""
        begun = not self.amount and not self.restarts and total is not None
        return begun and amount >= min(_MANY, total or 0.0)


_RESUMED = 0.25
"""Share of its time, by its own clock, within which a bar has begun, and of its count that a resumed one may lack."""
_MANY, _REDRAWN = 10, 0.02
"""Items that are many, and the share by which the clock of a bar goes back where its last frame is drawn once more."""
LEAP_S = 30.0
"""Pauses between two values of a counter from this length on are kept: shorter ones are no stall."""
_FAR_MORE = 4.0
"""Times its pace: no step becomes so much quicker over a pause."""


def counted_before(
    time: float, amount: float, elapsed_s: float | None, total: float | None
) -> tuple[float, float] | None:
    """The time that a counter had counted for when it was seen first, by its own clock; None where it shows none."""
    if elapsed_s is None or elapsed_s <= 0 or amount <= 0:
        return None
    items = amount if amount == total else amount - 1
    return (time - elapsed_s * items / amount, time) if items > 0 else None


def has_jumped(known: WorkCounter, time: float, amount: float) -> bool:
    """Return True if a counter grew far more over a pause than its pace explains."""
    passed, took, made = time - known.time, known.time - known.first, known.amount - known.first_amount
    return passed >= LEAP_S and made > 0 and (amount - known.amount) * took > _FAR_MORE * made * passed


# --- What counts from a start: its mean since then lags behind the truth for minutes, its growth does not ---

_LEAST_APART_S = 0.05
"""A rate over less is one of the clock's resolution."""


class Totals:
    """The last total of each counter, and when it was."""

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[float, float]] = {}

    def rate(self, counter: Hashable, time: float, total: float) -> float | None:
        """The growth in a second since the total before; None for the first one, and for one that starts again."""
        since, before = self._last.get(counter, (time, total))
        if counter in self._last and total >= before and time - since < _LEAST_APART_S:
            return None  # one that comes late is older news, too
        self._last[counter] = (time, total)
        return (total - before) / (time - since) if time > since and total >= before else None
