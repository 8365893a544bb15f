"""The end of a run: it announced it, or its work is done; and logs that break off while others state their ends."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from perfmon.core import Span
from perfmon.store import SourceState, WorkCounter

from .activity import activity_of, inner_of
from .runs import BAR_OF_RUN_S, boundaries, last_run_line, run_began, work_of
from .silence import LEAST_S, RUN_OVER, announced_shutdown, banner
from .tracks import START_KINDS

if TYPE_CHECKING:
    from .run_view import RunView


# --- The end of a run: it announced it, or its work is done ---

_LAST_LINES = 200
"""Lines that may follow a counter that reached its total: metrics, a summary, a save."""
_AFTERWARDS = frozenset(("checkpoint", "checkpoint-write", "evaluation", "batches"))
"""Progress of a run whose work is done: it saves, and evaluates once more."""
_OFTEN = 2
"""Times that work followed the words of an end: the next ones are none."""
_LONGER, _PAUSE_S = 3.0, 60.0
"""Times of the longest pause behind such words, and of this, after which they were the last ones."""
_EDGE_S = 2.0
"""A bar counts whole seconds."""
_BARS = ("step", "items", "epochs", "episodes")
"""Kinds of bars that a run may consist of."""
_HARDLY = 0.9
"""Share of the steps that were not all printed."""
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
    return None if later or any(one.may_end for one in view.fact(broken_off)) else last


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
        return view.present - view.shift(state.index) - ends[-1].time <= _LONGER * max(*pauses, _PAUSE_S)
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
    took = longest.elapsed_s or 0.0
    opened = [one for one in view.store.opened() if one.kind == "evaluation" and one.source == state.index]
    if any(one.start is not None and longest.time - took >= one.start - _EDGE_S for one in opened):
        return None  # that is the evaluation's
    is_brief = took < BAR_OF_RUN_S
    if is_brief or not is_full(longest, begun) or (id(longest) in view.fact(inner_of) and not _is_of_last(longest)):
        return None
    epochs = [one for one in counters if one.kind == "epochs" and one.total and one.amount < one.total - 1]
    steps = [one for one in counters if one.kind == "step" and one.total and one.amount < _HARDLY * one.total]
    if longest.kind == "items" and any(one.line >= since for one in steps):
        return None  # an evaluation's, for example: the steps of the run are not done
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


# --- Logs that break off in the middle of work, while those of their run state their ends ---
#
# Many systems print no last words, so that these are missing proves nothing: neither does a log that ends while it
# waits. What proves it is work that always ended before, and has not; or a server whose clients all lost it at once.

_WORK = {
    "train-step": "within a training step",
    "generation-batch": "within a generation batch",
    "checkpoint-write": "within a checkpoint write",
    "evaluation": "within an evaluation",
}
_ALWAYS = 3
"""Pieces of work that have ended before."""
_LOST = ("env-error", "inference-unreachable")
"""Marks of requests to a server that failed."""
_MANY, _AT_ONCE_S, _SERVER = 8, 5.0, "inference"


@dataclass(frozen=True, slots=True)
class BrokenOff:
    """The log of a process that states no end while others of its run do, and of which work is left."""

    source: int
    where: str
    """What it stops in, in words."""
    may_end: bool
    """In a run that is monitored: it has not been missing for long."""
    peers: tuple[int, ...]
    """The logs that state their ends."""


def broken_off(view: RunView) -> list[BrokenOff]:
    """The logs of the last run that break off in the middle of work, or as all their clients lost them."""
    ended, found = view.fact(_ends), []
    for state in view.logs if ended else ():
        if state.index in ended or state.last is None or announced_shutdown(state):
            continue
        left = _work_left(state, view, max(ended.values())) or _clients_lost(state, view)
        if left is not None:
            words, usual_s = left
            patience = _LONGER * max(usual_s, LEAST_S / _LONGER)
            may_end = view.present is not None and view.present - view.extent(state)[1] <= patience
            found.append(BrokenOff(state.index, words, may_end, tuple(sorted(ended))))
    return found


def without_end(view: RunView) -> tuple[str, ...]:
    """The names of the logs with steps that state no end in a run that is over by others: many never do, and a process
    that was killed while it waited cannot."""
    ended = view.fact(_ends) if view.fact(finished_at) is not None else {}
    stepping = {track.source for track in view.fact(activity_of).tracks if track.is_step} if ended else set[int]()
    states = [view.store.sources[index] for index in sorted(stepping - ended.keys())]
    return tuple(short_name(state) for state in states if not announced_shutdown(state))


def short_name(state: SourceState) -> str:
    """The name of a log without its folder."""
    return state.spec.rpartition("/")[2]


def _ends(view: RunView) -> dict[int, float]:
    """The logs of the last run that state an end, with its time."""
    low = view.fact(run_began)
    return {one.index: at for one in view.logs if (at := _words_of_end(one, view)) is not None and at >= low}


def _words_of_end(state: SourceState, view: RunView) -> float | None:
    """The time of the last words of a log that states an end, whatever it did before; None without any."""
    since = last_run_line(state.index, view)
    ends = [mark for mark in view.run_marks(state.index, "end") if mark.line >= since]
    if log_finished_at(state, view) is None and not (state.last is not None and RUN_OVER.search(state.last_line[1])):
        return None
    return ends[-1].time + view.shift(state.index) if ends else view.extent(state)[1]


def _work_left(state: SourceState, view: RunView, over: float) -> tuple[str, float] | None:
    """The newest work of a log that has begun and not ended, and the seconds of the longest that has."""
    for span in view.store.opened():
        words = _WORK.get(span.kind)
        if words is None or span.source != state.index or span.start is None or not span.refs:
            continue
        before = [
            one for one in view.store.spans.get(span.kind, ())
            if one.source == state.index and one.start is not None and one.end is not None
        ]  # fmt: skip
        if len(before) < _ALWAYS or span.refs[0][0].line < max(last_run_line(state.index, view), _last_line(before)):
            continue
        longest = max((one.end or 0.0) - (one.start or 0.0) for one in before)
        if span.start + view.shift(state.index) <= over + _LONGER * max(longest, 1.0):
            return words, longest
    return None


def _last_line(spans: Iterable[Span]) -> int:
    return max((ref.line for span in spans for ref, _ in span.refs), default=0)


def _clients_lost(state: SourceState, view: RunView) -> tuple[str, float] | None:
    """The requests of other logs that failed as the log of a server broke off: most of all that failed."""
    if _SERVER not in state.components or not state.idle_silence:
        return None
    failed = [
        (time + view.shift(source), series.text(at))
        for name in _LOST
        for series in view.marked(name)
        for at, (time, source) in enumerate(zip(series.times, series.sources, strict=True))
        if source != state.index
    ]
    last = view.extent(state)[1]
    texts = [text for time, text in failed if last - 1.0 <= time <= last + _AT_ONCE_S]
    lost, newest = len(texts), max((time for time, _ in failed), default=0.0)
    if lost < max(_MANY, len(failed) / 2) or newest < view.reported[1] - _AT_ONCE_S:
        return None
    if any("ancel" in text for text in texts):  # a client that ends gives up its requests itself
        return None
    return f"as {lost} requests to it failed", LEAST_S
