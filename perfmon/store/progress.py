"""Proof that a run continues: progress of each log and kind, counters towards a goal, run boundaries.

Progress is what a hung run cannot print: a step that ended, a batch that was finished, tokens that were made, a phase
that began or ended. Everything else a log prints is liveness. Nothing here judges; see `perfmon.rules.run_states`.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf

from perfmon.core import Fields, Shift, median

from .counters import LEAP_S, Fall, Leap, WorkCounter, counted_before, has_jumped, unnamed_before

STEP_KINDS = ("step", "train-step", "orchestrator-step")
"""Kinds of progress that are steps of a trainer or of another component, before any `:component`."""
_SUMMARY_LINES, _WHOLE_S, _SUMMARY_SHARE = 20, 1.0, 0.02
"""Between a full bar and its summary; a bar counts whole seconds, and ends a little before or after the summary."""
_LATE, _RHYTHM = 8, 3
"""Number of steps for the recent rhythm, and the least number."""
_MOST_LEAPS, _MOST_FALLS, _MOST_MARKS = 1_000, 1_000, 2_000
_UNUSUAL = 3.0
"""Times what a counter usually takes is a pause."""
_KEPT_PACE = 0.5
"""Share of its usual pace at which a counter that went on over a pause was at work in it."""
_PLANS = {
    "epochs": ("epochs",),
    "episodes": ("episodes",),
    "step": ("steps", "iterations"),
    "iterations": ("iterations",),
    "timesteps": ("timesteps",),
}
"""Kinds of counters, and the fields of a setting that hold their total."""
COUNTED = ("step", "iterations", "timesteps", "rounds", "episodes", "epochs")
"""Kinds of counters that are the progress of a run, the finest first."""
_FIGURES = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?")
_MOST_KEY, _MOST_TEXT = 80, 200
_MOST_UNNAMED = 512
"""With so many counters those without a name are one."""


@dataclass(frozen=True, slots=True)
class RunMark:
    """The line of a start or end of a run."""

    kind: str
    """begin or end"""
    time: float
    source: int
    line: int
    offset: int
    text: str
    fields: Fields


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
        """Number of recognised lines without progress before each of these."""
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

    def move(self, by: Shift) -> None:
        """Move its times; lines that had one time may no longer have."""
        shared = [(at - 1, line) for line in self._together if (at := bisect_right(self.lines, line))]
        if all(by(self.times[at], line) == by(self.times[at], self.lines[at]) for at, line in shared):
            self.times = array("d", (t + by(t, line) for t, line in zip(self.times, self.lines, strict=True)))
            return
        rows = [*zip(self.times, self.lines, self.live, strict=True)]
        rows += [(self.times[at], line, self.live[at]) for at, line in shared]
        count, self.times, self.lines, self.live = self.count, array("d"), array("Q"), array("Q")
        self._together = array("Q")
        for time, line, live in sorted(rows, key=lambda row: row[1]):
            self.add(time + by(time, line), line, live)
        self.count = count

    def _coarsen(self) -> None:
        self.resolution_s = max(1.0, 2 * self.resolution_s)
        old = self.times, self.lines, self.live
        self.times, self.lines, self.live = array("d"), array("Q"), array("Q")
        for time, line, live in zip(*old, strict=True):
            if not self.times or not 0.0 <= time - self.times[-1] <= self.resolution_s:
                self.times.append(time)
                self.lines.append(line)
                self.live.append(live)


class ProgressLog:
    """All progress and run boundaries of a run's logs."""

    def __init__(self) -> None:
        self.advanced = 0
        """Total count of progress."""
        self.tracks: dict[tuple[int, str], ProgressTrack] = {}
        self._of: dict[int, list[ProgressTrack]] = {}
        """They by log."""
        self.counters: dict[tuple[int, str, str], WorkCounter] = {}
        self.marks: list[RunMark] = []
        self.leaps: list[Leap] = []
        self.falls: list[Fall] = []
        """Of counters of epochs, episodes and the like."""
        self.planned: dict[tuple[int, str], float] = {}
        """By log and kind the total that a setting states; 0 where several differ, or it was exceeded."""
        self.quick_falls: Counter[int] = Counter()
        """By log: how often a counter fell without a pause, as steps of epochs do, and those of several processes."""
        self._quick: dict[int, list[Leap]] = {}
        """The last of them by log."""
        self._steps: dict[tuple[int, str], tuple[float, float, float, float, float]] = {}
        """By log and component: the first step and its time, the last one and its time, and by how much it rose."""

    def advance(self, source: int, kind: str, time: float, line: int, live: int) -> None:
        """Add progress of a kind at a line, after `live` recognised lines without progress."""
        self.advanced += 1
        track = self.tracks.get((source, kind))
        if track is None:
            track = self.tracks[source, kind] = ProgressTrack(source, kind)
            self._of.setdefault(source, []).append(track)
        track.add(time, line, live)

    def step(self, source: int, component: str, step: float, time: float, line: int, live: int) -> None:
        """Add a step of a component; two lines of the same step count once."""
        slot = (source, component)
        first, began, last, then, rise = self._steps.get(slot, (step, time, -inf, time, 1.0))
        if last == step:
            return
        if step < last or (last > -inf and time - then >= LEAP_S):
            self._leap(Leap(source, then, time, line, last, step, False), (first, began), rise)
        if step < last:
            self._steps[slot] = (step, time, step, time, rise)
        else:
            self._steps[slot] = (first, began, step, time, step - last if last > -inf else rise)
        self.advance(source, f"step:{component}" if component else "step", time, line, live)

    def _leap(self, leap: Leap, first: tuple[float, float], rise: float) -> None:
        """Keep two values with a pause between them.

        `first` is the first value of the counter, and when it was seen; by `rise` it grew from one value to the next.
        """
        amount, time = first
        passed = leap.end - leap.start
        usual = (leap.start - time) / (leap.before - amount) if leap.before > amount and leap.start > time else 0.0
        if leap.fell and passed <= max(LEAP_S, _UNUSUAL * usual * rise):
            self.quick_falls[leap.source] += 1
            same = [one for one in self._quick.get(leap.source, ()) if one.line == leap.line]
            self._quick[leap.source] = [*same, leap]
        if passed < LEAP_S or len(self.leaps) >= _MOST_LEAPS:
            return
        leap.kept_pace |= 0 < _KEPT_PACE * passed <= (leap.after - leap.before) * usual
        self.leaps.append(leap)

    def jumped(self, source: int, before: float, until: float) -> None:
        """The date of a log, doubted so far, really was another one: there was a pause behind the last dated line."""
        for leap in self._quick.pop(source, ()) if len(self.leaps) < _MOST_LEAPS else ():
            if abs(leap.end - before) <= _WHOLE_S:
                self.quick_falls[source] -= 1
                leap.end = until
                self.leaps.append(leap)

    def usual_step_s(self) -> float:
        """Recent seconds between two steps, of the component with most of them; 0: no rhythm yet."""
        usual = []
        for track in self.tracks.values():
            if track.kind.partition(":")[0] in STEP_KINDS:
                times = sorted(set(track.times[-_LATE:]))
                if len(times) >= _RHYTHM:
                    usual.append(median([after - before for before, after in pairwise(times)]))
        return min(usual, default=0.0)

    def count(
        self, source: int, kind: str, key: str, time: float, line: int, live: int, amount: float,
        total: float | None, elapsed_s: float | None, remaining_s: float | None, text: str = "", unnamed: bool = False,
    ) -> float:  # fmt: skip
        """Take in the amount of a counter; return the seconds by its own clock since it was last shown.

        Those without a name are distinguished by their totals: one may count within the other.
        """
        label = key[:_MOST_KEY]
        key = _FIGURES.sub("#", key)[:_MOST_KEY] if key else ""  # a label may hold what changes: a loss, an epoch
        if unnamed and total is not None and len(self.counters) < _MOST_UNNAMED:
            key = f"{key}/{total:g}"
        slot = (source, kind, key)
        known = self.counters.get(slot)
        if kind == "epoch":
            for one in self.counters.values():
                if one.epoch is None and one.source == source and one.total:
                    one.epoch = amount
        if total is None and elapsed_s is None and self.planned:
            total = self._plan(slot, amount)
        if known is None and total is not None:
            known = self._named_now(slot, label, amount, total, elapsed_s)
        if known is None:
            self.counters[slot] = WorkCounter(
                kind, key, source, time, amount, time, amount, line, total, elapsed_s, elapsed_s, remaining_s,
                began_at=amount, label=label, first_line=line, before=counted_before(time, amount, elapsed_s, total),
            )  # fmt: skip
            if amount > 0:
                self.advance(source, kind, time, line, live)
            return elapsed_s or 0.0
        passed = elapsed_s - known.elapsed_s if elapsed_s is not None and known.elapsed_s is not None else 0.0
        full = total is None or amount >= total
        again = amount > 0 or passed < 0  # one that shows no amount goes on as long as its clock does
        restarted = full and again and amount == known.amount and label != known.label  # the next epoch's bar, full
        known.label = label
        if amount < known.amount and elapsed_s is None and len(self.falls) < _MOST_FALLS:
            self.falls.append(Fall(source, kind, known.line, line, known.amount, amount))
        if amount < known.amount or (amount != known.amount and time - known.time >= LEAP_S):
            leap = Leap(source, known.time, time, line, known.amount, amount, False, known.total)
            leap.kept_pace = 0 < passed < _KEPT_PACE * (time - known.time)  # so long was it not, by its own clock
            self._leap(leap, (known.first_amount, known.first), known.rise)
        if has_jumped(known, time, amount):  # another start went on from a later checkpoint
            known.first, known.first_amount, known.first_elapsed_s, known.first_line = time, amount, elapsed_s, line
        if amount < known.amount or (passed < 0 and not known.is_redrawn(amount, passed)) or restarted:
            known.first, known.first_amount, known.first_line = time, amount, line
            if not known.is_resumed(amount, elapsed_s):
                known.restarts, known.began_at = known.restarts + 1, amount
            known.first_elapsed_s = elapsed_s
            passed = elapsed_s or 0.0
        if known.was_at_work(amount, total):
            known.before = counted_before(time, amount, elapsed_s, total)
        if amount != known.amount or restarted:
            known.time, known.line, known.epoch = time, line, None
            if amount > 0:
                self.advance(source, kind, time, line, live)
        if amount > known.amount:
            known.rise = amount - known.amount
        known.amount, known.total = amount, total if total is not None else known.total
        known.elapsed_s, known.remaining_s, known.text = elapsed_s, remaining_s, text[:_MOST_TEXT]
        return max(0.0, passed)

    def _plan(self, slot: tuple[int, str, str], amount: float) -> float | None:
        """The total of a counter that no line of its own states, but a setting does."""
        source, kind, _ = slot
        planned = self.planned.get((source, kind), 0.0)
        if amount <= planned:
            return planned
        if planned:
            self.planned[source, kind] = 0.0
            known = self.counters.get(slot)
            if known is not None and known.total == planned:
                known.total = None
        return None

    def _named_now(
        self, slot: tuple[int, str, str], label: str, amount: float, total: float, elapsed_s: float | None
    ) -> WorkCounter | None:
        """The bar without a name that a new counter continues: it is known by this one's name from now on."""
        source, kind, key = slot
        for before, name in unnamed_before(kind, label):
            old = (source, before, f"{_FIGURES.sub('#', name)}/{total:g}")
            known = self.counters.get(old)
            if known is None or known.elapsed_s is None or elapsed_s is None:
                continue
            if known.amount <= amount and known.amount < total and known.elapsed_s <= elapsed_s:
                known.kind, known.key, known.label = kind, key, label
                self.counters = {slot if at == old else at: one for at, one in self.counters.items()}
                return known
        return None

    def has_shown(self, source: int, time: float, line: int, duration_s: float) -> bool:
        """True if a full bar of the lines just before a summary lasted as long as that reports: it is of the same
        interval."""
        return any(
            one.source == source
            and one.total is not None
            and one.amount >= one.total
            and one.elapsed_s is not None
            and 0 <= line - one.line <= _SUMMARY_LINES
            and abs(one.time - time) <= _WHOLE_S
            and abs(one.elapsed_s - duration_s) <= _WHOLE_S + _SUMMARY_SHARE * duration_s
            for one in self.counters.values()
        )

    def mark(self, mark: RunMark) -> None:
        """A run begins or ends, or a setting states how long it is to be."""
        for kind, names in _PLANS.items() if mark.kind == "plan" else ():
            for name in names:
                if (value := mark.fields.get(name)) is not None:
                    amount, slot = float(str(value).replace(",", "")), (mark.source, kind)
                    again = any((one.source, one.kind) == slot for one in self.counters.values())  # that of a next run
                    self.planned[slot] = amount if again or self.planned.get(slot, amount) == amount else 0.0
        if len(self.marks) < _MOST_MARKS:
            self.marks.append(mark)

    def move(self, source: int, by: Shift) -> None:
        """Move what one log has."""
        for track in self.of(source):
            track.move(by)
        for counter in self.counters.values():
            if counter.source == source and (seconds := by(counter.time, counter.line)):
                counter.time += seconds
                counter.first = min(counter.time, counter.first + by(counter.first, counter.first_line))
                if counter.before is not None:
                    counter.before = counter.before[0] + seconds, counter.before[1] + seconds
        for leap in self.leaps:
            if leap.source == source and (seconds := by(leap.end, leap.line)):
                leap.start, leap.end = leap.start + seconds, leap.end + seconds
        self.marks = [
            replace(mark, time=mark.time + by(mark.time, mark.line)) if mark.source == source else mark
            for mark in self.marks
        ]

    def of(self, source: int) -> Iterator[ProgressTrack]:
        """The tracks of one log."""
        return iter(self._of.get(source, ()))

    def has_stepped_since(self, source: int, line: int) -> bool:
        """True where steps of a log ended behind one of its lines."""
        return any(one.last_line > line for one in self.of(source) if one.kind.partition(":")[0] in STEP_KINDS)

    def sources(self) -> Iterable[int]:
        """Logs with progress."""
        return self._of.keys()
