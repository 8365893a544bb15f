"""Whether a run has ended, and starts that fail in a row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from perfmon.store import SourceState, WorkCounter

from .activity import activity_of, inner_of
from .death import Death
from .first_cause import death_of, first_of, goes_on_elsewhere
from .runs import Boundary, banner, boundaries, run_began, under_way
from .silence import RUN_OVER
from .tracks import START_KINDS

if TYPE_CHECKING:
    from .run_view import RunView


# --- Starts that fail one after the other: a container or a server that dies before it is ready, and is started anew
# ---
#
# The banner of the next try says nothing of the failure of the one before: that stands until work goes on, or the
# server says that it is ready.


def tries_of(source: int, view: RunView) -> list[Boundary]:
    """The last tries of a log's start that began anew after a failure, one after the other."""
    tries: list[Boundary] = []
    for one in reversed([one for one in view.fact(boundaries) if one.source == source]):
        if not one.again:
            break
        tries.append(one)
    return tries[::-1]


def failed_start(view: RunView) -> Death | None:
    """What the last start died of that is tried once more, while the new try is neither ready nor at work."""
    dead = [death for state in view.store.sources if (death := _of_log(state, view)) is not None]
    return max(dead, key=lambda death: death.time, default=None)


def with_tries(death: Death | None, view: RunView) -> Death | None:
    """The death of a run, with the starts that failed before it where it died in its own."""
    if death is not None and view.fact(boundaries):
        source = death.cause.source
        tries = tries_of(source, view)
        if tries and not under_way(view.store.sources[source], view, tries[-1].line, death.cause.line):
            death.tries = _count(tries, view) + 1
    return death


def _of_log(state: SourceState, view: RunView) -> Death | None:
    tries = tries_of(state.index, view)
    if not tries or under_way(state, view, tries[-1].line, state.lines + 1):
        return None
    marks = view.store.progress.marks
    if any(mark.source == state.index and mark.kind == "end" and mark.line > tries[-1].line for mark in marks):
        return None
    own = [one.line for one in view.fact(boundaries) if one.source == state.index and one.line < tries[-1].line]
    since = own[-1] if own else 0
    words = [
        one
        for one in view.store.progress.failures
        if one.source == state.index and one.role != "context" and since <= one.last_line < tries[-1].line
    ]
    death = first_of(words, view)
    if death is None or death.cause.role == "order" or goes_on_elsewhere(death.cause, view):
        return None
    death.tries, death.anew = _count(tries, view), True
    return death


def _count(tries: list[Boundary], view: RunView) -> int:
    """How many failed; of failures that say the same only some are kept, but each try has its banner."""
    first, last = tries[0], tries[-1]
    told: dict[str, list[int]] = {}
    for mark in view.store.progress.marks:
        if mark.source == first.source and mark.kind == "begin" and first.began <= mark.line <= last.line:
            told.setdefault(banner(mark), []).append(mark.line)
    lines = max(told.values(), key=lambda lines: lines[-1], default=[])
    each = sum(line < first.line for line in lines)  # ranks and nodes may each print it
    return max(len(tries), len(lines) // each - 1 if each else 0)


def death_of_run(view: RunView) -> Death | None:
    """What the last run in the logs died of."""
    return with_tries(death_of(view), view)


# --- Whether a run has ended: it said so, or its work is done ---

_LAST_LINES = 200
"""Behind a counter that reached its total so many lines may follow: metrics, a summary, a save."""
_AFTERWARDS = frozenset(("checkpoint", "checkpoint-write", "evaluation"))
"""What a run whose work is done still does: it saves, and evaluates once more."""
_EPOCH = re.compile(r"(?i)(?<![\"'])\bepoch\W{0,3}(\d+)(?![.\d])(?:\s?/\s?(\d+))?")


def finished_at(view: RunView) -> float | None:
    """When the last run said that it ended, or made its last step; None where it did neither."""
    low = view.fact(run_began)
    moments: list[float] = []
    waited_for = [state for state in view.store.sources if not state.polled and _works(state, view)]
    for state in waited_for:
        moment = log_finished_at(state, view)
        if moment is None:
            continue
        moments.append(moment)
    over = _says_over(waited_for, view)
    if not moments and over is None:
        return None
    moments += [] if over is None else [over]
    steps = {track.source for track in view.fact(activity_of).tracks if track.is_step}
    important = [state for state in waited_for if state.index in steps] or waited_for
    done = [log_finished_at(state, view) for state in important]
    if not any(one is not None and one >= low for one in done) and over is None:
        return None
    last = max(moments)
    ended = {state.index for state in waited_for if log_finished_at(state, view) is not None}
    later = [
        time
        for track in view.fact(activity_of).tracks
        if track.is_step and track.source in steps - ended
        for time in track.times
        if time > last + 1.0
    ]
    return None if later else last


def _says_over(logs: list[SourceState], view: RunView) -> float | None:
    """When a log said, in words that no format knows, that the run, and not only a part of it, is over."""
    return max(
        (
            state.last + view.shift(state.index)
            for state in logs
            if state.last is not None and RUN_OVER.search(state.last_line[1])
        ),
        default=None,
    )


def _works(state: SourceState, view: RunView) -> bool:
    return any(True for _ in view.store.progress.of(state.index)) or any(
        mark.source == state.index and mark.kind == "end" for mark in view.store.progress.marks
    )


def log_finished_at(state: SourceState, view: RunView) -> float | None:
    """When a log's last run said its last words, or its counter of steps reached its total."""
    log, shift = view.store.progress, view.shift(state.index)
    own = [one.line for one in view.fact(boundaries) if one.source == state.index]
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
        done = is_full(biggest) and id(biggest) not in view.fact(inner_of) and state.lines - biggest.line <= _LAST_LINES
        if done and biggest.line >= last - _LAST_LINES:
            return biggest.time + shift
    return _last_epoch_at(state, since, last, view)


def _last_work(state: SourceState, view: RunView) -> int:
    """The line of a log that told of work last."""
    work = [t for t in view.store.progress.of(state.index) if t.kind not in START_KINDS and t.kind not in _AFTERWARDS]
    return max((track.last_line for track in work), default=0)


def _last_epoch_at(state: SourceState, since: int, last: int, view: RunView) -> float | None:
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
            return counter.time + view.shift(state.index)
    return None


def _only_full_bars(state: SourceState, end: int, view: RunView) -> bool:
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


def over_at(view: RunView) -> float | None:
    """When the run failed or ended; None where it goes on."""
    death = view.fact(death_of_run)
    return finished_at(view) if death is None else death.time
