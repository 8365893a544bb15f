"""Gaps without a line: of one log while others go on, and of all logs at once."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

from perfmon.core import EPOCH, Gap, Ref, intersection, median, percentile
from perfmon.store import Series, SourceState

if TYPE_CHECKING:
    from perfmon.core import Window

    from .run_view import RunView


# --- Lines without a clock that always follow a dated one, as timers follow an iteration: they fill no silence ---
#
# When they were printed is not known, only that as many have come within a short time before, and often.

_OFTEN = 5
_LOOKED_AT = 64
"""Samples of each series before the silence."""
_QUICK = 1 / 3
"""Of the silence: within this time as many lines came before."""
Told = tuple[float, int]
"""Time and line."""


def is_filled(held: Iterable[Series], source: int, gap: Gap) -> bool:
    """More lines without a clock told something within a gap of a log than usually follow a dated one."""
    within: dict[int, int] = {}
    series = list(held)
    for at, one in enumerate(series):
        count = _within(one, source, gap)
        if count:
            within[at] = count
    if not within:
        return False
    before = [_before(one, source, gap) for one in series]
    dated = _dated_counts(told for one in before for told in one)
    quick = _quick(dated, gap)
    return any(not _usual(before[at], count, dated, quick) for at, count in within.items())


def _within(series: Series, source: int, gap: Gap) -> int:
    """Samples behind the line before the gap; without a clock they have its time."""
    first, stop = 0, len(series)
    if series.steady():
        if not stop or series.sources[0] != source:
            return 0
        first, stop = bisect_left(series.times, gap.start), bisect_right(series.times, gap.start)
    return sum(
        series.sources[at] == source and series.times[at] == gap.start and series.lines[at] > gap.line
        for at in range(first, stop)
    )


def _before(series: Series, source: int, gap: Gap) -> list[Told]:
    """The last samples that a log told before the gap's first line."""
    if series.steady():
        if not len(series) or series.sources[0] != source:
            return []
        stop = bisect_left(series.times, gap.start)
        places = range(max(0, stop - _LOOKED_AT), stop)
        return [(series.times[at], series.lines[at]) for at in places]
    mine = [
        (time, line)
        for time, line, told_by in zip(series.times, series.lines, series.sources, strict=True)
        if told_by == source and time < gap.start
    ]
    return sorted(mine)[-_LOOKED_AT:]


def _dated_counts(told: Iterable[Told]) -> dict[float, int]:
    """By their time the first lines that have it: those may be dated."""
    first: dict[float, int] = {}
    for time, line in told:
        first[time] = min(line, first.get(time, line))
    return first


def _quick(times: Iterable[float], gap: Gap) -> set[float]:
    """Times after which the next one came soon."""
    return {
        before for before, after in pairwise([*sorted(times), gap.start]) if after - before <= _QUICK * _length(gap)
    }


def _length(gap: Gap) -> float:
    return gap.end - gap.start


def _usual(before: Iterable[Told], count: int, dated: dict[float, int], quick: set[float]) -> bool:
    """So many samples of a series, and more, have often followed a dated line soon."""
    followed = Counter(time for time, line in before if line > dated[time] and time in quick)
    return sum(came >= count for came in followed.values()) >= _OFTEN


# --- What a log says when it, or the run, ends ---

_WORDS = (
    r"(?<![.\w])(?:finished|completed?|shut(?:ting)? ?down|exit(?:ed|ing)?|stopp(?:ed|ing)|terminat(?:ed|ing)|"
    r"goodbye|all done|train_runtime)\b"
)
_GOES_ON = (
    r"(?<!\bto )(?<!\bbe )(?<!\bnot )(?<!\bcollection )(?<!\bevaluation )(?<!\bcheckpoint )(?<!\bstep )(?<!\bbatch )"
)
"""What stands before these words in lines of a run that goes on: it waits for something to complete, or a part has."""
FAREWELL = re.compile(rf"(?i){_GOES_ON}{_WORDS}(?! [a-z]+ing\b)")
RUN_OVER = re.compile(
    r"(?i)\b(?:orchestrator|train(?:er|ing)|run|job|experiment)\b(?! (?:step|epoch|batch))[^.,;:\d]{0,24}\b"
    rf"{_GOES_ON}(?:finished|completed?|done|stopped|terminated|shut(?:ting)? ?down|exit(?:ed|ing)?)\b"
    r"|\b(?:total )?(?:training|run|elapsed|execution|wall) ?time\b[^\d\n]{0,24}"
    r"\d+(?::\d\d|(?:\.\d+)? ?(?:min|h|hours?)\b)"
    r"|\boptimi[sz]ation (?:complete[d]?|finished)\b|\bran for \d[\d.]* ?(?:m|min|h|hours?)\b"
    r"|\bfinished (?:normally|successfully)\b"
)


