"""Successive runs in the same logs, and which of them resume an earlier one.

A run starts where a line of a launcher, a scheduler or a server states it, after the one before it made progress,
failed or ended. After a failure, or long after an end, a counter that falls back is enough; what a script prints when
it starts counts only where steps, epochs or episodes begin again behind it. Without such lines only a long silence with
steps that restart divides two runs: see `perfmon.rules.interruptions`. A banner in the middle of a run (a server that
is started for an evaluation) divides nothing: the steps continue. Folds of one script are passes of one run.

A failed start is retried where its banner comes again soon, as supervisors of containers and services do: such tries
are one start, with downtime between them, until one gets under way.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from perfmon.core import BEGINS_WITH, BETWEEN_RUNS_S, UNDER_WAY, Window, median
from perfmon.store import COUNTED, Failure, Fall, Leap, ProgressTrack, RunMark, SourceState, place_of

from .silence import after_dead_starts, banner, begun_alike, worked
from .tracks import START_KINDS

if TYPE_CHECKING:
    from .run_view import RunView

_ENDS = frozenset(("cause", "record", "order"))
"""Roles of failures that may have ended a run."""
WEAK = frozenset(("collective-timeout", "network"))
"""Causes that name who waited or lost a peer, not why: any other cause comes before them."""
_NEAR_LINES = 3
_SAME_START_S = 120.0
"""Logs of one run begin within so many seconds."""
_FROM_START = 1.0
"""A run whose first step is at most this, or one interval of those that it prints, began from its start."""
_TRIED_AGAIN_S = 600.0
"""Supervisors restart what died at most five minutes later (Kubernetes; systemd, docker and launchers are quicker);
after twice of that a person has done it."""
_LOOKED_AT = 32
_NEARLY = 0.99
"""Of its total: a counter that falls behind that has been through, an epoch or a run."""
_FEW, _UNUSUAL = 4, 3.0
"""Pauses that define what is usual, and times of that which are a pause between runs."""
_STEADY = 20
"""Steps in a row, on either side of the point where they went back."""
_REFUSED_LINES = 100
"""Within so many lines a launch that is refused prints why."""
_LAUNCHED_S = 10.0
"""The processes of one launch print its banner within so many seconds."""
_TAKEN = re.compile(r"EADDRINUSE|address already in use", re.IGNORECASE)
_REFUSED, _OF_SHELL = "startup-refused", "missing-command"
_LINE = attrgetter("line")
BAR_OF_RUN_S = 60.0
"""Seconds that a bar over a run lasts at least: those of a start, or of a part, are over sooner."""
READY = "server-ready"
"""The mark of a server that has started."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """A later run begins in a log."""

    source: int
    line: int
    time: float
    """Beginning of the later run, on the run's axis."""
    ended: float
    """The last sign of the one before it."""
    failure: Failure | None
    """The failure of the one before it, if a line reports one."""
    last_step: float | None
    first_step: float | None
    """The highest step of the run before, and the first of this one."""
    again: bool = False
    """The one before died in its start, and this one tries the same start once more."""
    began: int = 0
    """The line with which the one before began."""
    interval: float = _FROM_START
    """Steps between two that the runs print."""
    unit: str = "step"
    """Unit that the two count: steps, or epochs, episodes and the like where the log has no steps."""

    @property
    def resumed(self) -> bool:
        """It continues from a checkpoint of the one before."""
        goes_on = self.first_step is not None and self.last_step is not None and self.first_step <= self.last_step + 1
        return goes_on and not self.from_start

    @property
    def from_start(self) -> bool:
        """Its steps begin from their start, after those of the one before."""
        return (
            self.first_step is not None and self.last_step is not None
            and self.first_step <= max(_FROM_START, self.interval)
        )  # fmt: skip


def boundaries(view: RunView) -> list[Boundary]:
    """The starts of later runs, by time; of logs that restart together each has its own."""
    found = [one for state in view.logs for one in _of_log(state, view)]
    return sorted(found, key=lambda one: (one.time, one.source))


