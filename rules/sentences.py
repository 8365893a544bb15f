"""Fills a signature's sentence with the figures of a finding.

`{count}` `{total}` `{lost}` `{share}` `{window}` `{longest}` `{level}`, `{times}` (`3 times`, nothing for a single
one), `{others}` (the ranks of the run that its group does not name), fields of the identity by name, and
`{metric.stat}` with stat mean, p50, p95, max, min, first, last, sum, or peak (the maximum where it stands out from the
median), over the occurrences' own values, else over the metric's or the mark's samples meanwhile. `{total:step}` is the
number with its noun, `{total:batch|batches}` with its own plural. `[...]` is left out when something in it is not
known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from perfmon.core import counted, format_value, metric_unit, percentile

from .run_facts import Item, Track, View

STATS = ("mean", "p50", "p95", "max", "min", "first", "last", "sum", "peak")
KNOWN = ("count", "total", "lost", "share", "window", "longest", "level", "times", "others")
"""Slots that every finding fills, but for those in `OPTIONAL_KNOWN`."""
OPTIONAL_KNOWN = ("times", "level", "others")
_SLOT = re.compile(r"\{([\w.-]+)(?::([^{}|]+)(?:\|([^{}|]+))?)?\}")
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_UNTOLD = "an amount that is not logged"


def _stat(values: Sequence[float], stat: str) -> float | None:
    ordered = sorted(values)
    # The lower one of two in the middle: a sentence shows a value that was observed.
    middle = ordered[(len(ordered) - 1) // 2]
    if stat == "peak":
        return ordered[-1] if ordered[-1] > 1.1 * middle else None
    return {
        "mean": sum(values) / len(values),
        "p50": middle,
        "p95": percentile(ordered, 0.95),
        "max": ordered[-1],
        "min": ordered[0],
        "first": values[0],
        "last": values[-1],
        "sum": sum(values),
    }[stat]


def _own(item: Item, metric: str) -> float | None:
    """The item's value of a metric, or of one of its kinds (`rpc_ms.reload_weights` is an `rpc_ms`)."""
    found = item.values.get(metric)
    if found is not None:
        return found
    return next((value for name, value in item.values.items() if name.startswith(f"{metric}.")), None)


def _figure(slot: str, items: Sequence[Item], view: View) -> str | None:
    metric, _, stat = slot.rpartition(".")
    if stat not in STATS or not items:
        return None
    values = [value for value in (_own(item, metric) for item in items) if value is not None]
    if values:
        return _described(values, metric, stat)
    track: Track | None = view.track(metric) or view.marks.get(metric)
    if track is None:
        return None
    first, stop = track.between(items[0].start, max(item.end for item in items))
    group = _group(items, metric, view)
    if group is None:
        return None

    def figure() -> str | None:
        values = track.values[first:stop]
        if group:
            values = [value for at, value in enumerate(values, first) if track.group(at) == group]
        return _described(values, metric, stat)

    return view.once((_figure, metric, group, stat, first, stop), figure)  # many servers' findings share their time


def _group(items: Sequence[Item], metric: str, view: View) -> str | None:
    """The group of all items, where the metric has it; "" for the samples of all groups.

    None where the metric has only others of their kind: values of another GPU show nothing about this one.
    """
    group = items[0].group
    if not group or any(item.group != group for item in items):
        return ""
    if view.has_group(metric, group):
        return group
    like = {name for own in items[0].values for name in _groups(own, view)}
    return None if _groups(metric, view) & like else ""


def _groups(metric: str, view: View) -> set[str]:
    return {group for name, group in view.store.series if name == metric and group}


def _described(values: Sequence[float], metric: str, stat: str) -> str | None:
    result = _stat(values, stat) if values else None
    return None if result is None else format_value(result, metric_unit(metric))


def fill(template: str, known: Mapping[str, str], items: Sequence[Item], view: View) -> str:
    """The sentence with its figures."""

    figures: dict[str, str | None] = {}

    def figure(slot: str) -> str | None:
        if slot not in figures:
            figures[slot] = _figure(slot, items, view)
        return figures[slot]

    def value(match: re.Match[str]) -> str | None:
        found = known.get(match[1]) or figure(match[1])
        if found is None or not match[2]:
            return found
        return counted(int(found), match[2], match[3] or "") if found.isdecimal() else f"{found} {match[2]}"

    def optional(match: re.Match[str]) -> str:
        if any(value(slot) is None for slot in _SLOT.finditer(match[1])):
            return ""
        return _SLOT.sub(lambda slot: value(slot) or "", match[1])

    def outside(text: str) -> str:
        return _SLOT.sub(lambda slot: value(slot) or _UNTOLD, text)

    # Part by part: what was filled in is log text and may hold braces of its own.
    done, at = [], 0
    for match in _OPTIONAL.finditer(template):
        done += [outside(template[at : match.start()]), optional(match)]
        at = match.end()
    return "".join([*done, outside(template[at:])])


def unclosed(template: str) -> str:
    """The brace or bracket of a template that belongs to no slot and no `[...]`, with what follows; "" for none."""
    left = _SLOT.sub(lambda slot: "·" * len(slot[0]), template)
    left = _OPTIONAL.sub(lambda part: f"·{part[1]}·", left)
    unmatched = next((at for at, character in enumerate(left) if character in "{}[]"), None)
    return "" if unmatched is None else template[unmatched : unmatched + 20]


def slots(template: str) -> Iterator[tuple[str, bool]]:
    """The slots of a template, and whether each must be filled (it stands outside of `[...]`)."""
    for match in _SLOT.finditer(_OPTIONAL.sub("", template)):
        yield match[1], True
    for part in _OPTIONAL.finditer(template):
        for match in _SLOT.finditer(part[1]):
            yield match[1], False
