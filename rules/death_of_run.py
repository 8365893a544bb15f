"""The death of a run: by a failure, of starts that fail in a row, or of a process that is gone without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon.core import Fields, Ref
from perfmon.store import Failure, SourceState

from .activity import activity_of
from .death import Death
from .finished import broken_off, finished_at, short_name
from .first_cause import death_of, first_of, goes_on_elsewhere
from .runs import READY, Boundary, boundaries, last_run_line, under_way
from .silence import banner
from .tracks import START_KINDS

if TYPE_CHECKING:
    from .run_view import RunView


# --- Starts that fail in a row: a container or a server that dies before it is ready, and is restarted ---
#
# The banner of the next try is not about the failure of the one before: that stands until work continues, or the
# server reports that it is ready.


def tries_of(source: int, view: RunView) -> list[Boundary]:
    """The last consecutive tries of the start of a log that followed a failure."""
    tries: list[Boundary] = []
    for one in reversed([one for one in view.fact(boundaries) if one.source == source]):
        if not one.again:
            break
        tries.append(one)
    return tries[::-1]


def failed_start(view: RunView) -> Death | None:
    """The death of the last start that is retried, while the new try is neither ready nor at work."""
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
    if any(mark.line > tries[-1].line for mark in view.run_marks(state.index, "end")):
        return None
    own = [one.line for one in view.fact(boundaries) if one.source == state.index and one.line < tries[-1].line]
    since = own[-1] if own else 0
    last = [one for one in view.failures(state.index) if since <= one.last_line < tries[-1].line]
    death = first_of([one for one in last if one.role != "context"], view)
    if death is None or death.cause.role == "order" or goes_on_elsewhere(death.cause, view):
        return None
    death.tries, death.anew = _count(tries, view), True
    return death


def _count(tries: list[Boundary], view: RunView) -> int:
    """The number of failed tries; of equal failures only some are kept, but each try has its banner."""
    first, last = tries[0], tries[-1]
    banners: dict[str, list[int]] = {}
    for mark in view.run_marks(first.source, "begin"):
        if first.began <= mark.line <= last.line:
            banners.setdefault(banner(mark), []).append(mark.line)
    lines = max(banners.values(), key=lambda lines: lines[-1], default=[])
    each = sum(line < first.line for line in lines)  # ranks and nodes may each print it
    return max(len(tries), len(lines) // each - 1 if each else 0)


def death_of_run(view: RunView) -> Death | None:
    """The death of the last run in the logs."""
    return with_tries(death_of(view) or _ended_in_start(view) or _ended_at_work(view), view)


# --- A process that is gone in the middle of its start, and no line states why ---
#
# Python's tracker of shared resources prints what a process left when that and all that it forked have ended: killed,
# crashed, or after an orderly end, about which it shows nothing. So only a bar, or a phase, that was under way until
# then proves that the start was not through. Trackers of helpers end, too: then others continue.

GONE = "process-gone"
"""The mark of what is printed when a process has exited, in whatever way."""
ENDED_IN_START = "ended-in-start"
_ECHO_LINES = 2
"""Lines behind the mark that belong to it."""
_UNTIL_LINES = 3
"""Lines between what was under way and the mark: more of them may be about something else."""
_NOTHING_CAME_S = 60.0
"""Seconds after the mark in which another process would have continued, where the run is monitored."""


def gone_at(state: SourceState, view: RunView) -> tuple[int, float, Ref, str] | None:
    """The line of the mark with which the last run in a log ends, its time, place and text; None where lines follow."""
    rows = [
        (line, series.times[at] + view.shift(state.index), series.ref(at), series.text(at))
        for series in view.marked(GONE)
        for at, (line, source) in enumerate(zip(series.lines, series.sources, strict=True))
        if source == state.index and line >= max(last_run_line(state.index, view), state.lines - _ECHO_LINES)
    ]
    return rows[-1] if rows else None


def _ended_in_start(view: RunView) -> Death | None:
    if view.fact(activity_of).first is not None or any(True for _ in view.marked(READY)):
        return None
    for state in view.logs:
        gone, since = gone_at(state, view), last_run_line(state.index, view)
        if gone is None or any(mark.line >= since for mark in view.run_marks(state.index, "end")):
            continue
        line, time, ref, text = gone
        last = max(view.extent(state)[1], (state.murmured or 0.0) + view.shift(state.index), time)
        phase = _under_way_at(state, line, view)
        if phase and (view.present is None or view.present - last >= _NOTHING_CAME_S):
            fields: Fields = {"message": f"{phase}, and no line states why"}
            own = time - view.shift(state.index)
            failure = Failure(ENDED_IN_START, "record", True, own, state.index, line, ref.offset, text, fields)
            return Death(failure, time, known=False)
    return None


def _under_way_at(state: SourceState, line: int, view: RunView) -> str:
    """The bar or phase of a start that was under way at a line; "" for none."""
    bars = [one for one in view.counters(state.index) if one.kind in START_KINDS and one.total]
    bar = max(bars, key=lambda one: (one.line, one.time), default=None)
    if bar is not None and 0 <= line - bar.line <= _UNTIL_LINES:
        total = bar.total or 0.0
        return f"after {bar.amount:,.0f} of {total:,.0f} {bar.kind}" if bar.amount < total else ""
    begun = [
        (span.refs[0][0].line, span.kind)
        for span in view.store.opened()
        if span.kind in START_KINDS and span.source == state.index and span.refs
    ]
    at, kind = max(begun, default=(0, ""))
    return f"during {kind}" if at and line - at <= _UNTIL_LINES else ""


# --- A process that is gone in the middle of its work ---

ENDED_AT_WORK = "ended-at-work"


def _ended_at_work(view: RunView) -> Death | None:
    if view.fact(finished_at) is None:
        return None
    for one in view.fact(broken_off):
        state = view.store.sources[one.source]
        name, others = short_name(state), " and ".join(short_name(view.store.sources[peer]) for peer in one.peers)
        message = f"{name} breaks off {one.where} and logs no end, while {others} did"
        line, text = state.last_line
        fields: Fields = {"message": message}
        failure = Failure(ENDED_AT_WORK, "record", True, state.last or 0.0, state.index, line, 0, text, fields)
        return Death(failure, view.extent(state)[1], known=False)
    return None


def over_at(view: RunView) -> float | None:
    """The time at which the run failed or ended; None where it continues."""
    death = view.fact(death_of_run)
    return view.fact(finished_at) if death is None else death.time
