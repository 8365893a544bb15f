"""Starts of runs that begin as the first one of their log did.

What a process prints first, it prints once. Where that comes again behind a silence, another process was started: also
where neither of them made any progress, and no line shows how the one before ended.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from perfmon.core import Gap, median
from perfmon.store import NUMBERS, ProgressTrack, RunMark, SourceState, place_of

if TYPE_CHECKING:
    from .run_view import RunView


_BANNER = 64
"""Characters of a first line that identify it; its end may hold settings."""
_HEADED = 96
"""The same of a line of which a timestamp, the name of a logger and a level may be the head."""
_NEAR_LINES = 3
_LOADING_S = 30.0
"""A script of which a second one does without what the first one should have made prints earlier."""
_WORDS = re.compile(r"[a-z]{3}.*[a-z]{4}", re.IGNORECASE)
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
    return words if _WORDS.search(words) and not _WARNS.search(words) else ""


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
    return head if _WORDS.search(head) else ""
