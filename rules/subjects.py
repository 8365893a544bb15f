"""Makes the items that a signature judges, one by one, out of the run's view."""

from __future__ import annotations

from collections.abc import Callable

from .bands import Bands
from .conditions.base import Condition
from .conditions.threshold import Threshold
from .schema import Signature, Subject
from .view import Item, Quiet, Track, View


def items_of(signature: Signature, view: View) -> tuple[list[Item], int]:
    """Items that can hold the first condition, and how many there were in all; of the first subject with data."""
    for subject in signature.subjects:
        items, total = _items(subject, signature, view)
        if total:
            return items, total
    return [], 0


def _items(subject: Subject, signature: Signature, view: View) -> tuple[list[Item], int]:
    if subject.kind == "span":
        return _span_items(subject.name, signature, view)
    if subject.kind in ("metric", "mark"):
        track = view.track(subject.name) if subject.kind == "metric" else view.marks.get(subject.name)
        return ([], 0) if track is None else _sample_items(subject.name, track, signature, view)
    if subject.kind == "quiet":
        quiet = view.quiet_run if subject.name == "all" else view.quiet_logs
        return [_quiet_item(stretch) for stretch in quiet], len(quiet)
    absent = _absences(subject.name, view)
    return absent, len(absent)


def _possible(condition: Condition, bands: Bands) -> tuple[str, Callable[[float], bool]] | None:
    """The metric of a leading threshold and a quick test that a value must pass: most values never do."""
    if not isinstance(condition, Threshold) or not condition.required:
        return None
    limits, metric = condition.limits, condition.metric
    if limits.above is not None and not limits.band:
        above = limits.above
        return metric, lambda value: value > above
    band = bands.get(metric)
    if limits.band == "critical" and band is not None and band.higher_is_worse:
        good = band.good
        return metric, lambda value: value >= good
    return None


def _span_items(kind: str, signature: Signature, view: View) -> tuple[list[Item], int]:
    items = view.spans(kind)
    total = len(items)
    quick = _possible(signature.conditions[0], view.bands)
    if quick is not None and items and all(quick[0] in item.values for item in items[:1]):
        metric, test = quick
        total = sum(metric in item.values for item in items)
        items = [item for item in items if metric in item.values and test(item.values[metric])]
    return items, total


def _sample_items(name: str, track: Track, signature: Signature, view: View) -> tuple[list[Item], int]:
    quick = _possible(signature.conditions[0], view.bands)
    test = quick[1] if quick is not None and quick[0] == name else None
    seen: dict[tuple[int, str], int] = {}
    items: list[Item] = []
    for at, value in enumerate(track.values):
        if signature.skip_first:
            whose = (track.source(at), track.group(at))
            seen[whose] = seen.get(whose, 0) + 1
            if seen[whose] <= signature.skip_first:
                continue
        if test is not None and not test(value):
            continue
        time = track.times[at]
        items.append(
            Item(time, time, {name: value}, {}, (track.ref(at),), track.group(at), "", track.source(at))
        )
    return items, len(track)


def _quiet_item(quiet: Quiet) -> Item:
    return Item(
        quiet.start,
        quiet.end,
        {"usual_s": quiet.usual_s, "ended": float(quiet.ended), "duration_s": quiet.end - quiet.start},
        {},
        quiet.refs,
        source=max(quiet.source, 0),
    )


def _absences(kind: str, view: View) -> list[Item]:
    """Stretches between neighbouring spans of a kind, from the last one to the end, or the whole window."""
    low, high = view.window
    spans = view.spans(kind)
    if not spans:
        return [Item(low, high, {"usual_s": 0.0, "none": 1.0, "duration_s": high - low}, {}, ())] if high > low else []
    starts = [span.start for span in spans]
    between = sorted(b - a for a, b in zip(starts, starts[1:], strict=False))
    if len(between) < 2:
        return []
    usual = between[len(between) // 2]
    edges = [*zip(starts, starts[1:], strict=False), (starts[-1], high)]
    return [
        Item(a, b, {"usual_s": usual, "none": 0.0, "duration_s": b - a}, {}, spans[at].refs)
        for at, (a, b) in enumerate(edges)
        if b - a > usual
    ]
