"""Which seconds a finding says it cost."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import inf

from perfmon.ledger import Window, union
from perfmon.stats import median

from .conditions import every_condition
from .conditions.durations import LongerThanUndisturbed
from .found import Found
from .items import Item
from .schema import Lost, Signature
from .tracks import Track
from .view import View

_EDGE_S = 1e-6
_GAP = 2.0
"""Times the usual interval: a longer one is a gap in which nothing is known."""
_OF_A_STEP = ("_s", "_ms", "_share")
"""How metrics end that tell of all the time since the one before: what a step took, or which part of it."""


def claims(found: Found, view: View) -> list[Window]:
    """Ascending windows on the run's axis, none overlapping another."""
    lost = found.signature.lost
    if lost is None or not found.counts:
        return []
    items = [occurrence.item for occurrence in found.occurrences]
    if lost.spans and view.spans(lost.spans):
        told = [(item, _told(lost.spans, item, view)) for item in items]
        mute = [item for item, spans in told if not spans and not item.values.keys().isdisjoint(lost.share)]
        return union(
            [(span.start, span.end) for _, spans in told for span in spans]
            + _shared(lost, mute, view, found.signature.every_s)
        )
    if lost.leg == "between":
        track = _track(items[0], view)
        return union((_before(track, item, view, lost.back), _until(lost.until, track, item, view)) for item in items)
    if lost.short:
        return union(_cut_short(found, lost, items, view))
    lasting = [item for item in items if item.end > item.start] if lost.leg else []
    limit = _limit(lost, found.signature, view)
    legs = [_leg(lost, item, limit, view) for item in lasting]
    if lost.share or lost.rest or lost.fraction:
        legs += _shared(lost, [item for item in items if item not in lasting], view, found.signature.every_s)
    return union(legs)


def _track(item: Item, view: View) -> Track:
    """The samples, or the marks, of which an item is one."""
    name = next(iter(item.values))
    found = view.track(name)
    return found if len(found) else view.marks.get(name, found)


def extent(item: Item, view: View) -> Window:
    """The time that an item speaks of: its own, or for a sample that since the sample before it."""
    if item.end > item.start or not item.values:
        return (item.start, item.end)
    return (_before(_track(item, view), item, view), item.end)


def _told(kind: str, item: Item, view: View) -> list[Item]:
    """The spans that the item's own lines tell of, else those that share its time, or that which a sample speaks of."""
    own = [span for span in (view.told_by(kind, ref) for ref, _ in item.refs) if span is not None]
    own = own or view.overlapping(kind, item.start - _EDGE_S, item.end + _EDGE_S)
    if own or item.end > item.start or not item.values:
        return own
    start, end = extent(item, view)
    return view.overlapping(kind, start + _EDGE_S, end - _EDGE_S)


def _limit(lost: Lost, signature: Signature, view: View) -> float:
    """Seconds of an occurrence that are not lost."""
    if lost.baseline:
        for condition in every_condition(signature.conditions):
            if isinstance(condition, LongerThanUndisturbed) and (usual := condition.median(view)) is not None:
                return usual
    return _good_s(lost.beyond, view)


def _good_s(metric: str, view: View) -> float:
    band = view.bands.get(metric)
    if band is None:
        return 0.0
    return band.good / 1000.0 if metric.partition(".")[0].endswith("_ms") else band.good


def _leg(lost: Lost, item: Item, limit: float, view: View) -> Window:
    queue_s = item.values.get("queue_ms", 0.0) / 1000.0
    if lost.leg == "queue":
        return (item.start + limit, item.start + queue_s)
    if lost.leg == "rpc":
        metric = next((name for name in item.values if name.startswith("rpc_ms")), "rpc_ms")
        rpc_s = item.values.get(metric, 0.0) / 1000.0
        return (item.start + queue_s + _good_s(metric, view), item.start + queue_s + rpc_s)
    return (item.start + limit, item.end)


