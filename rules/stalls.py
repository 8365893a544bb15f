"""Stalls: time ranges in which a run made no progress.

A stall is a lack of progress, whatever the logs print, as long as all of it is known to be liveness. Where a log that
reports progress printed more unknown lines than it usually does between two steps, it may have worked: then nothing is
claimed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from perfmon.core import Gap, Ref, Window, intersection, median, percentile, union, without
from perfmon.store import SourceState

from .activity import FEW, LEAST_STALL_S, PHASE_KINDS, REMEMBERED, activity_of, rhythm_at
from .death_of_run import over_at
from .interruptions import (
    BEGINNING_S,
    PHASE_BOUNDS_S,
    USUAL_PHASE,
    apart,
    dark_run,
    last_lines,
    phase_limit,
    recurring_s,
    restarts_of,
    worked_until,
)
from .runs import boundaries, downtime_of, last_run_line, run_began
from .silence import announced_shutdown, ended_sources, is_set_forward

if TYPE_CHECKING:
    from .run_view import RunView

_WAITS, _WAITING_S, _LATE_WAITS = "waits-for-others", 600.0, 3.0
"""The mark of lines that wait for other processes, the seconds of it without anything new that are a stall in a start,
and how late the next of them may be, in times of their longest interval."""
_UNKNOWN_LINES = 5
"""Unknown lines beyond the usual number that may be part of what a run always prints."""
_BUSY_LINES = 20
_LIVELY = 3
_OVERDUE = 3.0
"""Times the limit of a stall from which on a run with nothing but unknown lines is worth watching."""
_WAITING_LINES, _FAR_MORE = 30, 10
"""Lines at the end of a log without a clock that are worth a look, at least, and as a multiple of the usual number."""
_UNPACED_S = 600.0
"""Seconds without progress that are worth a look where no rhythm is known."""
_MOST_GAPS = 0.5
"""Of the gaps of a log: where more of them hold such lines, these belong to the dated line before."""
_EDGE_S = 1e-3
"""Times of day have no more digits than this."""
_CLOCK_S = 1.0
"""Clocks of logs often have no fractions of a second."""
_MOST = 0.5
START_BOUND_S = 1800.0
"""Seconds without output before the first work."""


@dataclass(slots=True)
class Stall:
    """A time range without progress that is longer than the run's rhythm allows."""

    start: float
    end: float
    limit_s: float
    """The length from which on it counts."""
    usual_s: float
    """The usual time between two steps, or between what else progresses."""
    silent: bool
    """No log printed any line."""
    refs: tuple[tuple[Ref, str], ...] = ()
    """The last line of each log before it."""


def stalls_of(view: RunView) -> list[Stall]:
    """The stalls within the window, in full length."""
    activity = view.fact(activity_of)
    paced = any(counter.elapsed_s is not None for counter in view.store.progress.counters.values())
    if not view.timed and not paced:
        return []
    if activity.first is None:
        return _hung_start(view)
    main = main_logs(view)
    if not any(state.index in _progressing(view) for state in main):
        return []
    low, high = view.window
    over = view.fact(over_at)
    end = view.whole[1] if view.present is None else view.present  # a clock may have been wrong, or set, in between
    end = min(end, over) if over is not None else end
    points = [*activity.events, end] if activity.events and end > activity.events[-1] else activity.events
    outside = union([*_later_starts(view), *view.fact(apart), *view.fact(downtime_of)])
    found = []
    for start, stop in pairwise(points):
        if stop - start < LEAST_STALL_S or stop <= low or start >= high:
            continue
        rhythm = rhythm_at(activity, start, stop)
        if rhythm is None or stop - start <= rhythm.limit_s or _was_phase(view, start, stop):
            continue  # in a long log nearly all: what follows reads all of its lines
        is_open = stop == end and stop > activity.events[-1]
        held = max((state.held_s for state in main), default=0.0) if is_open and view.present is not None else 0.0
        for a, b in without(_quiet(view, main, start, stop, is_open), outside):
            if not any(_was_there(state, a, view) for state in main):
                continue
            if is_open and view.timed and view.present is None and not _lives(view, a, b):
                continue  # the end of a log proves nothing: others have to continue
            if _counted_on(view, main, a, b):
                continue
            limit = max(rhythm.limit_s, phase_limit(view, main, a, b)) + held
            if b - a <= limit or b - a <= recurring_s(view, a, b) or (a := worked_until(view, a, b)) >= b - limit:
                continue
            if not any(is_set_forward(a, b, state, view) for state in main):
                silent = _contains(view.fact(dark_run), a, b)
                if silent and rhythm.is_early:
                    continue  # a long phase may begin so early without a line
                silent = silent or _contains(view.fact(dark_run), a + rhythm.usual_s, b)  # the last words of a step
                found.append(Stall(a, b, limit, rhythm.usual_s, silent, last_lines(view, main, a, b)))
    return found


