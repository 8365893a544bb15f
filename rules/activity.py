"""The progress of a run on one axis: its rhythm, the steps it made, and productive time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf
from operator import sub
from typing import TYPE_CHECKING

from perfmon.core import Window, median
from perfmon.store import STEP_KINDS, WorkCounter

from .runs import READY, started
from .tracks import START_KINDS, UPDATE

if TYPE_CHECKING:
    from .run_view import RunView


# --- The progress of a run on one axis: its rhythm, and the time that it proves productive ---

PHASE_KINDS = frozenset(
    (
        "evaluation", "checkpoint", "checkpoint-write", "weight-sync", "weight-update", "phases", "engine-sleep",
        "shutdown", "epoch", "epochs",
    )
)  # fmt: skip
"""Occasional progress: it has no rhythm that a stall could break."""
LEAST_STALL_S = 30.0
_STEPS, _PAUSES = 3.0, 2.0
"""Times the median interval, and the second-longest of the others, that a run stands still at least in a stall."""
_MANY, _ONCE = 12, 1.5
"""With fewer intervals than these, times the longest of them: such a pause may come with each epoch."""
_EARLY_STALL_S, _EARLY = 300.0, 10.0
"""After three steps alone: their rhythm is hardly known, but a hang in the next one is frequent."""
REMEMBERED = 256
"""Intervals on either side that define what is usual."""
FEW = 4
"""Events that make a rhythm: three intervals."""
BLOCK = 32
"""Intervals that share their median: what is usual changes slowly."""


@dataclass(slots=True)
class Track:
    """The times at which a log reports progress of a kind, on the run's axis, ascending."""

    kind: str
    source: int
    times: list[float]
    lines: list[int]
    """Line numbers without the recognised liveness before them."""
    places: list[int]
    """Line numbers."""
    resolution_s: float = 0.0
    count: int = 0
    """Events in all; lines without a clock may have one time."""

    @property
    def is_step(self) -> bool:
        """It counts steps of a trainer or of another component."""
        return self.kind.partition(":")[0] in STEP_KINDS


@dataclass(slots=True)
class Activity:
    """The progress of a run within a window."""

    tracks: list[Track] = field(default_factory=list)
    events: list[float] = field(default_factory=list)
    """All progress but that of the start, ascending; at least the last one before the window."""
    first: float | None = None
    """The first progress of the run, whatever the window."""
    count: int = 0
    """The most events of a kind over the whole run: proof that it has a rhythm."""
    step_s: float = 0.0
    """The longest time of a step on average, by bars with a clock of their own."""

    @property
    def work(self) -> list[Track]:
        """The tracks without those of the start."""
        return [track for track in self.tracks if track.kind not in START_KINDS]

    @property
    def step_times(self) -> list[float]:
        """The times of all steps, ascending."""
        return sorted(time for track in self.tracks if track.is_step for time in track.times)


def activity_of(view: RunView) -> Activity:
    """The progress that the logs report, without those of pollers."""
    found = Activity()
    low, high = view.clip or (-inf, inf)
    firsts: list[float] = []
    for track in all_tracks(view):
        if view.store.sources[track.source].polled or not track.times:
            continue
        if track.kind not in START_KINDS:
            firsts.append(track.times[0])
            whole = high >= track.times[-1] or not view.timed  # events of one time are kept once
            count = track.count if whole else bisect_right(track.times, high)
            found.count = max(found.count, count)
        begin = max(0, bisect_left(track.times, low) - REMEMBERED)
        stop = bisect_right(track.times, high)
        begin -= begin % BLOCK
        times, lines = track.times[begin:stop], track.lines[begin:stop]
        if times:
            places = track.places[begin:stop]
            found.tracks.append(Track(track.kind, track.source, times, lines, places, track.resolution_s))
    found.first = min(firsts, default=None)
    steps = [one for one in view.store.progress.counters.values() if one.kind == "step" and one.amount]
    found.step_s = max((one.elapsed_s / one.amount for one in steps if one.elapsed_s), default=0.0)
    found.events = sorted({time for track in found.work for time in track.times})
    return found


