"""Where a run stood still.

A stall is a lack of progress, whatever the logs print meanwhile, as long as all of it is known to be liveness. Where a
log that tells of progress printed more than it usually does between two steps, in words that no format knows, it may
have worked: then nothing is claimed.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from perfmon.core import Gap, Ref, Window, intersection, median, percentile, union, without
from perfmon.store import SourceState

from .activity import FEW, LEAST_STALL_S, PHASE_KINDS, REMEMBERED, activity_of, rhythm_at
from .finished import over_at
from .run_boundaries import apart, dark_run, restarts_of
from .runs import boundaries, downtime_of, run_began
from .silence import announced_shutdown, ended_sources, is_set_forward
from .tracks import START_KINDS

if TYPE_CHECKING:
    from .run_view import RunView

PHASE_BOUNDS_S = {
    "model-load": 1800.0, "download": 1800.0, "engine-init": 2700.0, "compile": 1200.0, "graph-capture": 900.0,
    "data-prepare": 3600.0, "checkpoint-load": 1800.0, "checkpoint-write": 900.0, "evaluation": 1800.0,
}  # fmt: skip
"""So long a phase that a line announced may last before it counts as hung, where the run has had none of its kind."""
_USUAL_PHASE = 3.0
_UNKNOWN_LINES = 5
"""So many more lines than usual that no format knows may be part of what a run always prints."""
_BUSY_LINES = 20
_LIVELY = 3
_OVERDUE = 3.0
"""Times the limit of a stall from which on a run in whose logs only unknown lines go on is worth watching."""
_UNPACED_S = 600.0
"""So long without progress is worth a look where nothing tells how often there should be some."""
_SELDOM = 0.5
"""Of the gaps of a log: where more of them hold such lines, these belong to the dated line before."""
_EDGE_S = 1e-3
"""Times of day have no more digits than this."""
_CLOCK_S = 1.0
"""Clocks of logs often have no fractions of a second."""
_BETWEEN_S = 300.0
"""So long something that prints nothing may take behind a bar that is full: validation, a checkpoint, an upload."""
_NEARLY = 0.01
_MOST = 0.5
_BEGINNING_S = 600.0
START_BOUND_S = 1800.0
"""So long a run may print nothing before its first work."""
BEGINS = re.compile(
    r"(?i)\b(?:saving|evaluating|validating|compiling|capturing|loading|downloading|initiali[sz]ing|profiling|"
    r"warming up|warm-?up|resharding|offloading|"
    r"(?:start\w*|begin\w*|running|launch\w*|writing|enter\w*)\b.{0,40}\b(?:eval\w*|validation|checkpoint\w*|save|"
    r"compil\w*|test\w*|benchmark\w*|profil\w*))\b"
)
"""Last words of a log that announce a long phase which no format knows."""


@dataclass(slots=True)
class Stall:
    """A stretch without progress that is longer than the run's rhythm allows."""

    start: float
    end: float
    limit_s: float
    """From which length on it counts."""
    usual_s: float
    """The usual time between two steps, or between what else progresses."""
    silent: bool
    """No log printed any line."""
    refs: tuple[tuple[Ref, str], ...] = ()
    """The last line of each log before it."""


def stalls_of(view: RunView) -> list[Stall]:
    """Where the run stood still within the window, in full length."""
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
    end = view.whole[1] if view.present is None else view.present  # a clock may have been wrong, or set, meanwhile
    end = min(end, over) if over is not None else end
    points = [*activity.events, end] if activity.events and end > activity.events[-1] else activity.events
    outside = union([*_later_starts(view), *view.fact(apart), *view.fact(downtime_of)])
    found = []
    for start, stop in pairwise(points):
        if stop - start < LEAST_STALL_S or stop <= low or start >= high:
            continue
        rhythm = rhythm_at(activity, start, stop)
        if rhythm is None or stop - start <= rhythm.limit_s or _was_phase(view, start, stop):
            continue  # in a long log nearly all: what follows looks at all of its lines
        is_open = stop == end and stop > activity.events[-1]
        held = max((state.held_s for state in main), default=0.0) if is_open and view.present is not None else 0.0
        for a, b in without(_quiet(view, main, start, stop, is_open), outside):
            if not any(_was_there(state, a, view) for state in main):
                continue
            if is_open and view.timed and view.present is None and not _lives(view, a, b):
                continue  # that a log ends proves nothing: somebody has to go on
            if _counted_on(view, main, a, b):
                continue
            limit = max(rhythm.limit_s, phase_limit(view, main, a, b)) + held
            if b - a > limit and not any(is_set_forward(a, b, state, view) for state in main):
                silent = _contains(view.fact(dark_run), a, b)
                found.append(Stall(a, b, limit, rhythm.usual_s, silent, _last_lines(view, main, a, b)))
    return found