def _of_log(state: SourceState, view: RunView) -> list[Boundary]:
    shift, work = view.shift(state.index), work_of(state.index, view)
    ends: list[tuple[int, float, Failure | None]] = [
        (mark.line, mark.time, None) for mark in view.run_marks(state.index, "end")
    ]
    refused = view.fact(refused_launches)
    ends += [
        (one.line, one.time, one) for one in view.failures(state.index) if one.role in _ENDS and one not in refused
    ]
    ends.sort(key=itemgetter(0))
    openings = sorted(view.run_marks(state.index, "begin"), key=_LINE)
    begins = [(mark.line, mark.time) for mark in openings]
    of_machine = {mark.line for mark in openings if "driver" in mark.fields}  # scripts print it now and then
    only_with_falls = {mark.line for mark in openings if "settings" in mark.fields}
    steps = max(view.counted_steps(state.index), key=len, default=[])
    found: list[Boundary] = []
    previous = 0
    scripts = _after_scripts(state, view) if state.clockless else ()
    starts, alike = set(after_dead_starts(state, work, view)), set(begun_alike(state, openings, work))
    candidates = {
        *begins,
        *_after_failures(state, ends, work, steps, view),
        *_after_falls(state, view),
        *_after_resumes(state, steps, view),
        *scripts,
        *starts,
    }
    for line, time in sorted(candidates | alike):
        over = [row for row in ends if previous < row[0] < line]
        is_alike = (line, time) in alike and not any(0 < one.line - line <= _REFUSED_LINES for one in refused)
        if not over and not is_alike and not worked(work, previous, line):
            continue  # more words of the same start
        before, after = _around(steps, previous, line)
        fell = None
        if before is None or after is None:
            fell = _fall_at(state.index, previous, line, view)
            before, after = (before, after) if fell is None else (fell.before, fell.after)
        falls = before is not None and after is not None and after <= before
        if is_alike and before is not None and after is not None:
            # Else it is printed now and then; or the one before may have hung: see `perfmon.rules.interruptions`.
            is_alike = after <= before and not (before >= UNDER_WAY and after <= BEGINS_WITH)
        if not is_alike and (line, time) not in candidates:
            continue
        if (
            line in only_with_falls
            and not falls
            and not is_alike
            and not _is_repeated(openings, (previous, line), over)
        ):
            continue  # it is printed once a process, or more often
        if not over and not falls and not is_alike:
            continue
        goes_on = over and before is not None and after is not None and after > before and over[-1][2] is not None
        if goes_on and (line in of_machine or not any(begin == line for begin, _ in begins)):
            continue  # a failure that the run survived
        failures = [row[2] for row in reversed(over) if row[2] is not None]  # a shell goes on to its next command
        failure = max(failures, key=lambda one: (one.role != "record", one.cause != _OF_SHELL), default=None)
        ended = failure.time if failure is not None else _last_words(state, line, over, work)
        again = (line, time) in starts and before is None
        again |= failure is not None and _tries_again(state, view, openings, (previous, line), failure, time)
        began, ended = time + shift, min(ended, time) + shift
        interval, unit = _interval(steps, previous), "step" if fell is None else fell.kind.removesuffix("s")
        found.append(Boundary(state.index, line, began, ended, failure, before, after, again, previous, interval, unit))
        previous = line
    return found


def _is_repeated(
    openings: Sequence[RunMark], lines: tuple[int, int], over: Sequence[tuple[int, float, Failure | None]]
) -> bool:
    """Settings of a script that are printed once more after it had failed."""
    previous, line = lines
    failed = [row[0] for row in over if row[2] is not None]
    own = next((mark for mark in openings if mark.line == line), None)
    return own is not None and any(
        banner(mark) == banner(own) for mark in openings if failed and previous <= mark.line < failed[0]
    )


def _fall_at(source: int, previous: int, line: int, view: RunView) -> Fall | None:
    """The counter of epochs, episodes or the like that was before a line, and began again or went back behind it."""
    found = [
        fall
        for fall in view.store.progress.falls
        if fall.source == source and fall.kind in COUNTED and previous < fall.since < line <= fall.line
    ]
    return min(found, key=lambda fall: (-COUNTED.index(fall.kind), fall.line), default=None)


def refused_launches(view: RunView) -> list[Failure]:
    """Launches that were refused because an earlier one in the same log still holds their address.

    That one was launched alike, or at work, minutes before, and no line reports that it failed or ended.
    """
    return [
        one
        for one in view.store.failures.kept
        if one.cause == _REFUSED and one.role == "cause" and _TAKEN.search(one.text) and _lives_on(one, view)
    ]


def _lives_on(refused: Failure, view: RunView) -> bool:
    source, line = refused.source, refused.line
    launches = sorted((mark for mark in view.run_marks(source, "begin") if mark.line < line), key=_LINE)
    own = launches[-1] if launches else None
    alike = [mark for mark in launches[:-1] if own is not None and banner(mark) == banner(own)]
    if own is None or not alike or own.time - alike[-1].time < _LAUNCHED_S:
        return False
    earlier = alike[-1].line
    over = [mark.line for mark in view.run_marks(source, "end")]
    over += [one.line for one in view.failures(source) if one.role in _ENDS]
    work = work_of(source, view)
    if any(earlier < at < line for at in over) or worked(work, own.line, line):
        return False
    lived = [track.times[at - 1] for track in work if (at := bisect_left(track.lines, own.line)) > 0]
    return own.time - max([alike[-1].time, *lived]) <= _TRIED_AGAIN_S