# --- Logs of a run that is over, beside those of one that began after it: their silence means nothing ---
#
# A run is over where all of its logs have ended before the first of the others begins. Where a log goes on through both
# (a server's), a log is over when another one of its kind has begun after its last line.

_NUMBERS = re.compile(r"[\d._-]+")
_ALIKE = 0.5
"""Share of the patterns of the log that tells less."""
Extent = tuple[float, float, SourceState]


def bygone(states: Sequence[SourceState], shifts: Mapping[int, float]) -> dict[int, float]:
    """Logs whose run is over, by index, with the moment at which it was: nobody waited for their lines any more."""
    extents = _extents(states, shifts)
    if not extents or extents[-1][0] <= min(last for _, last, _ in extents):
        return {}  # all were there at the same time
    gone: dict[int, float] = {}
    runs = _runs(extents)
    for first, last, state in extents:
        if last < runs[-1][0]:
            gone[state.index] = next(high for low, high in runs if low <= first <= high)
        elif any(begin > last and _alike(state, other) for begin, _, other in reversed(extents)):
            gone[state.index] = last
    return gone


def _extents(states: Sequence[SourceState], shifts: Mapping[int, float]) -> list[Extent]:
    """First and last moment of each log, by the first."""
    moved = [
        (state.first + shifts.get(state.index, 0.0), state.last + shifts.get(state.index, 0.0), state)
        for state in states
        if state.first is not None and state.last is not None and not state.polled
    ]
    return sorted(moved, key=lambda extent: extent[0])


def _runs(extents: Sequence[Extent]) -> list[tuple[float, float]]:
    """Stretches between which no log goes on."""
    runs: list[tuple[float, float]] = []
    for first, last, _ in extents:
        if runs and first <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(runs[-1][1], last))
        else:
            runs.append((first, last))
    return runs


def _alike(state: SourceState, other: SourceState) -> bool:
    """They tell the same things, or bear the same name but for its numbers."""
    if state.spec != other.spec and _bare(state.spec) == _bare(other.spec):
        return True
    mine, theirs = state.patterns.keys(), other.patterns.keys()
    return bool(mine and theirs) and len(mine & theirs) >= _ALIKE * min(len(mine), len(theirs))


def _bare(spec: str) -> str:
    return _NUMBERS.sub(" ", spec.rpartition("/")[2])


def bygone_of(view: RunView) -> Mapping[int, float]:
    """The same of all logs of a run."""
    return bygone(view.store.sources, view.shifts)


# --- Stretches without a line: of one log while others go on, and of all logs at once ---
#
# A log tells when it is silent only by lines that have a clock. One stamped line followed by lines without any (a
# progress table, dict lines of a trainer) tells nothing, and the end of a log that said farewell is no silence.

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


def announced_shutdown(state: SourceState) -> bool:
    """Its last dated line says that it ends."""
    return _is_farewell(state.last_line[1])


@lru_cache(64)
def _is_farewell(text: str) -> bool:
    """Asked of the same lines several times in every judgement."""
    return FAREWELL.search(text) is not None


def is_over(state: SourceState) -> bool:
    """Nothing more is to come of a log."""
    return state.ended or announced_shutdown(state)


def quiet_logs(view: RunView) -> list[Quiet]:
    """Stretches without a line, log by log; the tail of a log that ends while others go on is one.

    What is usual for a stretch is told by the log's other stretches. A log whose clock was guessed is not judged: where
    it lies is not known well enough to say that it was silent while others went on.
    """
    telling = [state for state in _telling(view) if state.index not in view.guessed]
    gone = view.fact(bygone_of)
    return _seen([stretch for state in telling for stretch in (*_inner(state, view), *_tail(state, view, gone))], view)


def _inner(state: SourceState, view: RunView) -> list[Quiet]:
    shift, usual = view.shift(state.index), usual_gap(state)
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
    shift = view.shift(state.index)
    low, high = view.clip[0] - shift, view.clip[1] - shift
    return [gap for gap in state.gaps if gap.end > low and gap.start < high]


def _tail(state: SourceState, view: RunView, gone: Mapping[int, float]) -> list[Quiet]:
    # Where all logs are silent none of them is: that is a stall, or the end.
    last, high = (state.last or 0.0) + view.shift(state.index), view.told[1]
    high = min(high, gone.get(state.index, high))
    set_back = state.tail is not None and state.tail < (state.last or 0.0) - _SET_BACK_S
    if high - last < LEAST_S or announced_shutdown(state) or set_back:
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
    shift = view.shift(state.index)
    return ((state.first or 0.0) + shift, (state.last or 0.0) + shift)


def is_set_forward(start: float, end: float, state: SourceState, view: RunView) -> bool:
    """A jump by the hour that summer time takes away, at night, between two steps of the usual length."""
    beyond = end - start - _HOUR_S
    local = (start - view.shift(state.index)) % _DAY_S
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
    shift = view.shift(state.index)
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
