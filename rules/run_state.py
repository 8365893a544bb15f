"""The state of a run in one word, and of each of its components: what the evidence proves, no more."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmon.model import Progress
from perfmon.progress import WorkCounter
from perfmon.sourcestate import SourceState

from .activity import START_KINDS, Activity, rhythm_at
from .stalls import START_BOUND_S, phase_limit
from .told_end import RUN_OVER

if TYPE_CHECKING:
    from .view import View

_QUIET_FROM_S = 600.0
"""A run that nobody proved to have ended is silent after so long without a line, and after five usual intervals."""
_QUIET_TIMES = 5.0
_LAST_LINES = 200
"""Behind a counter that reached its total so many lines may follow: metrics, a summary, a save."""


_AFTERWARDS = frozenset(("checkpoint", "checkpoint-write", "evaluation"))
"""What a run whose work is done still does: it saves, and evaluates once more."""
_EPOCH = re.compile(r"(?i)(?<![\"'])\bepoch\W{0,3}(\d+)(?![.\d])(?:\s?/\s?(\d+))?")


@dataclass(frozen=True, slots=True)
class RunState:
    """How a run, or one component of it, stands."""

    state: Progress
    since: float | None = None
    """When it came to that, on the run's axis, where that is known."""
    component: str = ""
    """Of what it is said; "" of the run."""


def state_of(view: View) -> RunState:
    """The state of the last run in the logs."""
    activity, low = view.activity, view.run_began
    events = [time for time in activity.events if time >= low]
    death = view.death
    if death is not None:
        return RunState(Progress.FAILED, death.time)
    ended = finished_at(view)
    if ended is not None:
        return RunState(Progress.FINISHED, ended)
    stalls = view.stalls
    if stalls and stalls[-1].end >= view.whole[1] - 1.0:
        return RunState(Progress.STALLED, stalls[-1].start)
    silent = _silent_since(view, activity)
    if silent is not None:
        return RunState(Progress.SILENT, silent)
    if not events:
        return RunState(Progress.STARTING if _seen(view) else Progress.SILENT, low if view.timed else None)
    return RunState(Progress.RUNNING, events[0])


def _seen(view: View) -> bool:
    return any(state.lines for state in view.store.sources if not state.polled)


def finished_at(view: View) -> float | None:
    """When the last run said that it ended, or made its last step; None where it did neither."""
    low = view.run_began
    moments: list[float] = []
    waited_for = [state for state in view.store.sources if not state.polled and _works(state, view)]
    for state in waited_for:
        moment = _log_finished_at(state, view)
        if moment is None:
            continue
        moments.append(moment)
    over = _says_over(waited_for, view)
    if not moments and over is None:
        return None
    moments += [] if over is None else [over]
    steps = {track.source for track in view.activity.tracks if track.is_step}
    important = [state for state in waited_for if state.index in steps] or waited_for
    done = [_log_finished_at(state, view) for state in important]
    if not any(one is not None and one >= low for one in done) and over is None:
        return None
    last = max(moments)
    ended = {state.index for state in waited_for if _log_finished_at(state, view) is not None}
    later = [
        time
        for track in view.activity.tracks
        if track.is_step and track.source in steps - ended
        for time in track.times
        if time > last + 1.0
    ]
    return None if later else last


def _says_over(logs: list[SourceState], view: View) -> float | None:
    """When a log said, in words that no format knows, that the run, and not only a part of it, is over."""
    return max(
        (
            state.last + view.shifts.get(state.index, 0.0)
            for state in logs
            if state.last is not None and RUN_OVER.search(state.last_line[1])
        ),
        default=None,
    )


def _works(state: SourceState, view: View) -> bool:
    return any(True for _ in view.store.progress.of(state.index)) or any(
        mark.source == state.index and mark.kind == "end" for mark in view.store.progress.marks
    )


def _log_finished_at(state: SourceState, view: View) -> float | None:
    """When a log's last run said its last words, or its counter of steps reached its total."""
    log, shift = view.store.progress, view.shifts.get(state.index, 0.0)
    own = [one.line for one in view.boundaries if one.source == state.index]
    since = own[-1] if own else 0
    last = _last_work(state, view)
    ends = [mark for mark in log.marks if mark.source == state.index and mark.kind == "end" and mark.line >= since]
    if ends and (ends[-1].line >= last or _only_full_bars(state, ends[-1].line, view)):
        return ends[-1].time + shift
    full = [
        counter
        for counter in log.counters.values()
        if counter.source == state.index and counter.kind == "step" and counter.total and counter.line >= since
    ]
    if full:
        biggest = max(full, key=lambda counter: counter.total or 0.0)
        done = is_full(biggest) and id(biggest) not in view.inner and state.lines - biggest.line <= _LAST_LINES
        if done and biggest.line >= last - _LAST_LINES:
            return biggest.time + shift
    return _last_epoch_at(state, since, last, view)