def _tries_again(
    state: SourceState, view: RunView, begins: Sequence[RunMark], lines: tuple[int, int], failure: Failure, time: float
) -> bool:
    """True where a start failed between two lines, and the second of them repeats the same start.

    A failure that a start survives is followed by banners of other parts, if by any.
    """
    low, line = lines
    if failure.role != "cause" or time - failure.time > _TRIED_AGAIN_S:
        return False
    if under_way(state, view, low, line) and failure.cause != _REFUSED:
        return False
    new = {banner(mark) for mark in begins[bisect_left(begins, line, key=_LINE) :][:1]}
    first, stop = bisect_left(begins, low, key=_LINE), bisect_left(begins, failure.line, key=_LINE)
    return any(banner(mark) in new for mark in begins[first:stop])


def under_way(state: SourceState, view: RunView, low: int, high: int) -> bool:
    """Some line of a log between two others reports work, or that its server is ready."""
    return worked(work_of(state.index, view), low, high) or any(
        source == state.index and low < line < high
        for series in view.marked(READY)
        for source, line in zip(series.sources, series.lines, strict=True)
    )


def work_of(source: int, view: RunView) -> list[ProgressTrack]:
    """The progress of a log without that of its start."""
    return [track for track in view.store.progress.of(source) if track.kind not in START_KINDS]


def _after_failures(
    state: SourceState,
    ends: Iterable[tuple[int, float, Failure | None]],
    work: Iterable[ProgressTrack],
    steps: list[tuple[int, float]],
    view: RunView,
) -> Iterable[tuple[int, float]]:
    """The first progress after a failure, or long after an end, where the steps fall back, without a banner."""
    for line, _, failure in ends:
        before, after = _around(steps, 0, line)
        fell = _fall_at(state.index, 0, line, view) if before is None or after is None else None
        before, after = (before, after) if fell is None else (fell.before, fell.after)
        if before is None or after is None or after > before:
            continue
        since = line if failure is not None or fell is None else fell.line - 1  # results may follow an end
        first = [
            (track.lines[at], track.times[at])
            for track in work
            if (at := bisect_right(track.lines, since)) < len(track.lines)
        ]
        within = [gap for gap in state.gaps if line <= gap.line and gap.upto <= since + 1]
        pause = max(within, key=lambda gap: gap.end - gap.start, default=None)
        if first and failure is not None:
            yield min(first)
        elif failure is None and pause is not None and pause.end - pause.start >= BETWEEN_RUNS_S:
            yield (pause.upto, pause.end)