def _counted_on(view: RunView, main: Sequence[SourceState], start: float, end: float) -> bool:
    """Whether the counter of a log shows that a pause was none of a run that stood still.

    It went on meanwhile about as quickly as before: lines are missing. Or it began again: what lies between two epochs
    or two runs nobody knows.
    """
    log, shifts = view.store.progress, {state.index: view.shift(state.index) for state in main}
    leaps = [
        leap
        for leap in log.leaps
        if leap.source in shifts
        and leap.start + shifts[leap.source] <= start + _CLOCK_S
        and leap.end + shifts[leap.source] >= end - _CLOCK_S
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
    """Where later runs in the same logs started: from their first line to their first progress."""
    events = view.fact(activity_of).events
    begins = [one.time for one in view.fact(boundaries)]
    starts = [(one.between[1], one.under_way) for one in view.fact(restarts_of)]
    starts += [(begin, events[at]) for begin in begins if (at := bisect_right(events, begin)) < len(events)]
    return union(starts)


def overdue_s(view: RunView) -> float:
    """For how long a run whose logs go on has made no progress that is known, where that is far beyond its rhythm."""
    activity = view.fact(activity_of)
    if not view.timed or not activity.events or view.fact(over_at) is not None or view.fact(stalls_of):
        return 0.0
    last, end = activity.events[-1], view.whole[1]
    rhythm = rhythm_at(activity, last, end)
    working = [state for state in main_logs(view) if state.index in _progressing(view)]
    bound = _OVERDUE * rhythm.limit_s if rhythm is not None else _UNPACED_S
    return end - last if working and end - last > bound else 0.0


def _hung_start(view: RunView) -> list[Stall]:
    """A start in which nothing goes on for longer than any phase of one lasts."""
    logs = [s for s in view.store.sources if s.last is not None and not s.polled]
    starts = [time for track in view.fact(activity_of).tracks for time in track.times[-1:]]
    if not logs or not starts or view.fact(over_at) is not None:
        return []
    begin, end = max(*starts, view.fact(run_began)), view.whole[1]
    if end - begin <= START_BOUND_S:
        return []
    common = [(begin, end)]
    for state in logs:
        common = intersection(common, _quiet_log(view, state, begin, end, True))
    return [
        Stall(a, b, START_BOUND_S, 0.0, _contains(view.fact(dark_run), a, b), _last_lines(view, logs, a, b))
        for a, b in common
        if b - a > START_BOUND_S and b >= end - 1.0
    ]


def _was_phase(view: RunView, start: float, stop: float) -> bool:
    """Whether a line that a phase is done ends a stretch: that is what took so long, unless it is beyond all bounds.

    Where its lines tell how long the phase took, it explains the stretch only if it took most of it.
    """
    return any(
        track.kind in PHASE_KINDS
        and stop - start <= PHASE_BOUNDS_S.get(track.kind, _BEGINNING_S)
        and bisect_right(track.times, stop + _EDGE_S) > bisect_left(track.times, stop - _EDGE_S)
        and _took_most(view, track.kind, start, stop)
        for track in view.fact(activity_of).tracks
    )


def _took_most(view: RunView, kind: str, start: float, stop: float) -> bool:
    """Also true where no line tells when the phases began that ended there."""
    lengths = [item.end - item.start for item in view.spans(kind) if abs(item.end - stop) <= _CLOCK_S]
    return not lengths or max(lengths) >= _MOST * (stop - start)


def _lives(view: RunView, start: float, end: float) -> bool:
    """Whether lines that prove no work go on through a stretch at the end of logs that nobody watches."""
    for state in view.store.sources:
        if state.polled:
            continue
        shift, last = view.shift(state.index), state.idle_since
        lines = state.lines_since(start - shift)
        held = [*state.idle, *([last] if last is not None else [])]
        if lines >= _LIVELY and any(gap.end + shift >= (start + end) / 2 for gap in held):
            return True
    return False


def _was_there(state: SourceState, moment: float, view: RunView) -> bool:
    """Whether a log that tells of progress had begun by then: before its first line a run cannot stand still."""
    begun = (state.first or 0.0) + view.shift(state.index) <= moment + _EDGE_S
    return begun and state.index in _progressing(view)


def _progressing(view: RunView) -> set[int]:
    """Logs that tell of progress of their own work."""
    return {track.source for track in view.fact(activity_of).tracks if track.kind not in START_KINDS}


def main_logs(view: RunView) -> list[SourceState]:
    """Logs whose lines mean that the run may be at work: those that tell of progress, and busy ones in formats that
    are not known. A server that is silent when it is idle, and what earlier runs left, are none."""
    working = _progressing(view)
    return [
        state
        for state in view.store.sources
        if (state.index in working or (state.lines >= _BUSY_LINES and state.first != state.last))
        and not state.idle_silence
        and not state.polled
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
    shift = view.shift(state.index)
    final = (state.last or 0.0) + shift
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
    if after < len(rows):  # it printed more than usual in words that are not known, and went on: perhaps it worked
        return []
    return _pieces(state, shift, start, end, places) if is_open else []


def _pieces(state: SourceState, shift: float, start: float, end: float, places: Sequence[int]) -> list[Window]:
    """The parts of a stretch in which a log printed nothing, or nothing but lines known as liveness."""
    usual = _usual_undated(state)
    often = sum(_progresses(gap, places) for gap in state.gaps)
    seldom = often < FEW or often <= _SELDOM * len(state.gaps)
    pieces = [
        (gap.start + shift, gap.end + shift)
        for gap in state.gaps
        if _undated(gap) <= usual and not (seldom and _progresses(gap, places))
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
    """Whether something without a clock came after its last dated line that is not known to prove no work."""
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
    """Lines without a clock that stand within a gap: when they were printed, nobody knows."""
    return max(0, gap.upto - gap.line - 1) if gap.upto else 0


def _progresses(gap: Gap, places: Sequence[int]) -> bool:
    """Whether lines within a gap, without a clock, tell of progress: when, nobody knows."""
    return bool(gap.upto) and bisect_left(places, gap.upto) > bisect_right(places, gap.line)


def _usual_undated(state: SourceState) -> int:
    """How many of these a log prints behind a dated line as a matter of course: timers, a table."""
    counts = sorted(map(_undated, state.gaps[-REMEMBERED:]))
    return _UNKNOWN_LINES + (counts[len(counts) // 2] if len(counts) >= FEW else 0)


def _usual_lines(rows: Sequence[tuple[float, int]]) -> int:
    """How many lines that no format knows usually stand between two of progress."""
    between = sorted(after[1] - before[1] - 1 for before, after in pairwise(rows[-REMEMBERED:]))
    return int(percentile(between, 0.9)) if between else 0


def phase_limit(view: RunView, main: Sequence[SourceState], start: float, end: float) -> float:
    """How long a phase may last that is open, or announced by the last words of a log, when a stretch begins."""
    limit = 0.0
    for span in view.store.opened():
        shift = view.shift(span.source)
        if span.start is None or not span.start + shift <= start + 1.0 or span.kind.endswith("-wait"):
            continue
        lengths = [item.end - item.start for item in view.spans(span.kind) if item.end <= start]
        bound = PHASE_BOUNDS_S.get(span.kind, 0.0)
        limit = max(limit, _USUAL_PHASE * median(lengths) if lengths else bound)
    if any(BEGINS.search(text) for _, text in _last_lines(view, main, start, end)):
        limit = max(limit, _BEGINNING_S)
    if any(_is_full_at(state, start, view) for state in main):
        limit = max(limit, _BETWEEN_S)
    return limit


def _is_full_at(state: SourceState, moment: float, view: RunView) -> bool:
    """Whether the last bar of a log before a moment had reached its end: an epoch is over, and the next not begun."""
    shift = view.shift(state.index)
    counters = [one for one in view.store.progress.counters.values() if one.source == state.index]
    last = max(counters, key=lambda one: (one.line, one.time), default=None)
    if last is None or last.total is None or abs(last.time + shift - moment) > _CLOCK_S:
        return False
    return last.amount >= last.total - max(1.0, _NEARLY * last.total)  # the last frame is read when the next comes


def _last_lines(view: RunView, logs: Sequence[SourceState], start: float, end: float) -> tuple[tuple[Ref, str], ...]:
    """The last line of each log before a stretch."""
    lines: list[tuple[Ref, str]] = []
    for state in logs:
        shift = view.shift(state.index)
        gap = _around([*state.gaps, *state.idle], start - shift, end - shift)
        if gap is not None:
            lines.append((Ref(state.index, gap.line, 0), gap.text))
        elif state.last_line[1] and (state.tail or state.last or 0.0) + shift <= start + 1.0:
            lines.append((Ref(state.index, state.last_line[0], 0), state.last_line[1]))
        elif state.idle_since is not None and state.idle_since.start + shift <= start + 1.0:
            lines.append((Ref(state.index, state.idle_since.line, 0), state.idle_since.text))
    return tuple(lines)


def _around(gaps: Sequence[Gap], start: float, end: float) -> Gap | None:
    return next((gap for gap in gaps if gap.start <= start + 1.0 and gap.end >= end - 1.0), None)


def _contains(windows: Sequence[Window], start: float, end: float) -> bool:
    return any(a <= start + 1.0 and b >= end - 1.0 for a, b in windows)
