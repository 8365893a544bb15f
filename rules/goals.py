"""Goals of a run: its progress towards its end, its time limit, and its productive time."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

from perfmon.core import Fields, Ref, Window, format_seconds, median, union, without
from perfmon.store import COUNTED, WorkCounter

from .activity import BLOCK, FEW, PHASE_KINDS, Track, activity_of, at_once, inner_of, rhythm_at
from .death_of_run import death_of_run, over_at
from .interruptions import phase_limit
from .runs import boundaries, last_run_line, run_began
from .stalls import main_logs
from .tracks import START_KINDS, Item

if TYPE_CHECKING:
    from .run_view import RunView


# --- The progress of a run towards its end, and the time limit that a scheduler or the user has set ---

LIMIT, DEADLINE = "time_limit_s", "deadline_at"
"""Metrics: seconds that a run may last from its start, and until when, on the clock of the log that reports it."""
LIMIT_VALUES = ("needs_s", "left_s", "short_s")
_LEAST_MADE, _LEAST_TOOK_S = 10.0, 120.0
"""The first steps compile and fill caches: their time is not that of the others."""
_STEP_TIME, _LATEST = "step_s", 100
"""The metric of lines that state what a step took, and so many of the latest."""
_CLOSE = 1.1
"""An estimate that is a tenth too long is no news."""
_MORE_THAN_AN_EPOCH = 2.0
_BRIEF_S = 5.0
_BEFORE_S = 600.0
"""A script or a scheduler reports the limit before the run prints its own first line."""


@dataclass(frozen=True, slots=True)
class Way:
    """A counter, and the seconds that it still takes at its usual speed, or by its own line."""

    counter: WorkCounter
    amount: float
    remaining_s: float | None
    proven: bool
    """It has advanced enough for the remaining time to be trusted."""


@dataclass(frozen=True, slots=True)
class Phase:
    """The work of a run now that is not its steps, and how far it is with that."""

    name: str
    """evaluating or loading"""
    done: float
    total: float


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """The time limit of a run."""

    left_s: float
    """From the end of what is observed; below 0: it is over."""
    ref: Ref
    text: str


def way_of(view: RunView) -> Way | None:
    """The progress of the run, by the counter of its steps with the highest total.

    One that restarted within a run counts a part of it: an epoch, the rollouts of one batch; so does one that counts
    within another. Where several advance at once in a log, none of them is the run's.
    """
    begun = Counter(boundary.source for boundary in view.fact(boundaries))
    counters = [
        counter
        for counter in view.store.progress.counters.values()
        if counter.total
        and counter.line >= last_run_line(counter.source, view)
        and counter.restarts <= begun[counter.source]
        and counter.kind not in START_KINDS
        and not view.store.sources[counter.source].idle_silence
        and not (counter.kind == "step" and counter.source in view.fact(at_once))
        and id(counter) not in view.fact(inner_of)
    ]
    counted = {one.source for one in view.store.progress.counters.values() if one.kind == "epochs" and one.amount}
    counters = [one for one in counters if one.amount or one.source not in counted]  # the first batch of each epoch
    counters = [counter for counter in counters if counter.kind == "step"] or counters
    last: dict[int, int] = {}
    for one in view.store.progress.counters.values():
        counts = one.amount and id(one) not in view.fact(inner_of)
        last[one.source] = max(last.get(one.source, 0), one.line if counts else 0)
    main = [one for one in counters if not _is_on_the_side(one) and (one.amount or one.line > last[one.source])]
    main = [one for one in main if not _was_before(one, view)]
    counters = main or [
        one
        for one in counters
        if one.kind in COUNTED or (_is_all_there_is(one, view) and not (_is_on_the_side(one) and _died(view)))
    ]
    if not counters:
        return None
    best = max(counters, key=lambda counter: (counter.total or 0.0, counter.time))
    best = next((one for one in _counters_of_epochs(view) if best.kind == "step" and _holds(one, best)), best)
    amount = _by_epochs(best, view)
    left = max(0.0, (best.total or 0.0) - amount) or _left_of_last_epoch(best, view)
    made, took = best.amount - best.first_amount, best.time - best.first
    if best.first + view.shift(best.source) < view.fact(run_began) and best.elapsed_s is None:
        made, took = _since_it_began(best, view)
    elif best.elapsed_s is not None and best.first_elapsed_s is not None:  # its own clock knows better than its lines'
        took = best.elapsed_s - best.first_elapsed_s
    remaining = left * took / made if made > 0 and took > 0 else best.remaining_s
    if remaining is None and best.kind == "step":  # no clock
        remaining = _by_step_time(left, best.source, view)
    if left and view.fact(over_at) is not None:  # it does not continue
        remaining = None
    return Way(best, amount, remaining if left else 0.0, made >= _LEAST_MADE and took >= _LEAST_TOOK_S)


def _by_epochs(counter: WorkCounter, view: RunView) -> float:
    """The amount of a counter; of one that stopped, as the output of its bar was lost, by the epochs of the lines that
    go on."""
    epochs = view.store.progress.counters.get((counter.source, "epoch", ""))
    if epochs is None or not counter.epoch or not counter.total or epochs.amount <= counter.epoch or epochs.restarts:
        return counter.amount
    return min(counter.total, counter.amount * epochs.amount / counter.epoch)


def _left_of_last_epoch(epochs: WorkCounter, view: RunView) -> float:
    """The share of the last epoch that is left, by the steps within it, where the number of epochs is that of the
    current one."""
    if epochs.kind != "epochs" or not epochs.began_at:
        return 0.0
    within = [
        one
        for one in view.store.progress.counters.values()
        if one.source == epochs.source and one.kind == "step" and one.total and one.line >= epochs.line
    ]
    last = max(within, key=lambda one: one.line, default=None)
    return 0.0 if last is None else max(0.0, 1.0 - last.amount / (last.total or 1.0))


def _since_it_began(counter: WorkCounter, view: RunView) -> tuple[float, float]:
    """Progress of a counter in the last run of its log, and its seconds: the time between runs is none of it."""
    since = last_run_line(counter.source, view)
    series = view.store.steps.get("trainer") if counter.kind == "step" else None
    if series is not None:
        rows = zip(series.times, series.values, series.lines, series.sources, strict=True)
        made = [(time, step) for time, step, line, source in rows if source == counter.source and line >= since]
        if len(made) > 2 and made[-1][1] > made[0][1]:
            return made[-1][1] - made[0][1], made[-1][0] - made[0][0]
    track = view.store.progress.tracks.get((counter.source, counter.kind))
    times = [time for time, line in zip(track.times, track.lines, strict=True) if line >= since] if track else []
    return ((len(times) - 1) * counter.rise, times[-1] - times[0]) if len(times) > 2 else (0.0, 0.0)


def _counters_of_epochs(view: RunView) -> list[WorkCounter]:
    """The counters of several epochs with a total."""
    return [one for one in view.store.progress.counters.values() if one.kind == "epochs" and (one.total or 0.0) > 1.0]


def _holds(epochs: WorkCounter, steps: WorkCounter) -> bool:
    """True in the first epoch, where the same lines contain both: the steps may be those of one epoch. They are, where
    they made far more of their total than one epoch is of all."""
    if epochs.amount != epochs.first_amount or epochs.restarts or epochs.source != steps.source:
        return False
    share = (steps.amount - steps.first_amount) / (steps.total or 1.0)
    return epochs.line == steps.line or share * (epochs.total or 0.0) > _MORE_THAN_AN_EPOCH


def _by_step_time(left: float, source: int, view: RunView) -> float | None:
    """Seconds that steps take by what the lines of a log state of each; None where they do not."""
    stated = [
        value
        for (metric, _), series in view.store.series.items()
        if metric == _STEP_TIME
        for value, of in zip(series.values[-_LATEST:], series.sources[-_LATEST:], strict=True)
        if of == source
    ]
    return left * median(stated) if len(stated) >= _LEAST_MADE else None


def _was_before(counter: WorkCounter, view: RunView) -> bool:
    """True for what was through before the steps, epochs or the like of its log began: the data were read."""
    if counter.kind in COUNTED or counter.total is None or counter.amount < counter.total:
        return False
    tracks = [one for one in view.store.progress.of(counter.source) if one.kind in COUNTED]
    return any(track.lines and track.lines[0] > counter.line for track in tracks)


def _died(view: RunView) -> bool:
    """True for a run that failed: what was over at once before was none of its work."""
    return view.fact(death_of_run) is not None


def _is_all_there_is(counter: WorkCounter, view: RunView) -> bool:
    """True for the bar of a script that does nothing else: what a trainer copies, or reads before, is no goal."""
    tracks = view.store.progress.of(counter.source)
    return counter.kind != "bytes" and all(t.kind == counter.kind and t.last_line <= counter.line for t in tracks)


_LOADED = ("shards", "files", "model-load")
_EVALUATES = re.compile(r"(?i)eval|valid|\btest|predict")


def phase_of(view: RunView) -> Phase | None:
    """The evaluation whose bar moves since the last step, or what is loaded before the first one; None elsewhere.

    A bar without a name that begins after steps, and does not count them, is that of an evaluation.
    """
    way, counters = view.fact(way_of), view.store.progress.counters.values()
    last = max(counters, key=lambda one: (one.time + view.shift(one.source), one.line), default=None)
    if last is None or not last.total or last.amount >= last.total or last.line < last_run_line(last.source, view):
        return None
    if last.kind in _LOADED and not view.fact(activity_of).step_times:
        return Phase("loading", last.amount, last.total)
    steps = [track.times[-1] for track in view.fact(activity_of).tracks if track.is_step]
    named = _EVALUATES.search(last.key) is not None
    after = bool(steps) and last.first + view.shift(last.source) >= max(steps)
    is_main = last.kind in COUNTED or (way is not None and way.counter is last) or bool(last.restarts and not named)
    if is_main or not after or not (named or (last.kind == "items" and not last.label)):
        return None
    return Phase("evaluating", last.amount, last.total)


def _is_on_the_side(counter: WorkCounter) -> bool:
    """True for what is copied, and for what is over within seconds by its own clock, as a map over a data set is."""
    took = counter.elapsed_s
    return counter.kind == "bytes" or (
        took is not None and took <= _BRIEF_S and counter.amount >= (counter.total or 0.0)
    )


def limit_of(view: RunView) -> TimeLimit | None:
    """The limit of the last run, where a line reports one; of several the first that is reached."""
    now, began = view.whole[1], view.fact(run_began)
    found: list[TimeLimit] = []
    for (metric, _), series in view.store.series.items():
        if metric not in (LIMIT, DEADLINE):
            continue
        for at in range(len(series)):
            source = series.sources[at]
            shift = view.shift(source)
            if series.times[at] + shift < began - _BEFORE_S:
                continue  # an earlier run's
            until = began + series.values[at] if metric == LIMIT else series.values[at] + shift
            if until > began and (metric == LIMIT or view.timed):
                found.append(TimeLimit(until - now, series.ref(at), series.text(at)))
    return min(found, key=lambda limit: limit.left_s, default=None)


def limit_items(view: RunView) -> list[Item]:
    """An item where the run needs longer than it may last."""
    way, limit = view.fact(way_of), view.fact(limit_of)
    if way is None or limit is None or not way.proven or not way.remaining_s or view.fact(over_at) is not None:
        return []
    if way.remaining_s <= _CLOSE * limit.left_s:
        return []
    counter, now = way.counter, view.window[1]
    values = {"needs_s": way.remaining_s, "left_s": limit.left_s, "short_s": way.remaining_s - limit.left_s}
    fields: Fields = {
        "needs": format_seconds(way.remaining_s),
        "left": format_seconds(max(0.0, limit.left_s)),
        "reached": f"{way.amount:,.0f} of {counter.total or 0.0:,.0f}",
    }
    refs = [(limit.ref, limit.text)]
    if counter.text:
        refs.append((Ref(counter.source, counter.line, 0), counter.text))
    return [Item(now, now, values, fields, refs, source=limit.ref.source)]


# --- Productive time, and the time in which an evaluation or a checkpoint held up the work ---

_PRODUCTIVE = 2.0
"""Times the usual interval that is proven by two events."""
_EDGE_S = 1e-3
_COMMUNICATION = "collectives"
"""Progress that proves no work: ranks wait for each other within it."""
HOLDING = frozenset(("checkpoint-write", "evaluation"))
"""Kinds of phases in which a trainer makes no steps, unless it makes them at the same time."""


def productive_of(view: RunView) -> list[Window]:
    """The time that was spent on progress, by evidence: between two events of a kind up to twice their usual interval,
    and what work took by its lines."""
    everywhere = {state.index for state in view.store.sources}
    low, high = view.window
    proven = [*_by_tracks(view, everywhere), *_by_spans(view, everywhere), *_before_the_logs(view)]
    return union((max(a, low), min(b, high)) for a, b in proven if b > low and a < high)


def held_up(kind: str, view: RunView) -> list[Window]:
    """The time in which phases of a kind held up the work: no step ended, and no other component was at work."""
    spans = view.spans(kind)
    if not spans:
        return []
    steps = view.fact(activity_of).step_times
    work_of_others: dict[int, list[Window]] = {}
    found: list[Window] = []
    for item in spans:
        if bisect_left(steps, item.end - _EDGE_S) > bisect_right(steps, item.start + _EDGE_S):
            continue  # it is written while the work continues
        if item.source not in work_of_others:
            others = _others(item, view)
            work = union([*_by_tracks(view, others), *_by_spans(view, others)]) if others else []
            work_of_others[item.source] = work
        found += without([(item.start, item.end)], work_of_others[item.source])
    return union(found)


def _others(item: Item, view: RunView) -> set[int]:
    """Logs of other components than the one that reports a phase."""
    own = view.store.sources[item.source].components
    return {one.index for one in view.logs if one.components and own and own.isdisjoint(one.components)}


def _by_tracks(view: RunView, sources: Collection[int]) -> Iterable[Window]:
    tracks = [
        track for track in view.fact(activity_of).work if track.source in sources and track.kind != _COMMUNICATION
    ]
    steady = [track for track in tracks if track.kind not in PHASE_KINDS]
    if any(len(track.times) >= FEW for track in steady):
        tracks = steady  # occasional progress does not measure the time between
    for track in tracks:
        yield from _of_track(track, view)


def _of_track(track: Track, view: RunView) -> Iterable[Window]:
    times, since = track.times, track.times[0]
    gaps = [after - before for before, after in pairwise(times)]
    for begin in range(0, len(gaps), BLOCK):
        near = [gap for gap in gaps[max(0, begin - BLOCK // 2) : begin + BLOCK + BLOCK // 2] if gap > 0]
        usual = max(median(near or [0.0]), track.resolution_s)
        for at, gap in enumerate(gaps[begin : begin + BLOCK], begin):
            if gap > _PRODUCTIVE * usual:
                yield (since, times[at] + usual)
                since = times[at + 1] - usual
    yield (since, times[-1])
    if len(gaps) < FEW - 1:
        return
    if view.fact(death_of_run) is None:  # what is under way
        usual = max(median(gaps[-BLOCK:]), track.resolution_s)
        if view.whole[1] - times[-1] <= _PRODUCTIVE * usual:
            yield (times[-1], view.whole[1])
    if track.is_step:  # the first step took about as long as the others
        yield (times[0] - median(gaps), times[0])


def _before_the_logs(view: RunView) -> Iterable[Window]:
    """The time before a progress bar is first seen, by its line: a log may start, or be cut, within one."""
    for counter in view.store.progress.counters.values():
        if counter.before is not None and counter.kind not in START_KINDS:
            shift = view.shift(counter.source)
            yield (counter.before[0] + shift, counter.before[1] + shift)
        elif _was_seen_twice(counter, view):
            shift, took = view.shift(counter.source), counter.elapsed_s or 0.0
            yield (counter.time + shift - took * (counter.amount - 1) / counter.amount, counter.time + shift)


def _was_seen_twice(counter: WorkCounter, view: RunView) -> bool:
    """True for a bar that was drawn empty and next full, in a log without a clock: all of its time was work."""
    return (
        view.store.sources[counter.source].clockless
        and counter.kind not in START_KINDS
        and not counter.restarts
        and not counter.first_amount
        and not counter.first_elapsed_s
        and counter.elapsed_s is not None
        and counter.total is not None
        and counter.amount == counter.rise == counter.total > 1
    )


def _by_spans(view: RunView, sources: Collection[int]) -> Iterable[Window]:
    for kind in view.span_kinds:
        if kind not in START_KINDS and kind not in HOLDING and not kind.endswith("-wait"):
            yield from ((item.start, item.end) for item in view.spans(kind) if item.source in sources)


# --- The rhythm of its progress ---


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of the progress of a run."""

    last: float
    """The time of its last progress, on the axis of the run."""
    usual_s: float
    """Usual seconds from one to the next."""
    limit_s: float
    """Seconds without any from which on the run stands still."""
    of_steps: bool
    """The progress is that of steps."""
    step_s: float | None = None
    """Seconds per step by the clock of the log, of the last ones; None where no line counts steps."""


