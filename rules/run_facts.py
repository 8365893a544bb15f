"""The normalised data of a run, with open spans up to the present and each reading once, and the facts derived from it.

Live and offline evaluation are the same; in a monitored run (`present`) a span that has not ended counts so far.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Generic, TypeVar

from perfmon.core import Progress, Window, length, union, without
from perfmon.store import SourceState

from .activity import Activity, activity_of, at_once, rhythm_at, startup_of
from .death import Death
from .death_of_run import GONE, death_of_run, failed_start, gone_at
from .duplicate_engines import find_duplicate_engines
from .finished import finished_at, log_finished_at
from .goals import held_up, limit_of, productive_of, way_of
from .interruptions import apart, phase_limit, restarts_of
from .open_spans import begun, in_flight, still_open
from .run_view import BY_START, RunView
from .runs import (
    READY,
    boundaries,
    downtime_of,
    last_run_line,
    refused_launches,
    run_began,
    wasted_of,
    work_of,
)
from .silence import source_gaps
from .stalls import START_BOUND_S, stalls_of
from .tracks import EMPTY, UPDATE, Column, Item, Stream, Track

if TYPE_CHECKING:
    from .run_view import RunView


# --- The state of a run in one word, and of each of its components: what the evidence proves, no more ---

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
    ended = view.fact(finished_at)
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
        return RunState(_before_work(view.logs, view), low if view.timed else None)
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


def _before_work(states: Sequence[SourceState], view: RunView) -> Progress:
    """The state of logs without progress: a server that is ready has started, whether requests come or not."""
    if not any(one.lines for one in states):
        return Progress.SILENT
    ready, gone = (_last_marks(name, states, view) for name in (READY, GONE))
    if not ready:
        is_gone = all(gone_at(one, view) is not None for one in states if one.lines)
        return Progress.UNKNOWN if is_gone else Progress.STARTING
    is_gone = all(gone.get(source, 0) > line for source, line in ready.items())
    return Progress.UNKNOWN if is_gone else Progress.RUNNING


def _last_marks(name: str, states: Sequence[SourceState], view: RunView) -> dict[int, int]:
    """The last line with a mark in each of the logs, in its last run."""
    found: dict[int, int] = {}
    since = {one.index: last_run_line(one.index, view) for one in states}
    for series in view.marked(name):
        for source, line in zip(series.sources, series.lines, strict=True):
            if source in since and line >= since[source]:
                found[source] = max(line, found.get(source, 0))
    return found


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


_REQUESTS = ("running", "waiting")
"""Metrics of the requests that a server has."""


def idle_since(view: RunView) -> float | None:
    """Since when the servers of a run have no request, where nothing but servers runs; None elsewhere.

    Their last statistics count: one that is idle may print none. Requests that came after them are work.
    """
    high = (view.clip or (-inf, inf))[1]
    since, seen, servers = -inf, -inf, set[int]()
    for (metric, _), series in view.store.series.items():
        if metric not in _REQUESTS or not len(series):
            continue
        zero: dict[int, float] = {}
        sources = set(series.sources)
        begins = {source: (view.shift(source), last_run_line(source, view)) for source in sources}
        for at in range(len(series) - 1, -1, -1):
            time, value, line, source = series.times[at], series.values[at], series.lines[at], series.sources[at]
            shift, begin = begins[source]
            if source not in sources or time + shift > high or line < begin:
                continue
            if value > 0 and source not in zero:
                return None
            if value > 0:
                sources.remove(source)
                if not sources:
                    break
                continue
            if metric == _REQUESTS[0]:
                seen = max(seen, time + shift)
            zero[source] = time + shift
        since = max(since, *zero.values(), -inf)
        servers |= zero.keys() if metric == _REQUESTS[0] else set()
    activity = view.fact(activity_of)
    others = [state for state in view.logs if state.lines and not state.idle_silence and state.index not in servers]
    if not view.timed or not servers or others or view.fact(state_of).state is not Progress.RUNNING:
        return None
    if any(track.is_step or track.source not in servers for track in activity.work):
        return None
    last = max((time for time in activity.events if time <= high), default=-inf)
    return max(since, last) if seen > last else None


_SERVER = "inference"


def last_output_of_servers(view: RunView) -> float | None:
    """Time of the last line of a run of nothing but servers that print nothing without requests, and are not known to
    be idle or at work: from then on they are idle, or hung. None elsewhere.
    """
    states = [state for state in view.logs if state.lines]
    servers = [state for state in states if state.idle_silence and not state.busy and _SERVER in state.components]
    if not view.timed or not states or servers != states:
        return None
    if view.fact(state_of).state not in (Progress.RUNNING, Progress.SILENT) or view.fact(idle_since) is not None:
        return None
    if any(track.is_step for track in view.fact(activity_of).work) or not view.fact(activity_of).work:
        return None
    passed = [state.passed + view.shift(state.index) for state in states if state.passed is not None]
    return max(view.reported[1], *passed, -inf)


_TOGETHER_S = 60.0
"""Reports of the engines of a server that are no further apart are of one time."""


def load_of(view: RunView) -> tuple[float, float] | None:
    """Requests that ran and that waited, by the last reports of servers that had work then; None without such servers,
    and where other logs show what the run does.
    """
    states = [state for state in view.logs if state.lines]
    if not states or not all(state.busy or state.idle_silence for state in states):
        return None
    busy = {state.index for state in states if state.busy}
    held: list[list[tuple[float, float]]] = []
    for metric in _REQUESTS:
        series = [one for (name, _), one in view.store.series.items() if name == metric and len(one)]
        last = [one for one in series if one.sources[-1] in busy]
        held.append([(one.times[-1] + view.shift(one.sources[-1]), one.values[-1]) for one in last])
    newest = max((time for rows in held for time, _ in rows), default=-inf)
    running, waiting = (sum(value for time, value in rows if newest - time <= _TOGETHER_S) for rows in held)
    return (running, waiting) if running + waiting > 0.0 else None


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
        return _before_work(states, view)
    if whole.state is Progress.STALLED and not all(state.idle_silence for state in states):
        return Progress.STALLED
    return whole.state if whole.state is Progress.SILENT else Progress.RUNNING


# --- The view: normalised data, and facts, each derived when it is first read ---

_T = TypeVar("_T")


class _Fact(Generic[_T]):
    """A fact as an attribute of a view, derived when it is first read."""

    def __init__(self, find: Callable[[RunView], _T]) -> None:
        self._find = find

    def __get__(self, view: RunView, owner: object) -> _T:
        return view.fact(self._find)


@dataclass
class View(RunView):
    """A run as conditions and reports read it."""

    # --- one normalisation ------------------------------------------------------------------------------------
    @cached_property
    def _spans(self) -> dict[str, list[Item]]:
        """The spans that have ended; in a monitored run with the certain part of those that have not."""
        spans = self._ended_spans()
        if self.recent_spans is not None:
            if UPDATE in spans:
                waiting = in_flight(self.recent_spans[UPDATE], self)
                spans[UPDATE] = sorted((*spans[UPDATE], *waiting), key=BY_START)
            for kind, opened in still_open(self, spans).items():
                spans[kind] = sorted((*spans.get(kind, ()), *opened), key=BY_START)
        return spans

    @cached_property
    def _judged(self) -> Mapping[str, Track]:
        """The tracks without what both a log and a poller report."""
        return self._deduplicated(self.metrics)

    @cached_property
    def marks(self) -> Mapping[str, Track]:
        """The track of every mark, deduplicated in the same way."""
        return self._deduplicated(self._merged(self.store.marks))

    def _deduplicated(self, tracks: Mapping[str, Track]) -> Mapping[str, Track]:
        engines = self.fact(find_duplicate_engines)
        return tracks if engines is None else {name: engines.deduplicate(track) for name, track in tracks.items()}

    def has_group(self, metric: str, group: str) -> bool:
        """Some samples of a metric are of this group."""
        engines = self.fact(find_duplicate_engines)
        renamed = engines is not None and metric in self._judged and (metric, group) in engines.given
        return renamed or super().has_group(metric, group)

    # --- facts ------------------------------------------------------------------------------------------------
    begun = _Fact(begun)
    """Start times of spans that have not ended, by kind."""
    source_gaps = _Fact(source_gaps)
    """Gaps without a line, log by log."""
    apart = _Fact(apart)
    """The time between different runs."""
    restarts = _Fact(restarts_of)
    """The beginnings of later runs in the same logs, by their steps."""
    activity = _Fact(activity_of)
    """The progress that the logs report."""
    at_once = _Fact(at_once)
    """The step counters that advance at once, of each log in which several do."""
    way = _Fact(way_of)
    """Progress of the run towards its last step."""
    limit = _Fact(limit_of)
    """Time limit of the run."""
    stalls = _Fact(stalls_of)
    """Time ranges without progress."""
    productive = _Fact(productive_of)
    """The time that was spent on progress, as evidence shows."""
    startup = _Fact(startup_of)
    """The time before the run got under way."""
    boundaries = _Fact(boundaries)
    """The beginnings of later runs in the same logs, by lines that state it."""
    refused_launches = _Fact(refused_launches)
    """Launches that were refused while an earlier one lives on."""
    run_began = _Fact(run_began)
    """Time at which the last run in the logs began."""
    downtime = _Fact(downtime_of)
    """The time between a run and the one that resumed it."""
    wasted = _Fact(wasted_of)
    """The time in which steps were made again."""
    death = _Fact(death_of_run)
    """Cause of death of the last run in the logs."""
    state = _Fact(state_of)
    """The state of the run."""

    def held_up(self, kind: str) -> list[Window]:
        """The time in which a phase of a kind held up the work."""
        return held_up(kind, self)

    @cached_property
    def observed_s(self) -> float:
        """Seconds of the window but for those between different runs."""
        return length(without([self.window], self.apart)) if self.window[1] > self.window[0] else 0.0

    @cached_property
    def interrupted(self) -> list[Window]:
        """The time in which no process was left that could continue, or one repeated steps after that."""
        after = [(self.death.time, self.window[1])] if self.death is not None and self.timed else []
        return union([*self.downtime, *self.wasted, *after])

    @cached_property
    def failed_start(self) -> Death | None:
        """The death of the last start, while it is retried."""
        return failed_start(self) if self.death is None else None


# --- Checkpoints of a run: when the last one was written, behind which step, and how many steps came after it ---

_REPORTED = "checkpoint"
"""Kind of progress of lines that report a checkpoint without its duration."""
_DISK_FULL, _EARLIER_S = "disk-full", 1e-3
_NEWEST = 64
"""Steps that show which logs report them."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that was written."""

    time: float
    """On the run's axis."""
    source: int
    line: int
    """Line of its log; 0 where only its time is known."""
    step: float | None = None
    """The last step that its log reports before it, or that names it; None where no line reports steps."""
    steps_after: float | None = None
    """Steps since then, up to the last one that the log reports."""