def all_tracks(view: RunView) -> Iterable[Track]:
    for held in view.store.progress.tracks.values():
        times, lines = held.times.tolist(), held.lines.tolist()
        shift, work = view.shift(held.source), list(map(sub, lines, held.live))
        if times != sorted(times):
            times, work, lines = map(list, zip(*sorted(zip(times, work, lines, strict=True)), strict=True))
        times = [time + shift for time in times] if shift else times
        yield Track(held.kind, held.source, times, work, lines, held.resolution_s, count=held.count)
    by_source: dict[int, list[tuple[float, int]]] = {}
    for update in view.spans(UPDATE):
        if update.span is not None and update.refs:
            by_source.setdefault(update.source, []).append((update.end, update.refs[-1][0].line))
    for source, ends in by_source.items():
        ends.sort()
        lines = [line for _, line in ends]
        yield Track(UPDATE, source, [time for time, _ in ends], lines, lines, count=len(ends))


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The usual interval of a kind of progress, and the one from which on the run stands still."""

    usual_s: float
    limit_s: float
    is_early: bool = False
    """Of three steps alone."""

    @classmethod
    def of(cls, intervals: Iterable[float], resolution_s: float = 0.0) -> Rhythm | None:
        """The rhythm of events with these seconds between them; None of fewer than three events."""
        ordered = sorted(intervals)
        if len(ordered) < FEW - 2:
            return None
        usual = max(median(ordered), resolution_s)
        if len(ordered) < FEW - 1:
            return cls(usual, max(_EARLY_STALL_S, _EARLY * ordered[-1]), True)
        limit = max(LEAST_STALL_S, _STEPS * usual, _PAUSES * ordered[-2])
        if len(ordered) < _MANY:  # a pause that ended once may come with each epoch
            limit = max(limit, _ONCE * ordered[-1])
        return cls(usual, limit)


def rhythm_at(activity: Activity, start: float, end: float) -> Rhythm | None:
    """The rhythm that start..end is evaluated by: of the steps, else of the most frequent progress.

    The range itself does not count; None where no kind has made three intervals of its own.
    """
    steps: list[Rhythm] = []
    others: list[Rhythm] = []
    within_step = activity.step_s  # bars and parts of a step may rest as long as one takes
    for track in activity.work:
        if track.kind in PHASE_KINDS or track.kind.endswith("-wait"):
            continue
        intervals = _intervals(track, start, end)
        if track.is_step:
            within_step = max([within_step, *intervals])
        rhythm = Rhythm.of(intervals, track.resolution_s)
        if rhythm is not None and (track.is_step or not rhythm.is_early):
            (steps if track.is_step else others).append(rhythm)
    rhythm = min(steps or others, key=lambda rhythm: rhythm.limit_s, default=None)
    return rhythm if rhythm is None or steps else replace(rhythm, limit_s=max(rhythm.limit_s, within_step))


def _intervals(track: Track, start: float, end: float) -> list[float]:
    """Intervals between neighbouring events around a range, without those that share time with it."""
    stop = bisect_left(track.times, end) + REMEMBERED
    begin = max(0, bisect_right(track.times, start) - REMEMBERED)
    times = track.times[begin:stop]
    return [b - a for a, b in pairwise(times) if b > a and not (a < end and b > start)]


def startup_of(view: RunView) -> list[Window]:
    """The time before a run got under way: from its first line, or its last start, to the first work.

    None of it where the clock of the logs ends before the work does: when that began is unknown.
    """
    if outlasts_clock(view):
        return []
    begin, first = view.fact(started), view.fact(activity_of).first
    later = [time for time in view.fact(activity_of).events if time >= begin]
    if later:
        first = later[0] if first is None or first < begin else first
    elif first is not None and first < begin:
        first = None
    if first is None:
        starting = [track.times[-1] for track in view.fact(activity_of).tracks if track.kind in START_KINDS]
        if not starting or not view.timed:
            return []
        ready = [
            time + view.shift(source)
            for series in view.marked(READY)
            for time, source in zip(series.times, series.sources, strict=True)
        ]
        if ready and max(ready) >= begin:  # a server that waits for requests has started
            return [(begin, max(ready))]
        under_way = any(span.kind in START_KINDS for span in view.store.opened())
        return [(begin, view.whole[1] if under_way else max(starting))]
    rhythm = rhythm_at(view.fact(activity_of), first, first)
    end = first - (rhythm.usual_s if rhythm is not None else 0.0)
    return [(begin, end)] if end > begin else []


_STEP_TIMES = ("step_s", "trainer_step_s")
_SEVERAL = 3.0
"""Times what is observed that the steps took: a clock that counts whole seconds, or the first steps, are not that."""


def outlasts_clock(view: RunView) -> bool:
    """True where the steps come after the last line with a clock, and by their own lines took several times as long as
    all that the clocks cover: a few dated lines of a library, then a loop that prints none.
    """
    observed = view.whole[1] - view.whole[0]
    if not view.timed or observed <= 0:
        return False
    undated: set[int] = set()
    for track in view.fact(activity_of).tracks:
        state = view.store.sources[track.source]
        if track.is_step and state.clocked and track.places[len(track.places) // 2] > state.last_line[0]:
            undated.add(track.source)
    for metric in _STEP_TIMES if undated else ():
        times = view.metrics.get(metric)
        took = [times.values[at] for at in range(len(times)) if times.source(at) in undated] if times else []
        made = max((steps_covered(component, view) for component in view.steps), default=0)
        if took and made * median(took) > _SEVERAL * observed:
            return True
    return False


def is_past_clock(view: RunView) -> bool:
    """True where most of the work comes after the last line with a clock, and no line of it has a duration: how long it
    took is unknown.
    """
    if not view.timed or view.present is not None:
        return False
    inside = behind = 0
    for state in view.logs:
        for track in view.store.progress.of(state.index):
            if track.kind in START_KINDS or state.polled:
                continue
            clocked = state.last_line[0] if state.clocked else track.last_line
            later = {time for time, line in zip(track.times, track.lines, strict=True) if line > clocked}
            lines = track.all_lines()
            count = len(lines) - bisect_right(lines, clocked) if len(later) <= 1 else 0
            behind, inside = behind + count, inside + len(lines) - count
    return behind >= FEW and behind > inside


# --- How many steps were made, whatever share of them the logs print: a line every 50 iterations covers 50 ---

_LEAP = 20.0
"""Times the usual interval that is no interval: a run that is resumed begins where it had been."""


def steps_covered(component: str, view: RunView) -> int:
    """Steps of a component within the window; of several logs by the one that reports most."""
    track = view.steps.get(component)
    if track is None:
        return 0
    return max(
        (_covered(steps) for column in track.streams.values() for steps in parallel_counters(column.values)), default=0
    )


def at_once(view: RunView) -> dict[int, list[Sequence[float]]]:
    """The step counters that advance at once, of each log in which several do."""
    found: dict[int, list[Sequence[float]]] = {}
    for series in view.store.steps.values():
        by_log: dict[int, list[float]] = {}
        for value, source in zip(series.values, series.sources, strict=True):
            by_log.setdefault(source, []).append(value)
        for source, steps in by_log.items():
            counters = parallel_counters(steps)
            if len(counters) > max(1, len(found.get(source, ()))):
                found[source] = counters
    return found


def _covered(steps: Sequence[float]) -> int:
    """By the step numbers of one log, in the order in which it prints them."""
    steps = sorted(set(steps)) if _is_near_itself(steps) else steps
    usual = _usual(pairwise(steps))
    made = min(steps[0], usual) if steps[0] >= 1 else 1.0
    for before, after in pairwise(steps):
        if after > before:
            made += after - before if after - before <= _LEAP * usual else usual
        elif after < before:  # the next epoch, or a run that restarted
            made += min(max(after, 1.0), usual)
    return round(made)


def _is_near_itself(steps: Sequence[float]) -> bool:
    """True where ranks, or runs at nearly the same step, print one counter: it falls all the time, and yet it rises.

    The steps of epochs fall as often, but to where they have been.
    """
    falls, highest, records = 0, -inf, 0
    for before, after in pairwise(steps):
        falls += after < before
        highest = max(highest, before)
        records += falls > 0 and after > highest
    return falls >= _FEWEST_RETURNS and records >= _RECORDS * falls


_RECORDS = 0.5
"""Rises beyond all before for each fall."""
_FEWEST_RETURNS, _RETURNING = 5, 0.2
"""Number and share of steps at which another counter goes on, from which on several advance at once."""
_MOST_PARALLEL = 16
_UNKNOWN_RISE = 0.5
"""Surprise of a counter's second step, in usual steps: more than that of one that is expected, less than of others."""