def _counted_on(view: RunView, main: Sequence[SourceState], start: float, end: float) -> bool:
    """True where the counter of a log shows that a pause was no stall.

    It advanced about as quickly as before: lines are missing. Or it restarted: the time between two epochs or two runs
    is unknown.
    """
    log, sources = view.store.progress, {state.index for state in main}
    leaps = [
        leap
        for leap in log.leaps
        if leap.source in sources
        and leap.start + view.shift(leap.source) <= start + _CLOCK_S
        and leap.end + view.shift(leap.source) >= end - _CLOCK_S
    ]
    if any(leap.kept_pace for leap in leaps):
        return True
    fell = [leap for leap in leaps if leap.fell and not log.quick_falls[leap.source]]  # else epochs follow at once
    hung = any(
        one.hung and one.between[0] <= start + _CLOCK_S and one.between[1] >= end - _CLOCK_S
        for one in view.fact(restarts_of)
    )
    return bool(fell) and not hung and all(leap.fell for leap in leaps)


def _later_starts(view: RunView) -> list[Window]:
    """The starts of later runs in the same logs, from their first line to their first progress."""
    events = view.fact(activity_of).events
    begins = [one.time for one in view.fact(boundaries)]
    starts = [(one.between[1], one.under_way) for one in view.fact(restarts_of)]
    starts += [(begin, events[at]) for begin in begins if (at := bisect_right(events, begin)) < len(events)]
    return union(starts)


def overdue_s(view: RunView) -> float:
    """Seconds without known progress in a run whose logs continue, where they are far beyond its rhythm; else 0."""
    activity = view.fact(activity_of)
    if not view.timed or not activity.events or view.fact(over_at) is not None or view.fact(stalls_of):
        return 0.0
    last, end = activity.events[-1], view.whole[1]
    rhythm = rhythm_at(activity, last, end)
    working = [state for state in main_logs(view) if state.index in _progressing(view)]
    bound = _OVERDUE * rhythm.limit_s if rhythm is not None else _UNPACED_S
    return end - last if working and end - last > bound else 0.0


def waiting_lines(view: RunView) -> int:
    """Recognised lines without progress at the end of a log that has no clock, where they are far more than ever stood
    between two lines of progress; else 0.
    """
    if view.present is not None or view.fact(over_at) is not None:
        return 0
    working, most = _progressing(view), 0
    for state in view.logs:
        held = state.idle_since
        if held is None or not state.clockless or state.idle_silence or state.index not in working:
            continue
        before = sorted(live for track in view.store.progress.of(state.index) for live in track.live)
        usual = max((after - live for live, after in pairwise(before)), default=0)
        count = held.upto - held.line
        if len(before) >= FEW and count >= max(_WAITING_LINES, _FAR_MORE * usual):
            most = max(most, count)
    return most


def _hung_start(view: RunView) -> list[Stall]:
    """A start in which nothing continues for longer than any phase of one lasts; one that only prints that it waits for
    others stands still sooner.
    """
    logs = [state for state in view.logs if state.last is not None]
    starts = [time for track in view.fact(activity_of).tracks for time in track.times[-1:]]
    waits = _waits_since(view)
    if not logs or not (starts or waits) or view.fact(over_at) is not None:
        return []
    end, limit = view.whole[1], START_BOUND_S
    begin = max([*starts, view.fact(run_began), *waits])
    if waits:
        limit = min(limit, max(_WAITING_S, _usual_start(view), phase_limit(view, logs, begin, end)))
    if end - begin <= limit:
        return []
    return [
        Stall(a, b, limit, 0.0, _contains(view.fact(dark_run), a, b), last_lines(view, logs, a, b))
        for a, b in _quiet(view, logs, begin, end, True)
        if b - a > limit and b >= end - 1.0
    ]