def last_checkpoint(view: RunView, before: float = inf) -> Checkpoint | None:
    """The last checkpoint of the run, at `before` (seconds on its axis) at the latest; None where there is none.

    Without clocks the order of the lines of one log is known, but not that of several logs.
    """
    found = max(_written(view, before), key=lambda one: (one.time, one.step is not None, one.line), default=None)
    made = None if found is None else _with_steps(found, view)
    death = view.fact(death_of_run)
    failed = made is not None and not made.steps_after and death is not None and death.cause.cause == _DISK_FULL
    if made is not None and failed and made.time < before:  # what was written when the disk was full is not there
        return last_checkpoint(view, made.time - _EARLIER_S)
    return made


def _written(view: RunView, before: float) -> Iterator[Checkpoint]:
    """The last checkpoint of each log and kind."""
    for track in view.store.progress.tracks.values():
        if track.kind.partition(":")[0] != _REPORTED or track.last_line < last_run_line(track.source, view):
            continue
        shift = view.shift(track.source)
        if before == inf:
            yield Checkpoint(track.times[-1] + shift, track.source, track.last_line)
        elif at := bisect_right(track.times, before - shift):
            yield Checkpoint(track.times[at - 1] + shift, track.source, track.lines[at - 1])
    for one in reversed(view.store.spans.get("checkpoint-write", ())):  # one that only began is none
        if one.end is not None and one.end + view.shift(one.source) <= before:
            step = float(one.key) if one.key.isdecimal() and len(one.key) < 16 else None
            line = max((ref.line for ref, _ in one.refs if ref.source == one.source), default=0)
            if line >= last_run_line(one.source, view):
                yield Checkpoint(one.end + view.shift(one.source), one.source, line, step)
                break


