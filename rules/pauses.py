"""Pauses of a run that are no stalls: phases that last long, pauses that recur, ranges in which its GPUs work."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from perfmon.core import Ref, Span, Window, median
from perfmon.store import SourceState, WorkCounter

from .activity import LEAST_STALL_S, PHASE_KINDS, all_tracks

if TYPE_CHECKING:
    from .run_view import RunView
    from .tracks import Column, Item

PHASE_BOUNDS_S = {
    "model-load": 1800.0, "download": 1800.0, "engine-init": 2700.0, "compile": 1200.0, "graph-capture": 900.0,
    "data-prepare": 3600.0, "checkpoint-load": 1800.0, "checkpoint-write": 900.0, "evaluation": 1800.0,
}  # fmt: skip
"""Seconds that an announced phase may last before it counts as hung, where the run has had none of its kind."""
USUAL_PHASE = 3.0
"""Times the usual length of a phase that it may last."""
BEGINNING_S = 600.0
_BETWEEN_S = 300.0
"""Seconds that something that prints nothing may take after a full bar: validation, a checkpoint, an upload."""
_NEARLY = 0.01
_CLOCK_S = 1.0
BEGINS = re.compile(
    r"(?i)\b(?:saving|evaluating|validating|compiling|capturing|loading|downloading|initiali[sz]ing|profiling|"
    r"warming up|warm-?up|resharding|offloading|"
    r"(?:start\w*|begin\w*|running|launch\w*|writing|enter\w*)\b.{0,40}\b(?:eval\w*|validation|checkpoint\w*|save|"
    r"compil\w*|test\w*|benchmark\w*|profil\w*))\b"
)
"""Last lines of a log that announce a long phase which no format knows."""
_RECALLED = 16
"""The longest pauses of a kind of progress that are looked back on."""
_ALIKE, _AS_LONG = 0.2, 2.0
"""The part by which the times between pauses that recur differ, and how long one is, as a multiple of the others."""
_BEFORE_S, _TOGETHER_S = 120.0, 30.0
_WORKS, _SPINS = 20.0, 99.0
"""Load of a GPU in % that shows work; kernels that wait for other ranks keep it at its maximum."""


def phase_limit(view: RunView, main: Sequence[SourceState], start: float, end: float) -> float:
    """Seconds that a phase may last that is open, or announced by the last line of a log, at the start of a range."""
    limit, bars = 0.0, dict[int, int]()
    for span in view.store.opened():
        shift = view.shift(span.source)
        if span.start is None or not span.start + shift <= start + 1.0 or span.kind.endswith("-wait"):
            continue
        ended = [item for item in view.spans(span.kind) if item.end <= start]
        lengths = [item.end - item.start for item in ended]
        bound = PHASE_BOUNDS_S.get(span.kind, 0.0)
        own = bar_limit(span, ended, view)
        limit = max(limit, own[1] if own is not None else USUAL_PHASE * median(lengths) if lengths else bound)
        if own is not None:
            bars[span.source] = own[0].line
    last = (text for ref, text in last_lines(view, main, start, end) if ref.line >= bars.get(ref.source, 0))
    if any(map(BEGINS.search, last)):
        limit = max(limit, BEGINNING_S)
    if any(_is_full_at(state, start, view) for state in main):
        limit = max(limit, _BETWEEN_S)
    return limit


_WITH_BARS, _BEGUN_S, _ITEMS, _AGAIN = "evaluation", 2.0, 3.0, 2.0
"""The kind of phase whose bar is seen, by how many seconds that may begin early, and how many times as long as an item
took, and as the longest pause of an earlier phase, it may stand still."""
_MOVED = 3
_EARLIER = 8


def bar_limit(span: Span, ended: Iterable[Item], view: RunView) -> tuple[WorkCounter, float] | None:
    """The own bar of an open evaluation, and the seconds that it may stand still.

    None where it shows no bar: then only the length of the whole is known, by those that have `ended`.
    """
    if span.kind != _WITH_BARS or span.start is None:
        return None
    bars = [one for one in view.counters(span.source) if one.total and one.elapsed_s]
    bars = [one for one in bars if _began(one) >= span.start - _BEGUN_S]
    last = max(bars, key=lambda one: (one.time, one.line), default=None)
    if last is None or last.amount - last.began_at < _MOVED:
        return None
    each = (last.elapsed_s or 0.0) / max(1.0, last.amount)
    longest = _longest_pause([item for item in ended if item.source == span.source][-_EARLIER:], view)
    return last, max(_BETWEEN_S, _ITEMS * each, _AGAIN * longest)


def _began(bar: WorkCounter) -> float:
    return bar.time - (bar.elapsed_s or 0.0)


def _longest_pause(phases: Sequence[Item], view: RunView) -> float:
    """The longest time without progress within phases of one log."""
    if not phases:
        return 0.0
    shift, tracks = view.shift(phases[0].source), view.store.progress.of(phases[0].source)
    times = sorted({time + shift for track in tracks for time in track.times})
    ways = (
        [one.start, *times[bisect_right(times, one.start) : bisect_left(times, one.end)], one.end] for one in phases
    )
    return max(after - before for way in ways for before, after in pairwise(way))


def _is_full_at(state: SourceState, moment: float, view: RunView) -> bool:
    """True where the last bar of a log before a moment was full: an epoch is over, and the next has not started."""
    last = max(view.counters(state.index), key=lambda one: (one.line, one.time), default=None)
    if last is None or last.total is None or abs(last.time + view.shift(state.index) - moment) > _CLOCK_S:
        return False
    return last.amount >= last.total - max(1.0, _NEARLY * last.total)  # the last frame is read when the next comes


def last_lines(view: RunView, logs: Sequence[SourceState], start: float, end: float) -> tuple[tuple[Ref, str], ...]:
    """The last line of each log before a range."""
    lines: list[tuple[Ref, str]] = []
    for state in logs:
        shift = view.shift(state.index)
        low, high = start - shift + 1.0, end - shift - 1.0
        gap = next((gap for gap in [*state.gaps, *state.idle] if gap.start <= low and gap.end >= high), None)
        if gap is not None:
            lines.append((Ref(state.index, gap.line, 0), gap.text))
        elif state.last_line[1] and (state.tail or state.last or 0.0) + shift <= start + 1.0:
            lines.append((Ref(state.index, state.last_line[0], 0), state.last_line[1]))
        elif state.idle_since is not None and state.idle_since.start + shift <= start + 1.0:
            lines.append((Ref(state.index, state.idle_since.line, 0), state.idle_since.text))
    return tuple(lines)


def recurring_s(view: RunView, start: float, end: float) -> float:
    """Seconds that a pause may last because pauses of its kind recur, as those for evaluations do; 0 where none do.

    Two others and this one come after the same time at work, however many steps that is.
    """
    limit = 0.0
    for track in all_tracks(view):
        if track.kind in PHASE_KINDS or track.kind.endswith("-wait") or not track.times:
            continue
        others = [(a, b) for a, b in pairwise(track.times) if b - a >= LEAST_STALL_S and not (a < end and b > start)]
        others = sorted(sorted(others, key=lambda pause: pause[0] - pause[1])[:_RECALLED])
        for least in {b - a for a, b in others}:
            limit = max(limit, _recur([one for one in others if one[1] - one[0] >= least], start, end))
    return limit


def _recur(others: Sequence[Window], start: float, end: float) -> float:
    at = bisect_right(others, (start, end))
    limit = 0.0
    for first in (at - 2, at - 1, at):
        if first < 0 or first + 2 > len(others):
            continue
        near = others[first : first + 2]
        one, two, three = sorted([*near, (start, end)])
        before, after = two[0] - one[1], three[0] - two[1]
        if abs(before - after) <= _ALIKE * max(before, after):
            limit = max(limit, _AS_LONG * min(b - a for a, b in near))
    return limit


def worked_until(view: RunView, start: float, end: float) -> float:
    """The time up to which all GPUs that computed before a range went on to do so; its start where they did not.

    Their load has to vary: one that waits for a collective of a rank that hangs is fully busy, too. A range that is
    longer than any evaluation proves nothing.
    """
    if end - start > PHASE_BOUNDS_S["evaluation"]:
        return start
    streams = view.track("gpu_busy").streams.values()
    return max(start, min((_works_until(one, start, end) for one in streams if _is_in_use(one, start)), default=start))


def _is_in_use(column: Column, moment: float) -> bool:
    stop = bisect_right(column.times, moment)
    before = column.values[bisect_right(column.times, moment - _BEFORE_S) : stop]
    return bool(before) and sum(before) > _WORKS * len(before)


def _works_until(column: Column, start: float, end: float) -> float:
    """The last sample that shows work together with most of those before it."""
    low = bisect_right(column.times, start)
    for at in range(bisect_right(column.times, end) - 1, low - 1, -1):
        if _shows_work(column.values[at]):
            begin = max(low, bisect_right(column.times, column.times[at] - _TOGETHER_S))
            if 2 * sum(map(_shows_work, column.values[begin : at + 1])) > at + 1 - begin:
                return column.times[at]
    return start


def _shows_work(load: float) -> bool:
    return _WORKS < load < _SPINS