@dataclass(slots=True)
class _Advance:
    """A counter that advances while others do."""

    steps: list[float]
    rise: float = 0.0
    returns: int = 0
    """Number of times that it continued after another one far from it."""

    def surprise_at(self, step: float, unit: float) -> float:
        """The difference of its next step from the usual one; infinite where it does not continue there."""
        rise = step - self.steps[-1]
        if not 0 <= rise <= _LEAP * (self.rise or unit):
            return inf
        return abs(rise - self.rise) if self.rise else _UNKNOWN_RISE * unit


def parallel_counters(steps: Sequence[float]) -> list[Sequence[float]]:
    """The counters that advance at once in the step numbers of one log: 1, 301, 2, 302 are two; mostly it is one.

    Runs or parts of one that write to the same log do that. An epoch or a run that begins again after the last one does
    not return to it; ranks at nearly the same step are one counter.
    """
    falls = sum(after < before for before, after in pairwise(steps))
    if falls < max(_FEWEST_RETURNS, _RETURNING * len(steps) / _MOST_PARALLEL):
        return [steps]
    recent: list[_Advance] = []
    found: list[_Advance] = []
    unit = _usual(pairwise(sorted(set(steps))))
    for step in steps:
        surprises = [one.surprise_at(step, unit) for one in recent]
        least = min(surprises, default=inf)
        if least == inf:
            recent.insert(0, _Advance([step]))
            found.append(recent[0])
            del recent[_MOST_PARALLEL:]
            continue
        at = surprises.index(least)
        one = recent.pop(at)
        one.returns += at > 0 and abs(recent[0].steps[-1] - step) > _LEAP * (one.rise or unit)
        one.rise = step - one.steps[-1] or one.rise
        one.steps.append(step)
        recent.insert(0, one)
    parallel = [one for one in found if one.returns >= max(_FEWEST_RETURNS, _RETURNING * len(one.steps))]
    return [one.steps for one in parallel] if len(parallel) > 1 else [steps]