def _waits_since(view: RunView) -> list[float]:
    """Since when the logs repeat that they wait for others, of which none has come since; none where one stopped."""
    found: list[float] = []
    for state in view.logs:
        own = []
        for series in view.marked(_WAITS):
            rows = zip(series.times, series.lines, series.sources, strict=True)
            since = last_run_line(state.index, view)
            own.append([time for time, line, of in rows if of == state.index and line >= since])
        times = max((one for one in own if one), key=lambda one: one[-1], default=[])
        if len(times) >= _LIVELY and view.extent(state)[1] - times[-1] - view.shift(state.index) <= _LATE_WAITS * max(
            after - before for before, after in pairwise(times)
        ):
            found.append(times[0] + view.shift(state.index))
    return found


def _usual_start(view: RunView) -> float:
    """Three times what the starts of earlier runs in the same logs took; 0 without any."""
    events, begins = view.fact(activity_of).events, [one.time for one in view.fact(boundaries)]
    first = [view.reported[0], *begins[:-1]] if begins else []
    took = [events[at] - begin for begin in first if (at := bisect_right(events, begin)) < len(events)]
    return USUAL_PHASE * median(took) if took else 0.0


def _was_phase(view: RunView, start: float, stop: float) -> bool:
    """True where the end of a phase ends a range: the phase took so long, unless that is beyond all bounds.

    Where its lines report its duration, it explains the range only if it took most of it.
    """
    return any(
        track.kind in PHASE_KINDS
        and stop - start <= PHASE_BOUNDS_S.get(track.kind, BEGINNING_S)
        and bisect_right(track.times, stop + _EDGE_S) > bisect_left(track.times, stop - _EDGE_S)
        and _took_most(view, track.kind, start, stop)
        for track in view.fact(activity_of).tracks
    )


def _took_most(view: RunView, kind: str, start: float, stop: float) -> bool:
    """Also true where no line reports the starts of the phases that ended there."""
    lengths = [item.end - item.start for item in view.spans(kind) if abs(item.end - stop) <= _CLOCK_S]
    return not lengths or max(lengths) >= _MOST * (stop - start)


def _lives(view: RunView, start: float, end: float) -> bool:
    """True where lines that prove no work continue through a range at the end of logs that are not monitored."""
    for state in view.logs:
        shift, last = view.shift(state.index), state.idle_since
        lines = state.lines_since(start - shift)
        held = [*state.idle, *([last] if last is not None else [])]
        if lines >= _LIVELY and any(gap.end + shift >= (start + end) / 2 for gap in held):
            return True
    return False


def _was_there(state: SourceState, moment: float, view: RunView) -> bool:
    """True where a log with progress had started by then: before its first line a run cannot stand still."""
    return view.extent(state)[0] <= moment + _EDGE_S and state.index in _progressing(view)


def _progressing(view: RunView) -> set[int]:
    """Logs that report progress of their own work."""
    return {track.source for track in view.fact(activity_of).work}


def main_logs(view: RunView) -> list[SourceState]:
    """Logs whose lines mean that the run may be at work: those with progress, and busy ones in unknown formats.

    A server that is silent when it is idle, and the logs of earlier runs, are none.
    """
    working = _progressing(view)
    return [
        state
        for state in view.logs
        if (state.index in working or (state.lines >= _BUSY_LINES and state.first != state.last))
        and not state.idle_silence
        and state.index not in view.fact(ended_sources)
        and state.index not in view.guessed
    ]


def _quiet(view: RunView, main: Sequence[SourceState], start: float, end: float, is_open: bool) -> list[Window]:
    """The parts of start..end in which every main log printed liveness at most."""
    common = [(start, end)]
    for state in main:
        pieces = _quiet_log(view, state, start, end, is_open)
        common = intersection(common, pieces)
        if not common:
            return []
    return common


