"""The state of a run in one word, and of each of its components: what the evidence proves, no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmon.core import Progress
from perfmon.store import SourceState

from .activity import Activity, activity_of, rhythm_at
from .finished import death_of_run, finished_at, log_finished_at
from .runs import run_began, work_of
from .stalls import START_BOUND_S, phase_limit, stalls_of

if TYPE_CHECKING:
    from .run_view import RunView

_QUIET_FROM_S = 600.0
"""A run without proof of its end is silent after so long without a line, and after five usual intervals."""
_QUIET_TIMES = 5.0
_RANKS_WAIT, _WARNED = ("ranks-missing", "ranks-waiting"), 3
"""Marks of warnings that some ranks wait for others, and how many of them without progress prove a stall."""


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run, or of one component of it."""

    state: Progress
    since: float | None = None
    """Since when, on the run's axis, where that is known."""
    component: str = ""
    """"" for the whole run."""


def state_of(view: RunView) -> RunState:
    """The state of the last run in the logs."""
    activity, low = view.fact(activity_of), view.fact(run_began)
    events = [time for time in activity.events if time >= low]
    death = view.fact(death_of_run)
    if death is not None:
        return RunState(Progress.FAILED, death.time)
    ended = finished_at(view)
    if ended is not None:
        return RunState(Progress.FINISHED, ended)
    stalls = view.fact(stalls_of)
    if stalls and stalls[-1].end >= view.whole[1] - 1.0:
        return RunState(Progress.STALLED, stalls[-1].start)
    waiting = _ranks_wait_since(view, activity)
    if waiting is not None:
        return RunState(Progress.STALLED, waiting)
    silent = _silent_since(view, activity)
    if silent is not None:
        return RunState(Progress.SILENT, silent)
    if not events:
        return RunState(
            Progress.STARTING if any(one.lines for one in view.logs) else Progress.SILENT, low if view.timed else None
        )
    return RunState(Progress.RUNNING, events[0])


def _ranks_wait_since(view: RunView, activity: Activity) -> float | None:
    """Since when ranks wait for others by repeated warnings behind the last progress, if no other log makes any."""
    for series in (one for name in _RANKS_WAIT for one in view.marked(name)):
        source = series.sources[-1]
        last = max((track.last_line for track in work_of(source, view)), default=0)
        rows = zip(series.times, series.lines, series.sources, strict=True)
        times = [time + view.shift(source) for time, line, of in rows if of == source and line > last]
        others = [track.times[-1] for track in activity.work if track.source != source]
        if len(times) >= _WARNED and max(others, default=times[0]) <= times[0] + 1.0:
            return times[0]
    return None


def _silent_since(view: RunView, activity: Activity) -> float | None:
    """Since when no log of a monitored run printed a line, where that is long and nothing proves an end."""
    if view.present is None:
        return None
    logs = [state for state in view.logs if state.lines]
    if not logs or any(state.murmurs for state in logs):
        return None  # lines without a clock came after the last dated one
    last = view.reported[1]
    rhythm = rhythm_at(activity, last, view.present)
    usual = rhythm.usual_s if rhythm is not None else 0.0
    bound = max(_QUIET_FROM_S, _QUIET_TIMES * usual, phase_limit(view, logs, last, view.present))
    if not activity.count:
        bound = max(bound, START_BOUND_S)
    return last if view.present - last > bound else None


def component_states(view: RunView) -> tuple[RunState, ...]:
    """The same of each component that the logs name, by name."""
    whole = view.fact(state_of)
    found: dict[str, list[SourceState]] = {}
    for state in view.logs:
        for name in state.components if state.lines else ():
            found.setdefault(name, []).append(state)
    return tuple(
        RunState(_component(states, whole, view), None, name) for name, states in sorted(found.items()) if name
    )


def _component(states: list[SourceState], whole: RunState, view: RunView) -> Progress:
    indices = {state.index for state in states}
    death = view.fact(death_of_run)
    if death is not None and death.cause.source in indices:
        return Progress.FAILED
    if any(log_finished_at(state, view) is not None for state in states):
        return Progress.FINISHED
    if not any(track.source in indices for track in view.fact(activity_of).work):
        return Progress.STARTING
    if whole.state is Progress.STALLED and not all(state.idle_silence for state in states):
        return Progress.STALLED
    return whole.state if whole.state is Progress.SILENT else Progress.RUNNING
