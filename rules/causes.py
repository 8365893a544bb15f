"""Causes: findings that explain others, and the time that each of them lost."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf

from perfmon.core import Window, intersection, length, median, union, without

from .conditions import Level, LongerThanUndisturbed, every_condition
from .lifecycle import FIRING, PENDING, Found
from .run_facts import Item, Track, View
from .signatures import Lost, Signature

# --- The seconds that a finding cost ---

_EDGE_S = 1e-6
_GAP = 2.0
"""Times the usual interval: a longer one is a gap in which nothing is known."""
_OF_A_STEP = ("_s", "_ms", "_share")
"""Suffixes of metrics that are about all the time since the sample before: the duration or a share of a step."""


def claims(found: Found, view: View) -> list[Window]:
    """Ascending windows on the run's axis, none overlapping another."""
    lost = found.signature.lost
    if lost is None or not found.counts:
        return []
    items = [occurrence.item for occurrence in found.occurrences]
    if lost.spans and view.spans(lost.spans):
        spans = [_spans_of(lost.spans, item, view, item.values.keys().isdisjoint(lost.share)) for item in items]
        without_span = [
            item
            for item, held in zip(items, spans, strict=True)
            if not held and not item.values.keys().isdisjoint((*lost.share, *lost.seconds))
        ]
        return union(
            [(span.start, span.end) for held in spans for span in held]
            + _shared(lost, without_span, view, found.signature.every_s)
        )
    if lost.leg == "between":
        track = _track(items[0], view)
        return union((_before(track, item, view, lost.back), _until(lost.until, track, item, view)) for item in items)
    if lost.short or lost.queue:
        return union(_cut_short(found, lost, items, view))
    lasting = [item for item in items if item.end > item.start] if lost.leg else []
    limit = _limit(lost, found.signature, view)
    legs = [_leg(lost, item, limit, view) for item in lasting]
    if lost.share or lost.rest or lost.fraction or lost.seconds:
        legs += _shared(lost, [item for item in items if item not in lasting], view, found.signature.every_s)
    return union(legs)


def queued_s(found: Found, view: View) -> float:
    """Seconds that rank a finding by what waits meanwhile; 0 for one whose signature has no `queue`."""
    lost = found.signature.lost
    if lost is None or not lost.queue or not found.counts:
        return 0.0
    items = (occurrence.item for occurrence in found.occurrences)
    return length(union(_shared(Lost(fraction=lost.queue), items, view, found.signature.every_s)))


def _track(item: Item, view: View) -> Track:
    """The samples, or the marks, of which an item is one."""
    name = next(iter(item.values))
    found = view.track(name)
    return found if len(found) else view.marks.get(name, found)


def extent(item: Item, view: View) -> Window:
    """The time that an item is about: its own, or for a sample that since the sample before it."""
    if item.end > item.start or not item.values:
        return (item.start, item.end)
    return (_before(_track(item, view), item, view), item.end)


def _spans_of(kind: str, item: Item, view: View, others: bool) -> list[Item]:
    """The spans that the item's own lines report, else those that share its time, or that which a sample is about.

    Without `others` only its own: it has a share of time that it is about.
    """
    own = [span for span in (view.span_at_line(kind, ref) for ref, _ in item.refs) if span is not None]
    if not others:
        return own
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
    """The lost part of the time before each sample, placed at its end."""
    windows: list[Window] = []
    reached: dict[object, float] = {}
    for occurrence in items:
        if measured := _measured(lost, occurrence):
            windows.append(measured)
            continue
        track, stream = _track(occurrence, view), (occurrence.source, occurrence.group)
        for item in (*_run_up(lost, occurrence, track, reached.get(stream, -inf)), occurrence):
            part, start = _part(lost, item, view), _before(track, item, view, every_s=every_s)
            if part > 0 and item.end > start:
                windows.append((item.end - part * (item.end - start), item.end))
        reached[stream] = occurrence.end
    return windows


def _measured(lost: Lost, item: Item) -> Window | None:
    """The seconds before a sample that it measured."""
    lasted = next((item.values[name] for name in lost.seconds if name in item.values), 0.0)
    return (item.end - lasted, item.end) if lasted > 0 else None


def _run_up(lost: Lost, item: Item, track: Track, since: float) -> Iterator[Item]:
    """The samples of an item's stream shortly before it, after `since`, that measured a share themselves."""
    name = next(iter(item.values), "")
    if not lost.run_up_s or name not in lost.share:
        return
    column = track.stream(item.source, item.group)
    first = bisect_right(column.times, max(since, item.floor, item.end - lost.run_up_s))
    for at in range(first, bisect_left(column.times, item.end)):
        yield replace(item, start=column.times[at], end=column.times[at], own_values={name: column.values[at]})