def _quiet_log(view: RunView, state: SourceState, start: float, end: float, is_open: bool) -> list[Window]:
    shift, final = view.shift(state.index), view.extent(state)[1]
    if final <= start + _EDGE_S and announced_shutdown(state):
        return [(start, end)]
    own = [track for track in view.fact(activity_of).tracks if track.source == state.index]
    rows = sorted(row for track in own for row in zip(track.times, track.lines, strict=True))
    places = sorted(place for track in own for place in track.places)
    if not rows:
        return _pieces(state, shift, start, end, places)
    times = [time for time, _ in rows]
    before, after = bisect_right(times, start + _EDGE_S), bisect_left(times, end - _EDGE_S)
    since = rows[before - 1][1] if before else 0
    until = rows[after][1] if after < len(rows) else state.lines - state.live_lines + 1
    few = until - since - 1 <= _usual_lines(rows) + _UNKNOWN_LINES
    if few and not (after >= len(rows) and _may_work(state)):
        return _pieces(state, shift, start, end, places) if state.kind is not None else [(start, end)]
    if after < len(rows):  # it printed more unknown lines than usual, and continued: perhaps it worked
        return []
    return _pieces(state, shift, start, end, places) if is_open else []


def _pieces(state: SourceState, shift: float, start: float, end: float, places: Sequence[int]) -> list[Window]:
    """The parts of a range in which a log printed nothing, or nothing but lines known as liveness."""
    usual = _usual_undated(state)
    often = sum(_progresses(gap, places) for gap in state.gaps)
    rarely = often < FEW or often <= _MOST_GAPS * len(state.gaps)
    pieces = [
        (gap.start + shift, gap.end + shift)
        for gap in state.gaps
        if _undated(gap) <= usual and not (rarely and _progresses(gap, places))
    ]
    pieces += [(gap.start + shift, gap.end + shift) for gap in state.idle]
    held, first, final = state.idle_since, (state.first or 0.0) + shift, (state.last or 0.0) + shift
    if _may_work(state):
        pieces.append((max(final, (state.murmured or state.last or 0.0) + shift), end))
    elif held is not None and held.upto >= state.lines:
        pieces.append((held.start + shift, max(end, final)))
    elif state.lines - state.last_line[0] <= usual:
        pieces.append((final, max(end, final)))
    pieces.append((min(start, first), first))
    return _overlapped((max(a, start), min(b, end)) for a, b in pieces if b > start and a < end)


def _may_work(state: SourceState) -> bool:
    """True where lines without a clock followed its last dated one, and may prove work."""
    return state.murmurs and not state.murmurs_live


def _overlapped(pieces: Iterable[Window]) -> list[Window]:
    """Pieces that share time as one; those that only touch stay apart: a line stands between them."""
    merged: list[Window] = []
    for start, end in sorted(pieces):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged


def _undated(gap: Gap) -> int:
    """Lines without a clock within a gap, whose times are unknown."""
    return max(0, gap.upto - gap.line - 1) if gap.upto else 0


def _progresses(gap: Gap, places: Sequence[int]) -> bool:
    """True where lines without a clock within a gap report progress."""
    return bool(gap.upto) and bisect_left(places, gap.upto) > bisect_right(places, gap.line)


def _usual_undated(state: SourceState) -> int:
    """The number of these that a log usually prints after a dated line: timers, a table."""
    counts = sorted(map(_undated, state.gaps[-REMEMBERED:]))
    return _UNKNOWN_LINES + (counts[len(counts) // 2] if len(counts) >= FEW else 0)


def _usual_lines(rows: Sequence[tuple[float, int]]) -> int:
    """The usual number of unknown lines between two of progress."""
    between = sorted(after[1] - before[1] - 1 for before, after in pairwise(rows[-REMEMBERED:]))
    return int(percentile(between, 0.9)) if between else 0


def _contains(windows: Sequence[Window], start: float, end: float) -> bool:
    return any(a <= start + 1.0 and b >= end - 1.0 for a, b in windows)
