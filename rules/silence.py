"""Gaps without a line: of one log while others continue, of all logs at once; what starts or ends at one."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING

from perfmon.core import EPOCH, Gap, Ref, intersection, median, percentile
from perfmon.store import NUMBERS, ProgressTrack, RunMark, Series, SourceState, place_of

if TYPE_CHECKING:
    from perfmon.core import Window

    from .run_view import RunView

# --- Lines without a clock that always follow a dated one, as timers follow an iteration: they fill no gap ---
#
# Their time is not known, only that as many have often come within a short time before.

_OFTEN = 5
_LOOKED_AT = 64
"""Samples of each series before the silence."""
_QUICK = 1 / 3
"""Of the silence: within this time as many lines came before."""
Sample = tuple[float, int]
"""Time and line."""


def is_filled(held: Iterable[Series], source: int, gap: Gap) -> bool:
    """More recognised lines without a clock are within a gap of a log than usually follow a dated one."""
    series = list(held)
    within = {at: count for at, one in enumerate(series) if (count := _within(one, source, gap))}
    if not within:
        return False
    before = [_before(one, source, gap) for one in series]
    # By their time the first lines that have it: those may be dated.
    dated: dict[float, int] = {}
    for time, line in (sample for samples in before for sample in samples):
        dated[time] = min(line, dated.get(time, line))
    length = gap.end - gap.start
    quick = {time for time, after in pairwise([*sorted(dated), gap.start]) if after - time <= _QUICK * length}
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


def _before(series: Series, source: int, gap: Gap) -> list[Sample]:
    """The last samples of a log before the first line of the gap."""
    if series.steady():
        if not len(series) or series.sources[0] != source:
            return []
        stop = bisect_left(series.times, gap.start)
        places = range(max(0, stop - _LOOKED_AT), stop)
        return [(series.times[at], series.lines[at]) for at in places]
    mine = [
        (time, line)
        for time, line, log in zip(series.times, series.lines, series.sources, strict=True)
        if log == source and time < gap.start
    ]
    return sorted(mine)[-_LOOKED_AT:]


def _usual(before: Iterable[Sample], count: int, dated: dict[float, int], quick: set[float]) -> bool:
    """At least `count` samples of a series have often followed a dated line soon."""
    followed = Counter(time for time, line in before if line > dated[time] and time in quick)
    return sum(came >= count for came in followed.values()) >= _OFTEN


# --- Lines that announce the end of a log, or of the run ---

_WORDS = (
    r"(?<![.\w])(?:finished|completed?|shut(?:ting)? ?down|exit(?:ed|ing)?|stopp(?:ed|ing)|terminat(?:ed|ing)|"
    r"goodbye|all done|train_runtime)\b"
)
_GOES_ON = (
    r"(?<!\bto )(?<!\bbe )(?<!\bnot )(?<!\bcollection )(?<!\bevaluation )(?<!\bcheckpoint )(?<!\bstep )(?<!\bbatch )"
)
"""Text before these words in lines of a run that continues: it waits for something to complete, or a part has."""
FAREWELL = re.compile(rf"(?i){_GOES_ON}{_WORDS}(?! [a-z]+ing\b)")
RUN_OVER = re.compile(
    r"(?i)\b(?:orchestrator|train(?:er|ing)|run|job|experiment)\b(?! (?:step|epoch|batch))[^.,;:\d]{0,24}\b"
    rf"{_GOES_ON}(?:finished|completed?|done|stopped|terminated|shut(?:ting)? ?down|exit(?:ed|ing)?)\b"
    r"|\b(?:total )?(?:training|run|elapsed|execution|wall) ?time\b[^\d\n]{0,24}"
    r"\d+(?::\d\d|(?:\.\d+)? ?(?:min|h|hours?)\b)"
    r"|\boptimi[sz]ation (?:complete[d]?|finished)\b|\bran for \d[\d.]* ?(?:m|min|h|hours?)\b"
    r"|\bfinished (?:normally|successfully)\b"
)


# --- Logs of a run that is over, next to those of a later run: their gaps mean nothing ---
#
# A run is over where all of its logs have ended before the first of the others starts. Where a log continues through
# both (a server's), a log is over when another one of its kind has started after its last line.

_NUMBERS = re.compile(r"[\d._-]+")
_ALIKE = 0.5
"""Share of the patterns of the log that has fewer."""
Extent = tuple[float, float, SourceState]


def ended_sources(view: RunView) -> Mapping[int, float]:
    """Logs whose run is over, by index, with the time at which it ended: no more lines of theirs were expected."""
    extents: list[Extent] = sorted(((*view.extent(state), state) for state in dated(view)), key=itemgetter(0))
    if not extents or extents[-1][0] <= min(last for _, last, _ in extents):
        return {}  # all were there at the same time
    gone: dict[int, float] = {}
    runs = _runs(extents)
    for first, last, state in extents:
        if last < runs[-1][0]:
            gone[state.index] = next((high for low, high in runs if low <= first <= high), last)
        elif any(begin > last and _alike(state, other) for begin, _, other in reversed(extents)):
            gone[state.index] = last
    return gone


def _runs(extents: Sequence[Extent]) -> list[tuple[float, float]]:
    """Ranges between which no log continues."""
    runs: list[tuple[float, float]] = []
    for first, last, _ in extents:
        if runs and first <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(runs[-1][1], last))
        else:
            runs.append((first, last))
    return runs


def _alike(state: SourceState, other: SourceState) -> bool:
    """They have the same patterns, or the same name but for its numbers."""
    if state.spec != other.spec and _bare(state.spec) == _bare(other.spec):
        return True
    mine, theirs = state.patterns.keys(), other.patterns.keys()
    return bool(mine and theirs) and len(mine & theirs) >= _ALIKE * min(len(mine), len(theirs))


def _bare(spec: str) -> str:
    return _NUMBERS.sub(" ", spec.rpartition("/")[2])


# --- Gaps without a line: of one log while others continue, and of all logs at once ---
#
# Only lines with a clock show when a log is silent. One stamped line followed by lines without any (a progress table,
# dict lines of a trainer) shows nothing, and the end of a log that announced its shutdown is no gap.

LEAST_S = 10.0
"""Shorter gaps are not distinguished."""
_UNDATED_LINES = 5
_SET_BACK_S = 60.0
_HOUR_S, _DAY_S = 3600.0, 86400.0
_NIGHT_S = 4 * _HOUR_S
_SAME_RATE = 0.25
_TAIL_SHARE = 0.4
"""With five times the usual: an end that is silent for twice the longest gap."""


@dataclass(slots=True)
class SourceGap:
    """A time range in which a log printed nothing."""

    start: float
    end: float
    source: int
    usual_s: float
    """The usual time between lines of that log."""
    ended: bool
    """The log has no further line, others continue."""
    ref: tuple[Ref, str]
    """The last line before it."""


def usual_gap(state: SourceState) -> float:
    """The usual seconds between two lines of a log, at least 10.

    A log that is silent for most of its time is a sparse one; then its gaps are what is usual: three in four of its
    longest gaps are not longer than the result.
    """
    gaps = sorted(gap.end - gap.start for gap in state.gaps)
    observed = (state.last or 0.0) - (state.first or 0.0)
    if len(gaps) >= 3 and sum(gaps) > 0.5 * observed:
        return percentile(gaps, 0.5 if len(gaps) < 8 else 0.75)
    return LEAST_S


def announced_shutdown(state: SourceState) -> bool:
    """The last dated line of a log announces its end."""
    return FAREWELL.search(state.last_line[1]) is not None


def has_ended(state: SourceState) -> bool:
    """A log that has ended: no more lines are expected."""
    return state.ended or announced_shutdown(state)


def source_gaps(view: RunView) -> list[SourceGap]:
    """Gaps without a line that reach into the window, in full length, log by log.

    The tail of a log that ends while others continue is one. The usual length of a gap is defined by the other gaps of
    the log. A log whose clock was guessed is left out: its place on the axis is not known well enough.
    """
    low, high = view.window
    gaps = [
        gap
        for state in _clocked(view)
        if state.index not in view.guessed
        for gap in (*_inner(state, view), *_tail(state, view))
    ]
    return [gap for gap in gaps if min(gap.end, high) > max(gap.start, low)]


def _inner(state: SourceState, view: RunView) -> list[SourceGap]:
    shift, usual = view.shift(state.index), usual_gap(state)
    longest = sorted((gap.end - gap.start for gap in state.gaps), reverse=True)[:2]
    found = []
    for gap in _gaps(state, view):
        alone = gap.end - gap.start >= longest[0]
        other = longest[-1] if alone and len(longest) > 1 else 0.0 if alone else longest[0]
        ref = (Ref(state.index, gap.line, 0), gap.text)
        found.append(SourceGap(gap.start + shift, gap.end + shift, state.index, max(usual, other), False, ref))
    return found


def _gaps(state: SourceState, view: RunView) -> list[Gap]:
    """The gaps of a log that reach into the clip: a run that is monitored for days has many more."""
    if view.clip is None:
        return state.gaps
    shift = view.shift(state.index)
    low, high = view.clip[0] - shift, view.clip[1] - shift
    return [gap for gap in state.gaps if gap.end > low and gap.start < high]


def _tail(state: SourceState, view: RunView) -> list[SourceGap]:
    # Where all logs are silent none of them is: that is a stall, or the end.
    last, high = view.extent(state)[1], view.reported[1]
    high = min(high, view.fact(ended_sources).get(state.index, high))
    set_back = state.tail is not None and state.tail < (state.last or 0.0) - _SET_BACK_S
    if high - last < LEAST_S or announced_shutdown(state) or set_back:
        return []  # where its clock was set back it may print all the time and not have caught up
    longest = max((gap.end - gap.start for gap in state.gaps), default=0.0)
    line, text = state.last_line
    usual = max(usual_gap(state), _TAIL_SHARE * longest)
    return [SourceGap(last, high, state.index, usual, True, (Ref(state.index, line, 0), text))]


def silences(view: RunView) -> list[Window]:
    """Ranges in which no log printed a line, with the time between runs; none where a log may have printed undated."""
    clocked = _clocked(view)
    if not clocked or len(clocked) < len(dated(view)):
        return []
    common = _silent(clocked[0], view)
    for state in clocked[1:]:
        common = intersection(common, _silent(state, view))
    return sorted(common)


def is_set_forward(start: float, end: float, state: SourceState, view: RunView) -> bool:
    """True for a jump by the hour of a change to summer time, at night, between two steps of the usual length."""
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
    """Logs with a time."""
    return [state for state in view.logs if state.first is not None and state.last is not None]


def _clocked(view: RunView) -> list[SourceState]:
    """Logs whose lines have clocks up to their end."""
    return [state for state in dated(view) if state.first != state.last and not _undated_end(state, view)]


def _undated_end(state: SourceState, view: RunView) -> bool:
    """More recognised lines without a clock than usual follow the last dated one."""
    dated_line, time = state.last_line[0], state.tail
    lines: set[int] = set()
    for series in view.store.all_series():
        at = len(series) - 1
        while at >= 0 and series.sources[at] == state.index and series.lines[at] > dated_line:
            lines.add(series.lines[at])
            at -= 1
            if len(lines) >= _UNDATED_LINES:
                return time is None or is_filled(view.store.all_series(), state.index, Gap(time, inf, dated_line, ""))
    return False


def _silent(state: SourceState, view: RunView) -> list[Window]:
    """The time outside of the lines of a log: its gaps, and the time before its first and after its last line."""
    (low, high), (first, last), shift = view.whole, view.extent(state), view.shift(state.index)
    silent = [(gap.start + shift, gap.end + shift) for gap in _gaps(state, view)]
    silent += [(low, first)] if first > low else []
    return silent + ([(last, high)] if last < high else [])


# --- Starts of runs that begin as the first one of their log did ---

_BANNER = 64
"""Characters of a first line that identify it; its end may hold settings."""
_HEADED = 96
"""The same of a line of which a timestamp, the name of a logger and a level may be the head."""
_NEAR_LINES = 3
_LOADING_S = 30.0
"""A script of which a second one does without what the first one should have made prints earlier."""
_LETTERS = re.compile(r"[a-z]{3}.*[a-z]{4}", re.IGNORECASE)
_WARNS = re.compile(r"\b(?:WARN|WARNING|ERROR|E|W)\b")
_PAUSE_S = 60.0
"""Between the last words of a process and the first ones of the next that the user starts."""
_CLOCK = re.compile(r"^.{0,48}?\d\d:\d\d:\d\d(?:[.,]\d+)?")
_FIRST_LINES, _FIRST_S = 12, 10.0
"""Within so many lines of its first one, and so many seconds, a process prints what it is."""
_SOME, _REGULAR = 3, 3.0
"""So many starts at intervals of which the longest is less than so many times the median: a loop prints the line."""


def banner(mark: RunMark) -> str:
    """The common part of the first lines of runs that start alike."""
    return NUMBERS.sub("#", mark.text)[:_BANNER]


def worked(work: Iterable[ProgressTrack], low: int, high: int) -> bool:
    """Return True if a log made progress between two lines."""
    return any(bisect_left(lines, high) > bisect_right(lines, low) for track in work for lines in (track.all_lines(),))


def begun_alike(
    state: SourceState, openings: Sequence[RunMark], work: Sequence[ProgressTrack]
) -> Iterable[tuple[int, float]]:
    """The lines behind a pause with which a log begins as it did at first: number and time.

    That is its first dated line, word for word but for the clock, where no work came before it, or the line of a start
    that it printed first.
    """
    if state.idle_silence:
        return
    first = "" if worked(work, 0, state.first_line) else _words(state.first_text)
    named = banner(openings[0]) if openings and openings[0].line <= _FIRST_LINES else ""
    undated = [mark.line for mark in openings]  # a start between the two lines of a pause is seen by itself
    pauses = [
        gap for gap in state.gaps
        if state.first_line <= gap.line < gap.upto and gap.end - gap.start >= _PAUSE_S
        and bisect_right(undated, gap.line) == bisect_left(undated, gap.upto)
    ]  # fmt: skip
    again = [gap for gap in pauses if first and _words(gap.next_text) == first]
    begun = [state.first or 0.0, *(gap.end for gap in again)]
    apart = [after - before for before, after in pairwise(begun)]
    if len(apart) >= _SOME and max(apart) < _REGULAR * median(apart):
        again = []
    again += [gap for gap in pauses if named and gap not in again and _is_named(named, gap, openings)]
    yield from ((gap.upto, gap.end) for gap in again)


def _is_named(named: str, gap: Gap, openings: Sequence[RunMark]) -> bool:
    at = bisect_left(openings, gap.upto, key=lambda mark: mark.line)
    near = openings[at : at + 1]
    return any(one.line - gap.upto <= _FIRST_LINES and one.time - gap.end <= _FIRST_S for one in near) and (
        banner(near[0]) == named
    )


def _words(text: str) -> str:
    """A line without its clock; empty for one without words, and for a warning, which comes now and then."""
    words = _CLOCK.sub("", text)[:_HEADED].strip()
    return words if _LETTERS.search(words) and not _WARNS.search(words) else ""


def after_dead_starts(state: SourceState, work: Sequence[ProgressTrack], view: RunView) -> Iterable[tuple[int, float]]:
    """The first line behind a silence that follows a traceback of a start, where work came later.

    An exception that a process survived has a silence behind it, too, while it loads. So the first line of the log has
    to come again, or the traceback to begin in the script itself, where nothing was left to catch it.
    """
    causes = [one for one in view.failures(state.index) if one.role == "cause" and one.frame]
    begun, first = 0, _head(state.first_text)
    redated = [] if state.redated is None else [state.redated]
    for gap in [*redated, *state.gaps] if causes and not state.idle_silence else ():
        since = max(gap.line, begun)
        behind = [one for one in causes if since < one.last_line < gap.upto <= one.last_line + _NEAR_LINES]
        if not behind or worked(work, begun, gap.upto) or not worked(work, gap.upto, state.lines + 1):
            continue
        is_script = behind[-1].frame.get("entry") and not place_of(behind[-1].fields)
        if (first and _head(gap.next_text) == first) or (is_script and gap.end - gap.start >= _LOADING_S):
            begun = gap.upto
            yield (gap.upto, behind[-1].time if gap is state.redated else gap.end)


def _head(text: str) -> str:
    """The common part of first lines that are alike; of one without words it is empty."""
    head = NUMBERS.sub("#", text)[:_HEADED]
    return head if _LETTERS.search(head) else ""