def _usual(pairs: Iterable[tuple[float, float]]) -> float:
    rises = sorted(after - before for before, after in pairs if after > before)
    return median(rises) if rises else 1.0


# --- Counters that count within others: the bar of an epoch's batches below that of the epochs ---

Moment = tuple[float, float]
_OPEN = (inf, inf)
_OUTER = frozenset(("items", "epochs", "step"))


def inner_of(view: RunView) -> set[int]:
    """The ids of counters, which are in order of their start, that count within another one of their log.

    The outer one was there before, continues until after them, and moved once for each pass of the inner ones, whatever
    their totals. A bar without a name that was drawn once and never used holds no epochs.
    """
    by_source: dict[int, list[WorkCounter]] = {}
    for counter in view.store.progress.counters.values():
        by_source.setdefault(counter.source, []).append(counter)
    found: set[int] = set()
    for of_log in by_source.values():
        passes = Counter[str]()
        for counter in of_log:
            passes[counter.kind] += counter.restarts + 1
        outside: dict[str, Moment] = {}
        """Until when the outer ones continue that counters of a kind may be in."""
        for counter in of_log:
            if counter.kind in outside and _moment(counter) <= outside[counter.kind]:
                found.add(id(counter))
            passes[counter.kind] -= counter.restarts + 1
            if counter.kind not in _OUTER or counter.total is None:
                continue
            until = _moment(counter) if counter.amount >= counter.total else _OPEN
            moved = counter.amount - counter.first_amount
            unused = not counter.label and not counter.amount and not counter.elapsed_s
            for kind, count in passes.items():
                if count > 0 and moved <= count and not (unused and kind == "epochs"):
                    outside[kind] = max(outside.get(kind, until), until)
    return found


def _moment(counter: WorkCounter) -> Moment:
    return counter.line, counter.time