def _after_falls(state: SourceState, view: RunView) -> Iterable[tuple[int, float]]:
    """The first line behind a pause in which a counter went back as that of an epoch does not.

    That is to a step in the middle, which a checkpoint had; or to the start before its total was reached.
    """
    log = view.store.progress
    if log.quick_falls[state.index]:
        return
    began_again = {fall.line for fall in log.falls if fall.source == state.index and fall.kind != "step"}
    pauses = sorted(leap.end - leap.start for leap in log.leaps if leap.source == state.index and not leap.fell)
    for leap in log.leaps:
        cut_short = leap.total is not None and leap.before < _NEARLY * leap.total
        cut_short |= leap.total is None and leap.line in began_again and leap.end - leap.start >= BETWEEN_RUNS_S
        if leap.source != state.index or not leap.fell or not (leap.after > _FROM_START or cut_short):
            continue
        if leap.line not in began_again and _is_next_epoch(leap, view):
            continue
        if len(pauses) >= _FEW and leap.end - leap.start <= _UNUSUAL * pauses[len(pauses) // 2]:
            continue  # it always takes as long
        within = [gap for gap in state.gaps if leap.start - 1.0 <= gap.start and gap.end <= leap.end + 1.0]
        if within:
            gap = max(within, key=lambda gap: gap.end - gap.start)
            yield (gap.upto or gap.line + 1, gap.end)


def _after_resumes(
    state: SourceState, steps: Sequence[tuple[int, float]], view: RunView
) -> Iterable[tuple[int, float]]:
    """The first step behind the point where the steps went back to their middle, once, as from a checkpoint, whatever
    time that took. Those of several processes in one log do so often, those of an epoch go back to their start.
    """
    falls = [fall for fall in view.store.progress.falls if fall.source == state.index and fall.kind == "step"]
    track = view.store.progress.tracks.get((state.index, "step"))
    if not falls or track is None:
        return
    lines = [line for line, _ in steps]
    edges = [0, *(fall.line for fall in falls), state.lines + 1]
    for low, fall, high in zip(edges, falls, edges[2:], strict=False):
        first, here, stop = (bisect_left(lines, line) for line in (low, fall.line, high))
        interval = _interval(list(steps), low)
        is_middle = fall.after > max(_FROM_START, interval) and fall.before - fall.after > interval
        if is_middle and min(here - first, stop - here) >= _STEADY:
            yield fall.line, track.times[max(0, bisect_right(track.lines, fall.line) - 1)]


def _is_next_epoch(leap: Leap, view: RunView) -> bool:
    """True where a counter of epochs grew in the pause: the steps that began again are those of the next one."""
    track = view.store.progress.tracks.get((leap.source, "epochs"))
    rows = zip(track.times, track.lines, strict=True) if track is not None else ()
    return any(leap.start < time <= leap.end and line <= leap.line for time, line in rows)


def _after_scripts(state: SourceState, view: RunView) -> Iterable[tuple[int, float]]:
    """Lines after which one script had died of an exception before another one did: no one else writes to the log.

    A peer that was lost in between may have been the first one.
    """
    causes = [one for one in view.failures(state.index) if one.role == "cause"]
    died = sorted((one for one in causes if one.frame.get("entry") or one.fields.get("usage")), key=_LINE)
    if any(place_of(one.fields) for one in died):
        return
    for before, after in pairwise(died):
        if after.cause in WEAK:
            continue
        refused = before.fields.get("usage") and after.fields.get("usage")  # a wrong command line is refused at once
        if refused or before.frame.get("entry") != after.frame.get("entry"):
            yield (before.last_line + 1, before.time)


def _around(steps: list[tuple[int, float]], previous: int, line: int) -> tuple[float | None, float | None]:
    """The highest step between two lines, and the first one behind the second."""
    low, at = bisect_right(steps, (previous, float("inf"))), bisect_left(steps, (line, float("-inf")))
    before = max((step for _, step in steps[low:at]), default=None)
    return before, steps[at][1] if at < len(steps) else None


def _interval(steps: list[tuple[int, float]], since: int) -> float:
    """The usual difference between two steps of a run that begins at a line."""
    first = bisect_left(steps, (since, float("-inf")))
    near = [after - before for (_, before), (_, after) in pairwise(steps[first : first + _LOOKED_AT])]
    return median([rise for rise in near if rise > 0] or [_FROM_START])


def _last_words(
    state: SourceState, line: int, over: Sequence[tuple[int, float, Failure | None]], work: Iterable[ProgressTrack]
) -> float:
    """The last sign of a log before a line, on its own axis."""
    within = [gap for gap in state.gaps if gap.upto and gap.line < line <= gap.upto + _NEAR_LINES]
    gap = max(within, key=lambda gap: gap.end - gap.start, default=None)
    if gap is not None:
        return gap.start
    times = [track.times[at - 1] for track in work if (at := bisect_left(track.lines, line)) > 0]
    times += [row[1] for row in over]
    return max(times, default=state.first or 0.0)


def last_run_line(source: int, view: RunView) -> int:
    """The line with which the last run in a log starts; 0 where it holds one run."""
    return next((one.line for one in reversed(view.fact(boundaries)) if one.source == source), 0)


def run_began(view: RunView) -> float:
    """The start of the run that is evaluated, the last one in the logs."""
    found = view.fact(boundaries)
    return found[-1].time if found else view.reported[0]


def started(view: RunView) -> float:
    """The first try of the start of the run that is evaluated."""
    for one in reversed(view.fact(boundaries)):
        if not one.again:
            return one.time
    return view.reported[0]


def downtime_of(view: RunView) -> list[Window]:
    """The time between a run and the one that resumed it, and between the tries of a start."""
    return [
        (one.ended, one.time) for one in view.fact(boundaries) if (one.resumed or one.again) and one.time > one.ended
    ]


def wasted_of(view: RunView) -> list[Window]:
    """The time in which a resumed run made steps again that the one before it had made already."""
    windows = []
    for one in view.fact(boundaries):
        if not one.resumed or one.last_step is None or one.unit != "step":
            continue
        shift = view.shift(one.source)
        for series in view.store.steps.values():
            again = [
                time + shift
                for time, line, step, source in zip(
                    series.times, series.lines, series.values, series.sources, strict=True
                )
                if source == one.source and line >= one.line and step <= one.last_step
            ]
            if again:
                windows.append((one.time, max(again)))
    return windows