def _last_work(state: SourceState, view: View) -> int:
    """The line of a log that told of work last."""
    work = [t for t in view.store.progress.of(state.index) if t.kind not in START_KINDS and t.kind not in _AFTERWARDS]
    return max((track.last_line for track in work), default=0)


def _last_epoch_at(state: SourceState, since: int, last: int, view: View) -> float | None:
    """When a log told the results of its last epoch: one line an epoch, and nothing of the kind behind it."""
    full = [
        counter
        for counter in view.store.progress.counters.values()
        if counter.source == state.index and counter.kind == "epochs" and counter.elapsed_s is None
        and counter.total and counter.amount >= counter.total and not counter.restarts
        and since <= counter.line == last and state.lines - counter.line <= _LAST_LINES
    ]  # fmt: skip
    for counter in full:
        losses = [
            line
            for (metric, _), series in view.store.series.items()
            if metric == "loss"
            for line, source in zip(series.lines, series.sources, strict=True)
            if source == state.index
        ]
        if losses and losses[-1] == counter.line:
            return counter.time + view.shifts.get(state.index, 0.0)
    return None


def _only_full_bars(state: SourceState, end: int, view: View) -> bool:
    """Behind the last words stand bars alone that are full: what is drawn once more, or a last evaluation."""
    log = view.store.progress
    behind = [counter for counter in log.counters.values() if counter.source == state.index and counter.line > end]
    told = _last_work(state, view)
    return (
        any(counter.line >= told for counter in behind)
        and all(counter.total and counter.amount >= counter.total for counter in behind)
        and not any(counter.kind in START_KINDS for counter in behind)
    )  # what is loaded is for more work


def is_full(counter: WorkCounter) -> bool:
    """Whether a counter reached its total, and that is the run's: one that counts within an epoch begins anew."""
    if counter.total is None or counter.amount < counter.total or counter.restarts:
        return False
    epoch = _EPOCH.search(counter.text)
    return epoch is None or (epoch[2] is not None and float(epoch[1]) >= float(epoch[2]))


def _silent_since(view: View, activity: Activity) -> float | None:
    """Since when no log of a run that is watched printed a line, where that is long and nothing proves an end."""
    if view.present is None:
        return None
    logs = [state for state in view.store.sources if not state.polled and state.lines]
    if not logs or any(state.murmurs for state in logs):
        return None  # lines without a clock came after the last dated one
    last = view.told[1]
    rhythm = rhythm_at(activity, last, view.present)
    usual = rhythm.usual_s if rhythm is not None else 0.0
    bound = max(_QUIET_FROM_S, _QUIET_TIMES * usual, phase_limit(view, logs, last, view.present))
    if not activity.count:
        bound = max(bound, START_BOUND_S)
    return last if view.present - last > bound else None


def component_states(view: View) -> tuple[RunState, ...]:
    """The same of each component that the logs name, by name."""
    whole = view.state
    found: dict[str, list[SourceState]] = {}
    for state in view.store.sources:
        if not state.polled and state.lines:
            for name in state.components:
                found.setdefault(name, []).append(state)
    return tuple(
        RunState(_component(states, whole, view), None, name) for name, states in sorted(found.items()) if name
    )


def _component(states: list[SourceState], whole: RunState, view: View) -> Progress:
    indices = {state.index for state in states}
    death = view.death
    if death is not None and death.cause.source in indices:
        return Progress.FAILED
    if any(_log_finished_at(state, view) is not None for state in states):
        return Progress.FINISHED
    times = [
        time
        for track in view.activity.tracks
        if track.source in indices and track.kind not in START_KINDS
        for time in track.times[-1:]
    ]
    if not times:
        return Progress.STARTING
    if whole.state is Progress.STALLED and not all(state.idle_silence for state in states):
        return Progress.STALLED
    return whole.state if whole.state is Progress.SILENT else Progress.RUNNING