def _cut_short(found: Found, lost: Lost, items: Iterable[Item], view: View) -> list[Window]:
    """The lost part of the time that each item is about, by the conditions, placed at its end; or all since it began.

    Where no condition defines it, it is the part by `share`, `rest` or `fraction`.
    """
    windows: list[Window] = []
    reached: dict[object, float] = {}
    for item in items:
        starts = (condition.since(item, view) for condition in found.signature.conditions)
        if (since := next((start for start in starts if start is not None), None)) is not None:
            windows.append((max(since, view.window[0]), item.end))
            continue
        stream = (item.source, item.group)
        for before in _run_up(lost, item, _track(item, view), reached.get(stream, -inf)):
            windows += _last_part(before, _short(found, before, view) or 0.0, view)
        reached[stream] = item.end
        share = _short(found, item, view)
        if share is None and (measured := _measured(lost, item)):
            windows.append(measured)
            continue
        windows += _last_part(item, _part(lost, item, view) if share is None else share, view)
    return windows


def _short(found: Found, item: Item, view: View) -> float | None:
    """The lost part of an item's time by the first condition that defines it."""
    shares = (condition.short(item, view) for condition in found.signature.conditions)
    return next((share for share in shares if share is not None), None)


def _last_part(item: Item, share: float, view: View) -> list[Window]:
    """A part of the time that an item is about, placed at its end."""
    start, end = extent(item, view)
    return [(end - min(1.0, share) * (end - start), end)] if share > 0 and end > start else []


def _before(track: Track, item: Item, view: View, back: int = 1, every_s: float = 0.0) -> float:
    """The time of the sample `back` before this one, of its log and group.

    Those within `every_s` before it were not evaluated: it is about their time, too. A level (of running requests) is
    about no more time than the usual interval between samples, however long nothing was printed before it; the duration
    of a step is about all of the step. Before the first sample there is nothing to charge.
    """
    at, time = track.between(item.end, item.end)[0], item.end
    longest = inf if track.metric.endswith(_OF_A_STEP) else _GAP * _usual(track, item, view)
    while back:
        at -= 1
        while at >= 0 and track.keys[at] != (item.source, item.group):
            at -= 1
        if at < 0:
            cut = track.earlier.get((item.source, item.group), 0) > 0  # it is before the window
            return max(time - _usual(track, item, view) if cut else time, item.floor, view.window[0])
        if time - track.times[at] > longest:
            return max(time - _usual(track, item, view), item.floor)
        time = track.times[at]
        if time <= item.end - every_s + _EDGE_S:
            back -= 1
    return max(time, item.floor)


def _usual(track: Track, item: Item, view: View) -> float:
    """The usual seconds between samples of a log and group; 0 where there is one."""

    def interval() -> float:
        times = track.stream(item.source, item.group).times
        between = [after - before for before, after in pairwise(times)]
        return median(between) if between else 0.0

    return view.once((_usual, track.metric, item.source, item.group), interval)


def _until(kind: str, track: Track, item: Item, view: View) -> float:
    """The end of the span that a sample lies in, where it is the last one in there."""
    ends = [span.end for span in view.overlapping(kind, item.end - _EDGE_S, item.end + _EDGE_S)] if kind else []
    end = min(ends, default=item.end)
    first, stop = track.between(item.end + _EDGE_S, end - _EDGE_S)
    more = (item.source, item.group) in track.keys[first:stop]
    return item.end if more else max(item.end, end)


def _part(lost: Lost, item: Item, view: View) -> float:
    def value(metric: str) -> float:
        own = item.values.get(metric)
        if own is not None:
            return own
        column, start, stop = view.track(metric).window(item, 1, 0.0)
        return column.values[start] if stop > start else 0.0

    if lost.mean and len(mean := view.track(lost.mean).stream(item.source, item.group)):
        at = bisect_left(mean.times, item.end - _EDGE_S)
        if at < len(mean.times) and mean.times[at] <= item.end + _EDGE_S:
            return min(1.0, mean.values[at] / 100.0)
    own_share = next((name for name in lost.share if name in item.values), "")
    if lost.rest and len(view.track(lost.rest)):
        return max(0.0, 1.0 - value(lost.rest) / 100.0)
    if own_share or (lost.share and len(view.track(lost.share[0]))):
        return min(1.0, value(own_share or lost.share[0]) / 100.0)
    if lost.rest:
        return max(0.0, 1.0 - value(lost.rest) / 100.0)
    whole = sum(value(metric) for metric in lost.fraction)
    return value(lost.fraction[0]) / whole if whole > 0 else 0.0


