"""Stretches without a line: of one log while others go on, and of all logs at once.

A log tells when it is silent only by lines that have a clock. One stamped line followed by lines without any (a
progress table, dict lines of a trainer) tells nothing, and the end of a log that said farewell is no silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

from perfmon.ledger import intersection
from perfmon.model import EPOCH, Gap, Ref
from perfmon.sourcestate import SourceState
from perfmon.stats import median, percentile

from .followers import is_filled
from .successors import bygone_of
from .told_end import FAREWELL

if TYPE_CHECKING:
    from perfmon.ledger import Window

    from .run_view import RunView

LEAST_S = 10.0
"""Shorter gaps are not told apart."""
_BUSY_LINES = 20
_UNDATED_LINES = 5
_LONG_S = 60.0
_SET_BACK_S = 60.0
_HOUR_S, _DAY_S = 3600.0, 86400.0
_NIGHT_S = 4 * _HOUR_S
_SAME_RATE = 0.25
_TAIL_SHARE = 0.4
"""With five times the usual: an end that is silent for twice the longest gap."""


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
    proven_s: float = inf
    """Of all logs: seconds from which on, by the run's own rhythm, it is no pause."""


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


def said_farewell(state: SourceState) -> bool:
    """Its last dated line says that it ends."""
    return _is_farewell(state.last_line[1])


@lru_cache(64)
def _is_farewell(text: str) -> bool:
    """Asked of the same lines several times in every judgement."""
    return FAREWELL.search(text) is not None


def is_over(state: SourceState) -> bool:
    """Nothing more is to come of a log."""
    return state.ended or said_farewell(state)


def quiet_logs(view: RunView) -> list[Quiet]:
    """Stretches without a line, log by log; the tail of a log that ends while others go on is one.

    What is usual for a stretch is told by the log's other stretches. A log whose clock was guessed is not judged: where
    it lies is not known well enough to say that it was silent while others went on.
    """
    telling = [state for state in _telling(view) if state.index not in view.guessed]
    gone = view.fact(bygone_of)
    return _seen([stretch for state in telling for stretch in (*_inner(state, view), *_tail(state, view, gone))], view)


def _inner(state: SourceState, view: RunView) -> list[Quiet]:
    shift, usual = view.shifts.get(state.index, 0.0), usual_gap(state)
    longest = sorted((gap.end - gap.start for gap in state.gaps), reverse=True)[:2]
    quiet = []
    for gap in _gaps(state, view):
        alone = gap.end - gap.start >= longest[0]
        other = longest[-1] if alone and len(longest) > 1 else 0.0 if alone else longest[0]
        told = (_line(state, gap),)
        quiet.append(Quiet(gap.start + shift, gap.end + shift, state.index, max(usual, other), False, told))
    return quiet


def _gaps(state: SourceState, view: RunView) -> list[Gap]:
    """The gaps of a log that reach into the part that is looked at: a run that is watched for days has many more."""
    if view.clip is None:
        return state.gaps
    shift = view.shifts.get(state.index, 0.0)
    low, high = view.clip[0] - shift, view.clip[1] - shift
    return [gap for gap in state.gaps if gap.end > low and gap.start < high]


def _tail(state: SourceState, view: RunView, gone: Mapping[int, float]) -> list[Quiet]:
    # Where all logs are silent none of them is: that is a stall, or the end.
    last, high = (state.last or 0.0) + view.shifts.get(state.index, 0.0), view.told[1]
    high = min(high, gone.get(state.index, high))
    set_back = state.tail is not None and state.tail < (state.last or 0.0) - _SET_BACK_S
    if high - last < LEAST_S or said_farewell(state) or set_back:
        return []  # where its clock was set back it may print all the time and not have caught up
    longest = max((gap.end - gap.start for gap in state.gaps), default=0.0)
    line, text = state.last_line
    usual = max(usual_gap(state), _TAIL_SHARE * longest)
    return [Quiet(last, high, state.index, usual, True, ((Ref(state.index, line, 0), text),))]


def silences(view: RunView) -> list[Window]:
    """The same with the time between runs."""
    telling = _telling(view)
    if not telling or len(telling) < len(dated(view)):
        return []
    common: list[Window] | None = None
    for state in telling:
        silent = _silent(state, view)
        common = silent if common is None else intersection(common, silent)
    return sorted(common or [])


def span_of(state: SourceState, view: RunView) -> Window:
    """First and last moment of a log."""
    shift = view.shifts.get(state.index, 0.0)
    return ((state.first or 0.0) + shift, (state.last or 0.0) + shift)


def is_set_forward(start: float, end: float, state: SourceState, view: RunView) -> bool:
    """A jump by the hour that summer time takes away, at night, between two steps of the usual length."""
    beyond = end - start - _HOUR_S
    local = (start - view.shifts.get(state.index, 0.0)) % _DAY_S
    if beyond < 0.0 or state.kind in (None, EPOCH) or local >= _NIGHT_S:
        return False
    for series in view.store.steps.values():
        times = [t for t, source in zip(series.times, series.sources, strict=True) if source == state.index]
        usual = median([b - a for a, b in pairwise(times)] or [0.0])
        if usual > 0.0 and abs(beyond - usual) <= max(1.0, _SAME_RATE * usual):
            return True
    return False


def dated(view: RunView) -> list[SourceState]:
    return [
        state for state in view.store.sources if state.first is not None and state.last is not None and not state.polled
    ]


def _telling(view: RunView) -> list[SourceState]:
    """Logs whose lines have clocks up to their end."""
    return [state for state in dated(view) if state.first != state.last and not _undated_end(state, view)]


def _undated_end(state: SourceState, view: RunView) -> bool:
    """Lines without a clock, which tell something, follow the last dated one, and more of them than usual."""
    dated, time = state.last_line[0], state.tail
    lines: set[int] = set()
    for series in view.store.all_series():
        at = len(series) - 1
        while at >= 0 and series.sources[at] == state.index and series.lines[at] > dated:
            lines.add(series.lines[at])
            at -= 1
            if len(lines) >= _UNDATED_LINES:
                return time is None or is_filled(view.store.all_series(), state.index, Gap(time, inf, dated, ""))
    return False


def _silent(state: SourceState, view: RunView) -> list[Window]:
    """All that lies outside a log's lines: its gaps, and the time before its first and after its last line."""
    low, high = view.whole
    shift = view.shifts.get(state.index, 0.0)
    first, last = (state.first or 0.0) + shift, (state.last or 0.0) + shift
    silent = [(gap.start + shift, gap.end + shift) for gap in _gaps(state, view)]
    silent += [(low, first)] if first > low else []
    return silent + ([(last, high)] if last < high else [])


def _line(state: SourceState, gap: Gap) -> tuple[Ref, str]:
    return (Ref(state.index, gap.line, 0), gap.text)


def _seen(quiet: list[Quiet], view: RunView) -> list[Quiet]:
    """Those that reach into the window that is looked at, in their full length: by that they are judged."""
    low, high = view.window
    return [stretch for stretch in quiet if min(stretch.end, high) > max(stretch.start, low)]
