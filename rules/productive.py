"""The time that evidence shows was spent on work, and that in which an evaluation or a checkpoint held the work up."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from perfmon.ledger import Window, union, without
from perfmon.stats import median

from .activity import BLOCK, FEW, PHASE_KINDS, Track, activity_of
from .items import START_KINDS, Item
from .tries import death_of_run

if TYPE_CHECKING:
    from .run_view import RunView

_PRODUCTIVE = 2.0
"""Times the usual interval that is proven by two events."""
_EDGE_S = 1e-3
HOLDING = frozenset(("checkpoint-write", "evaluation"))
"""Kinds of phases in which a trainer makes no steps, unless they go on beside them."""


def productive_of(view: RunView) -> list[Window]:
    """The time that evidence shows was spent on progress: between two events of a kind their usual interval, up to
    twice of it, and whatever a line says that work took."""
    everywhere = {state.index for state in view.store.sources}
    low, high = view.window
    proven = [*_by_tracks(view, everywhere), *_by_spans(view, everywhere), *_before_the_logs(view)]
    return union((max(a, low), min(b, high)) for a, b in proven if b > low and a < high)


def held_up(kind: str, view: RunView) -> list[Window]:
    """When phases of a kind held up the work: no step ended meanwhile, and no other component was at work."""
    spans = view.spans(kind)
    if not spans:
        return []
    steps = sorted(time for track in view.fact(activity_of).tracks if track.is_step for time in track.times)
    beside: dict[int, list[Window]] = {}
    found: list[Window] = []
    for item in spans:
        if bisect_left(steps, item.end - _EDGE_S) > bisect_right(steps, item.start + _EDGE_S):
            continue  # it is written while the work goes on
        if item.source not in beside:
            others = _others(item, view)
            beside[item.source] = union([*_by_tracks(view, others), *_by_spans(view, others)]) if others else []
        found += without([(item.start, item.end)], beside[item.source])
    return union(found)


def _others(item: Item, view: RunView) -> set[int]:
    """Logs of other components than the one that tells of a phase."""
    own = view.store.sources[item.source].components
    return {
        state.index
        for state in view.store.sources
        if not state.polled and state.components and own and own.isdisjoint(state.components)
    }


def _by_tracks(view: RunView, sources: Collection[int]) -> Iterable[Window]:
    tracks = [
        track for track in view.fact(activity_of).tracks if track.source in sources and track.kind not in START_KINDS
    ]
    steady = [track for track in tracks if track.kind not in PHASE_KINDS]
    if any(len(track.times) >= FEW for track in steady):
        tracks = steady  # what comes now and then says nothing of the time between
    for track in tracks:
        yield from _of_track(track, view)


def _of_track(track: Track, view: RunView) -> Iterable[Window]:
    times, since = track.times, track.times[0]
    gaps = [after - before for before, after in pairwise(times)]
    for begin in range(0, len(gaps), BLOCK):
        near = [gap for gap in gaps[max(0, begin - BLOCK // 2) : begin + BLOCK + BLOCK // 2] if gap > 0]
        usual = max(median(near or [0.0]), track.resolution_s)
        for at, gap in enumerate(gaps[begin : begin + BLOCK], begin):
            if gap > _PRODUCTIVE * usual:
                yield (since, times[at] + usual)
                since = times[at + 1] - usual
    yield (since, times[-1])
    if len(gaps) < FEW - 1:
        return
    if view.fact(death_of_run) is None:  # what is under way
        usual = max(median(gaps[-BLOCK:]), track.resolution_s)
        if view.whole[1] - times[-1] <= _PRODUCTIVE * usual:
            yield (times[-1], view.whole[1])
    if track.is_step:  # the first step took about as long as the others
        yield (times[0] - median(gaps), times[0])


def _before_the_logs(view: RunView) -> Iterable[Window]:
    """What bars say of the time before they are seen first: a log may begin, or be cut, within one."""
    for counter in view.store.progress.counters.values():
        if counter.before is not None and counter.kind not in START_KINDS:
            shift = view.shifts.get(counter.source, 0.0)
            yield (counter.before[0] + shift, counter.before[1] + shift)


def _by_spans(view: RunView, sources: Collection[int]) -> Iterable[Window]:
    for kind in view.span_kinds:
        if kind not in START_KINDS and kind not in HOLDING and not kind.endswith("-wait"):
            yield from ((item.start, item.end) for item in view.spans(kind) if item.source in sources)