def _with_steps(found: Checkpoint, view: RunView) -> Checkpoint:
    """The checkpoint with its step: by the lines of its own log where these are known, else by time."""
    last, behind = _steps_around(found, view)
    step = found.step if found.step is not None else behind
    after = None if step is None or last is None or last < step else last - step
    return Checkpoint(found.time, found.source, found.line, step, after)


def _steps_around(found: Checkpoint, view: RunView) -> tuple[float | None, float | None]:
    """The last step of the run, and the last one that was reported before a checkpoint."""
    for series in sorted(view.store.steps.values(), key=lambda one: found.source not in one.sources[-_NEWEST:]):
        own, last = found.source in series.sources[-_NEWEST:], None
        if not own and not view.timed:
            continue
        for at in range(len(series) - 1, -1, -1):
            source = series.sources[at]
            if own and source != found.source:
                continue
            last = series.values[at] if last is None else last
            by_line = own and found.line > 0
            if series.lines[at] <= found.line if by_line else series.times[at] + view.shift(source) <= found.time:
                return last, series.values[at]
        return last, None
    return None, None


__all__ = [
    "EMPTY", "UPDATE", "Checkpoint", "Column", "Item", "RunState", "RunView", "Stream", "Track", "View",
    "component_states", "idle_since", "last_checkpoint", "last_output_of_servers", "load_of", "state_of",
]  # fmt: skip