def _shared(lost: Lost, items: Iterable[Item], view: View, every_s: float) -> list[Window]:
    """Of the time before each sample, the part that was lost, laid at its end."""
    windows: list[Window] = []
    for item in items:
        track, part = _track(item, view), _part(lost, item, view)
        start = _before(track, item, view, every_s=every_s)
        if part > 0 and item.end > start:
            windows.append((item.end - part * (item.end - start), item.end))
    return windows


def _cut_short(found: Found, lost: Lost, items: Iterable[Item], view: View) -> list[Window]:
    """Of the time that each item speaks of, the part that the conditions say was lost, laid at its end.

    Where they have no opinion it is the part that `share`, `rest` or `fraction` says.
    """
    windows: list[Window] = []
    for item in items:
        shares = (condition.short(item, view) for condition in found.signature.conditions)
        share = next((share for share in shares if share is not None), None)
        if share is None:
            share = _part(lost, item, view)
        start, end = extent(item, view)
        if share > 0 and end > start:
            windows.append((end - min(1.0, share) * (end - start), end))
    return windows


def _before(track: Track, item: Item, view: View, back: int = 1, every_s: float = 0.0) -> float:
    """When the sample `back` before this one was taken, of its log and group.

    Those that came within `every_s` before it were not judged: it speaks of their time, too. A level (how many
    requests run) speaks of no more time than usually lies between two samples, however long nothing was printed
    before it; what a step took speaks of all of the step. Before the first sample there is nothing to charge.
    """
    at, time = track.between(item.end, item.end)[0], item.end
    longest = _longest(track, item, view)
    while back:
        at -= 1
        while at >= 0 and (track.source(at), track.group(at)) != (item.source, item.group):
            at -= 1
        if at < 0:
            cut = track.earlier.get((item.source, item.group), 0) > 0  # it stands before what is looked at
            return max(time - _usual(track, item, view) if cut else time, item.floor, view.window[0])
        if time - track.times[at] > longest:
            return max(time - _usual(track, item, view), item.floor)
        time = track.times[at]
        if time <= item.end - every_s + _EDGE_S:
            back -= 1
    return max(time, item.floor)


def _longest(track: Track, item: Item, view: View) -> float:
    """Seconds up to which the time between two samples is that of which the later one speaks."""
    if track.metric.endswith(_OF_A_STEP):
        return inf
    return _GAP * _usual(track, item, view)


def _usual(track: Track, item: Item, view: View) -> float:
    """Seconds that usually lie between samples of a log and group; 0 where there is one."""
    key = (track.metric, item.source, item.group)
    if key not in view.intervals:
        mine = [
            time
            for at, time in enumerate(track.times)
            if (track.source(at), track.group(at)) == (item.source, item.group)
        ]
        between = [after - before for before, after in pairwise(mine)]
        view.intervals[key] = median(between) if between else 0.0
    return view.intervals[key]


def _until(kind: str, track: Track, item: Item, view: View) -> float:
    """The end of the span that a sample lies in, where it is the last one in there."""
    ends = [span.end for span in view.overlapping(kind, item.end - _EDGE_S, item.end + _EDGE_S)] if kind else []
    end = min(ends, default=item.end)
    first, stop = track.between(item.end + _EDGE_S, end - _EDGE_S)
    more = ((track.source(at), track.group(at)) == (item.source, item.group) for at in range(first, stop))
    return item.end if any(more) else max(item.end, end)


def _part(lost: Lost, item: Item, view: View) -> float:
    def value(metric: str) -> float:
        own = item.values.get(metric)
        if own is not None:
            return own
        column, start, stop = view.track(metric).window(item, 1, 0.0)
        return column.values[start] if stop > start else 0.0

    own_share = next((name for name in lost.share if name in item.values), "")
    if own_share or (lost.share and len(view.track(lost.share[0]))):
        return min(1.0, value(own_share or lost.share[0]) / 100.0)
    if lost.rest:
        return max(0.0, 1.0 - value(lost.rest) / 100.0)
    whole = sum(value(metric) for metric in lost.fraction)
    return value(lost.fraction[0]) / whole if whole > 0 else 0.0