# --- Findings that explain others: by the causes that signatures name, on the same key or over the same time ---

_LEAST_SHARE = 0.5
_POINT_S = 1e-6
_DUE = 1.5
"""Times the seconds that a cause must last within which it is proven, or is none."""


def suppress_premature(found: Sequence[Found], view: View) -> None:
    """Keep a symptom pending in a monitored run while a cause of it is about to be proven.

    That is a cause which has lasted for less than it must, and continues or does not take much longer to, or of which
    one more occurrence is enough. Nothing waits for one that lacks other proof, nor where no more lines are expected.
    """
    if view.present is None:
        return
    now = view.window[1]
    due = [cause for cause in found if not cause.counts and _is_due(cause, now)]
    for finding in found:
        if finding.state == FIRING and any(_is_symptom(finding, cause, view) for cause in due):
            finding.state, finding.claims = PENDING, []


def _is_due(cause: Found, now: float) -> bool:
    if any(occurrence.so_far for occurrence in cause.occurrences):
        return True
    if cause.signature.for_s:
        return now - cause.first <= _DUE * cause.signature.for_s
    least, _ = cause.subject.critical_count or cause.signature.critical_count
    critical = sum(occurrence.level is Level.CRITICAL for occurrence in cause.occurrences)
    return least > 1 and critical == least - 1


def _is_symptom(finding: Found, other: Found, view: View) -> bool:
    """The cause, which holds now, explains all of the symptom, or the newest of it: it may have started since."""
    if other.rank >= finding.rank or other.signature.id not in {cause.signature for cause in finding.signature.causes}:
        return False
    held = _held(other, view)
    if _same_time(finding, _held(finding, view), held):
        return True
    newest, now = extent(finding.occurrences[-1].item, view), view.window[1]
    began = min((start for start, _ in held), default=now)
    return length([newest]) > 0 and length([(max(newest[0], began), newest[1])]) >= _LEAST_SHARE * length([newest])


def explain(found: Sequence[Found], view: View) -> None:
    """Link each finding to the first of its signature's causes that explains it; pending ones explain nothing."""
    held = [_held(finding, view) for finding in found]
    for at, finding in enumerate(found):
        if finding.counts:
            finding.explained_by = _cause(at, found, held, view)


def _cause(at: int, found: Sequence[Found], held: Sequence[list[Window]], view: View) -> int | None:
    finding = found[at]
    for cause in finding.signature.causes:
        for other_at, other in enumerate(found):
            if other.signature.id != cause.signature or not other.counts or other.rank >= finding.rank:
                continue
            if cause.match == "key":
                same = _same_keys(finding, other)
            else:
                others = other.claims if cause.match == "lost" else held[other_at]
                same = _same_time(finding, held[at], others)
                same = same or (cause.match == "each" and _same_in_each(finding, others, view))
            if same:
                return other_at
    return None


def _held(finding: Found, view: View) -> list[Window]:
    """The time of the occurrences of a finding, lost or not."""
    return union([*finding.claims, *(extent(occurrence.item, view) for occurrence in finding.occurrences)])


def _same_keys(finding: Found, other: Found) -> bool:
    """At least half of the occurrences share their key (a step) with one of the other's."""
    keys = {occurrence.item.key for occurrence in other.occurrences} - {""}
    hits = sum(occurrence.item.key in keys for occurrence in finding.occurrences)
    return hits > 0 and hits >= _LEAST_SHARE * len(finding.occurrences)


def _same_in_each(finding: Found, others: list[Window], view: View) -> bool:
    """At least half of what half of the occurrences cost lies within the other's time: the total of all swings around
    half of it where some have another reason.
    """
    hits = 0
    for occurrence in finding.occurrences:
        lost = intersection(finding.claims, [extent(occurrence.item, view)])
        hits += 0 < length(lost) <= 2 * (length(lost) - length(without(lost, others)))
    return hits >= _LEAST_SHARE * len(finding.occurrences)


def _same_time(finding: Found, own: list[Window], others: list[Window]) -> bool:
    """At least half of what the finding costs (where it costs nothing: of its time) lies within the other's time."""
    mine = finding.claims or own
    total = length(mine)
    if total > 0:
        return total - length(without(mine, others)) >= _LEAST_SHARE * total
    ends = [occurrence.item.end for occurrence in finding.occurrences]
    hits = sum(any(start - _POINT_S <= end <= stop + _POINT_S for start, stop in others) for end in ends)
    return hits > 0 and hits >= _LEAST_SHARE * len(ends)
