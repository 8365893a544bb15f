"""The end of a run, and starts that fail in a row."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from perfmon.core import Fields, Ref
from perfmon.store import Failure, SourceState, WorkCounter

from .activity import activity_of, inner_of
from .death import Death
from .first_cause import BAR_OF_RUN_S, death_of, first_of, goes_on_elsewhere
from .runs import READY, Boundary, boundaries, last_run_line, run_began, under_way, work_of
from .silence import RUN_OVER, banner
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
    return with_tries(death_of(view) or _ended_in_start(view), view)


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


# --- The end of a run: it announced it, or its work is done ---

_LAST_LINES = 200
"""Lines that may follow a counter that reached its total: metrics, a summary, a save."""
_AFTERWARDS = frozenset(("checkpoint", "checkpoint-write", "evaluation", "batches"))
"""Progress of a run whose work is done: it saves, and evaluates once more."""
_OFTEN = 2
"""Times that work followed the words of an end: the next ones are none."""
_LONGER = 3.0
"""Times of the longest pause behind such words after which they were the last ones."""
_BARS = ("step", "items", "epochs", "episodes")
"""Kinds of bars that a run may consist of."""
_CUT_SHORT = "cut_short"
"""The field of an end in the middle of an epoch."""
_PART = re.compile(r"(?<![\d.])\d\d?%(?:\||[ \t]+(?:[━╸─|]|\d+/\d))")
"""A bar within an epoch that is not full."""
_EPOCH = re.compile(r"(?i)(?<![\"'])\bepoch\W{0,3}(\d+)(?![.\d])(?:\s?/\s?(\d+))?")


def finished_at(view: RunView) -> float | None:
    """The time at which the last run announced its end, or made its last step; None where it did neither."""
    low = view.fact(run_began)
    working = [one for one in view.logs if any(view.store.progress.of(one.index)) or view.run_marks(one.index, "end")]
    ended = {one.index: at for one in working if (at := log_finished_at(one, view)) is not None}
    over = [
        view.extent(one)[1]
        for one in working
        if one.last is not None and RUN_OVER.search(one.last_line[1]) and not _usual_words(one, view)
    ]
    tracks = [track for track in view.fact(activity_of).tracks if track.is_step]
    important = {track.source for track in tracks} & {one.index for one in working} or ended.keys()
    if not over and not any(ended[index] >= low for index in important & ended.keys()):
        return None
    last = max([*ended.values(), *over])
    later = any(time > last + 1.0 for track in tracks if track.source not in ended for time in track.times)
    return None if later else last


def log_finished_at(state: SourceState, view: RunView) -> float | None:
    """The time of the last words of the last run in a log, or at which its counter of steps reached its total."""
    shift, since, last = view.shift(state.index), last_run_line(state.index, view), _last_work(state, view)
    ends = [mark for mark in view.run_marks(state.index, "end") if mark.line >= since]
    if (
        ends
        and not _usual_words(state, view)
        and (ends[-1].line >= last or _only_full_bars(state, ends[-1].line, view))
    ):
        # The bar behind these words has a clock of its own, which they may lack.
        behind = (one.time for one in view.counters(state.index) if one.line > ends[-1].line)
        return max([ends[-1].time, *behind]) + shift
    begun = sum(one.source == state.index for one in view.fact(boundaries))
    if ends and _CUT_SHORT in ends[-1].fields and _is_one_line_behind(state, ends[-1].line, view):
        return ends[-1].time + shift
    counters = view.counters(state.index)
    full = [counter for counter in counters if counter.kind == "step" and counter.total and counter.line >= since]
    if full:
        biggest = max(full, key=lambda counter: counter.total or 0.0)
        done = (
            (is_full(biggest, begun) or _has_last_index(biggest, begun, last))
            and id(biggest) not in view.fact(inner_of)
            and state.lines - biggest.line <= _LAST_LINES
        )
        if done and biggest.line >= last - _LAST_LINES:
            return biggest.time + shift
    found = _last_epoch_at(state, (since, last), begun, view)
    return _full_bar_at(state, since, begun, view) if found is None else found


def _usual_words(state: SourceState, view: RunView) -> bool:
    """True where the last words of an end are those after each epoch or fold, and more of those is to be expected.

    More than once work followed them: so it may again, unless the log has been quiet for much longer since, or is
    whole and states no plan that is left.
    """
    ends = view.run_marks(state.index, "end")
    alike = [mark for mark in ends if banner(mark) == banner(ends[-1])]
    tracks = work_of(state.index, view)
    pauses: list[float] = []
    for before, after in pairwise(alike):
        next_work = [
            track.times[at]
            for track in tracks
            if (at := bisect_right(track.lines, before.line)) < bisect_left(track.lines, after.line)
        ]
        if next_work and before.line >= last_run_line(state.index, view):
            pauses.append(min(next_work) - before.time)
    if len(pauses) < _OFTEN:
        return False
    if view.present is not None:
        return view.present - view.shift(state.index) - ends[-1].time <= _LONGER * max(*pauses, _NOTHING_CAME_S)
    plans = [one for one in view.counters(state.index) if one.kind in ("epochs", "episodes") and one.total]
    return any(one.amount < (one.total or 0.0) - 1 for one in plans)


def _is_one_line_behind(state: SourceState, end: int, view: RunView) -> bool:
    """True where one line of results at most follows the end of an epoch that was cut short."""
    behind = {line for track in work_of(state.index, view) for line in track.all_lines() if line > end}
    return len(behind) <= 1


def _full_bar_at(state: SourceState, since: int, begun: int, view: RunView) -> float | None:
    """The time at which the bar that took longest was full, in a log that is not watched and had no other work since.

    A monitor may see an evaluation, or another epoch, begin behind it. One that is followed by bars that
    are not full, or counts within a plan of several epochs, is none of a run's.
    """
    counters = view.counters(state.index)
    bars = [one for one in counters if one.kind in _BARS and one.elapsed_s and one.total and one.line >= since]
    if view.present is not None or not bars:
        return None
    longest = max(bars, key=lambda one: one.elapsed_s or 0.0)
    is_brief = (longest.elapsed_s or 0.0) < BAR_OF_RUN_S
    if is_brief or not is_full(longest, begun) or (id(longest) in view.fact(inner_of) and not _is_of_last(longest)):
        return None
    epochs = [one for one in counters if one.kind == "epochs" and one.total and one.amount < one.total - 1]
    if epochs or ((view.store.progress.planned.get((state.index, "epochs")) or 1) > 1 and longest.kind != "epochs"):
        return None
    last = _last_work(state, view)
    through = last <= longest.line or _only_full_bars(state, longest.line, view)
    return longest.time + view.shift(state.index) if through and state.lines - longest.line <= _LAST_LINES else None


def _last_work(state: SourceState, view: RunView) -> int:
    """The last line of a log that reports work."""
    tracks = work_of(state.index, view)
    return max((track.last_line for track in tracks if track.kind not in _AFTERWARDS), default=0)


def _last_epoch_at(state: SourceState, lines: tuple[int, int], begun: int, view: RunView) -> float | None:
    """The time of the results of the last epoch or episode of a log: one line each, nothing of the kind after it."""
    since, last = lines
    full = [
        counter
        for counter in view.counters(state.index)
        if counter.kind in ("epochs", "episodes") and counter.elapsed_s is None
        and counter.total and counter.restarts <= begun
        and counter.amount >= (counter.total if counter.began_at else counter.total - 1)  # they may count from 0
        and since <= counter.line == last and state.lines - counter.line <= _LAST_LINES
        and not _PART.search(counter.text)
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
    """All that follows the last words are full bars: redrawn ones, or those of a last evaluation."""
    behind = [counter for counter in view.counters(state.index) if counter.line > end]
    last = _last_work(state, view)
    return (
        any(counter.line >= last for counter in behind)
        and all(counter.total and counter.amount >= counter.total for counter in behind)
        and not any(counter.kind in START_KINDS for counter in behind)
    )  # what is loaded is for more work


def _has_last_index(counter: WorkCounter, begun: int, last: int) -> bool:
    """True for steps that count from 0, each with a line of its own, where the line of the last one is the last."""
    each = counter.rise == 1.0 and not counter.began_at and counter.first_amount == 0 and counter.restarts <= begun
    bar = _PART.search(counter.text) is not None or "%|" in counter.text
    return each and not bar and counter.line == last and counter.amount == (counter.total or 0.0) - 1


def _is_of_last(counter: WorkCounter) -> bool:
    """True for the bar of the last epoch of several."""
    epoch = _EPOCH.search(counter.text)
    return epoch is not None and epoch[2] is not None and float(epoch[1]) >= float(epoch[2])


def is_full(counter: WorkCounter, begun: int = 0) -> bool:
    """True for a counter that reached its total, if that is the run's: one that counts within an epoch restarts.

    `begun` later runs in its log restart it, too.
    """
    if counter.total is None or counter.amount < counter.total:
        return False
    return _is_of_last(counter) or (counter.restarts <= begun and _EPOCH.search(counter.text) is None)


def over_at(view: RunView) -> float | None:
    """The time at which the run failed or ended; None where it continues."""
    death = view.fact(death_of_run)
    return view.fact(finished_at) if death is None else death.time
