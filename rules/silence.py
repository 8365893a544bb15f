"""Stretches without a line: of one log while others go on, and of all logs at once.

A log tells when it is silent only by lines that have a clock. One stamped line followed by lines without any (a
progress table, dict lines of a trainer) tells nothing, and the end of a log that said farewell is no silence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmon.model import Gap, Ref
from perfmon.stats import percentile
from perfmon.store import SourceState

if TYPE_CHECKING:
    from .view import View, Window

LEAST_S = 10.0
"""Shorter gaps are not told apart."""
_BUSY_LINES = 20
_UNDATED_LINES = 5
_TAIL_SHARE = 0.4
"""With five times the usual: an end that is silent for twice the longest gap."""
_FAREWELL = re.compile(
    r"(?i)(?<![.\w])(?:finished|completed?|shut(?:ting)? ?down|exit(?:ed|ing)?|stopp(?:ed|ing)|terminat(?:ed|ing)|"
    r"goodbye|all done|train_runtime)\b"
)


@dataclass(slots=True)
class Quiet:
    """A stretch in which a log, or all of them, printed nothing."""

    start: float
    end: float
    source: int
    """-1: all logs."""
    usual_s: float
    """The usual time between lines of that log (the largest of all logs for `all`)."""
    ended: bool
    """The log has no further line, others go on."""
    refs: tuple[tuple[Ref, str], ...] = ()
    """The last line before the silence, of each log."""


def usual_gap(state: SourceState) -> float:
    """Seconds that usually pass between two lines of a log: below 10 s it is not told apart.

    A log that is silent for most of its time is a sparse one; then its silences are what is usual. Three of its
    longest gaps in four are not longer than what is said here.
    """
    gaps = sorted(gap.end - gap.start for gap in state.gaps)
    observed = (state.last or 0.0) - (state.first or 0.0)
    if len(gaps) >= 3 and sum(gaps) > 0.5 * observed:
        return percentile(gaps, 0.5 if len(gaps) < 8 else 0.75)
    return LEAST_S


def quiet_logs(view: View) -> list[Quiet]:
    """Stretches without a line, log by log; the tail of a log that ends while others go on is one.

    What is usual for a stretch is told by the log's other stretches.
    """
    quiet = [stretch for state in _telling(view) for stretch in (*_inner(state, view), *_tail(state, view))]
    return _seen(quiet, view)


def _inner(state: SourceState, view: View) -> list[Quiet]:
    shift, usual = view.shifts.get(state.index, 0.0), usual_gap(state)
    longest = sorted((gap.end - gap.start for gap in state.gaps), reverse=True)[:2]
    quiet = []
    for gap in state.gaps:
        alone = gap.end - gap.start >= longest[0]
        other = longest[-1] if alone and len(longest) > 1 else 0.0 if alone else longest[0]
        told = (_line(state, gap),)
        quiet.append(Quiet(gap.start + shift, gap.end + shift, state.index, max(usual, other), False, told))
    return quiet


def _tail(state: SourceState, view: View) -> list[Quiet]:
    last, high = (state.last or 0.0) + view.shifts.get(state.index, 0.0), view.whole[1]
    if high - last < LEAST_S or _FAREWELL.search(state.last_line[1]):
        return []
    longest = max((gap.end - gap.start for gap in state.gaps), default=0.0)
    line, text = state.last_line
    usual = max(usual_gap(state), _TAIL_SHARE * longest)
    return [Quiet(last, high, state.index, usual, True, ((Ref(state.index, line, 0), text),))]


def quiet_run(view: View) -> list[Quiet]:
    """Stretches in which no log printed a line, inside the observed time and after the run got under way.

    What comes before the first step is start-up. Where every log that tells of steps, or every busy one, has ended for
    good, the run has ended: what a launcher prints later does not make it a stall.
    """
    dated = _dated(view)
    telling = _telling(view)
    if not telling or len(telling) < len(dated):
        return []
    common: list[Window] | None = None
    for state in telling:
        silent = _silent(state, view)
        common = silent if common is None else intersection(common, silent)
    begun, over = _under_way(view), _over(telling, view)
    usual = max(usual_gap(state) for state in telling)
    stretches = [(start, end) for start, end in common or [] if begun <= start < over]
    return _seen([Quiet(a, b, -1, usual, False, _lines_before(telling, view, a, b)) for a, b in stretches], view)


def _dated(view: View) -> list[SourceState]:
    return [state for state in view.store.sources if state.first is not None and state.last is not None]


def _telling(view: View) -> list[SourceState]:
    """Logs whose lines have clocks up to their end."""
    return [state for state in _dated(view) if state.first != state.last and not _undated_end(state, view)]


def _undated_end(state: SourceState, view: View) -> bool:
    """Lines without a clock, which tell something, follow the last dated one."""
    dated = state.last_line[0]
    lines: set[int] = set()
    for series in view.store.all_series():
        at = len(series) - 1
        while at >= 0 and series.sources[at] == state.index and series.lines[at] > dated:
            lines.add(series.lines[at])
            at -= 1
            if len(lines) >= _UNDATED_LINES:
                return True
    return False


def _silent(state: SourceState, view: View) -> list[Window]:
    """All that lies outside a log's lines: its gaps, and the time before its first and after its last line."""
    low, high = view.whole
    shift = view.shifts.get(state.index, 0.0)
    first, last = (state.first or 0.0) + shift, (state.last or 0.0) + shift
    silent = [(gap.start + shift, gap.end + shift) for gap in state.gaps]
    silent += [(low, first)] if first > low else []
    return silent + ([(last, high)] if last < high else [])


def _under_way(view: View) -> float:
    """When the run made its first step; minus infinity where no log tells of steps."""
    firsts = [
        time + view.shifts.get(source, 0.0)
        for series in view.store.steps.values()
        for time, source in zip(series.times[:1], series.sources[:1], strict=True)
    ]
    return min(firsts, default=float("-inf"))


def _over(telling: Sequence[SourceState], view: View) -> float:
    """When the last log that matters printed its last line."""
    with_steps = {source for series in view.store.steps.values() for source in set(series.sources)}
    ends = {state.index: (state.last or 0.0) + view.shifts.get(state.index, 0.0) for state in telling}
    mattering = [ends[index] for index in with_steps if index in ends]
    busy = [ends[state.index] for state in telling if state.lines >= _BUSY_LINES]
    return max(mattering or busy, default=float("-inf"))


def _lines_before(telling: Sequence[SourceState], view: View, start: float, end: float) -> tuple[tuple[Ref, str], ...]:
    return tuple(
        _line(state, gap)
        for state in telling
        for gap in state.gaps
        if gap.start <= start - view.shifts.get(state.index, 0.0) and gap.end >= end - view.shifts.get(state.index, 0.0)
    )


def _line(state: SourceState, gap: Gap) -> tuple[Ref, str]:
    return (Ref(state.index, gap.line, 0), gap.text)


def _seen(quiet: list[Quiet], view: View) -> list[Quiet]:
    """Those that reach into the window that is looked at, in their full length: by that they are judged."""
    low, high = view.window
    return [stretch for stretch in quiet if min(stretch.end, high) > max(stretch.start, low)]


def intersection(left: Sequence[Window], right: Sequence[Window]) -> list[Window]:
    """Where two lists of intervals overlap."""
    left, right = sorted(left), sorted(right)
    common: list[Window] = []
    i = j = 0
    while i < len(left) and j < len(right):
        start, end = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if start < end:
            common.append((start, end))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return common