_LATEST_STEPS = 6
"""Printed steps that show how long one takes now."""
_LATEST_WHOLE, _WHOLE_APART_S = 4, 20.0
"""The same where their clock has seconds only, and how far apart they are then: within a twentieth."""


def pace_of(view: RunView) -> Pace | None:
    """The rhythm of the run's progress; None before it has one, and without clocks."""
    events = view.fact(activity_of).events
    rhythm = rhythm_at(view.fact(activity_of), events[-1], view.window[1]) if view.timed and events else None
    if rhythm is None or rhythm.is_early:
        return None
    of_steps = bool(view.fact(activity_of).step_times)
    held = max((state.held_s for state in view.logs), default=0.0) if view.present is not None else 0.0
    limit = max(rhythm.limit_s, phase_limit(view, main_logs(view), events[-1], view.window[1])) + held
    return Pace(events[-1], rhythm.usual_s, limit, of_steps, _step_s(view) if of_steps else None)


def _step_s(view: RunView) -> float | None:
    """Seconds per step by the clock of the log with the latest step; one line may stand for several steps."""
    series = view.store.steps.get("trainer") or max(view.store.steps.values(), key=len, default=None)
    if series is None or not len(series.values) or series.sources[-1] in view.fact(at_once):
        return None
    latest: list[tuple[float, float]] = []
    last = (inf, inf)
    for at in range(len(series.values) - 1, -1, -1):
        if series.sources[at] != series.sources[-1]:
            continue
        (time, step), before = (series.times[at], series.values[at]), last
        if not (step < before[1] and time <= before[0]):
            break
        last = (time, step)
        whole = latest and not time % 1.0 and not latest[-1][0] % 1.0  # such clocks have seconds only
        if not whole or latest[-1][0] - time >= _WHOLE_APART_S:
            latest.append(last)
        if len(latest) == (_LATEST_WHOLE if whole else _LATEST_STEPS):
            break
    latest += [last] if len(latest) == 1 and last != latest[0] else []
    each = [(after[0] - before[0]) / (after[1] - before[1]) for after, before in pairwise(latest)]
    return median(each) if any(each) else None
