"""Fills a signature's sentence with the figures of a finding.

`{count}` `{total}` `{lost}` `{share}` `{window}` `{key}`, fields of the identity by name, and `{metric.stat}` with stat
mean, p50, p95, max, min, first, last, or peak (the maximum where it stands out from the median), over the occurrences'
own values, else over the metric's samples meanwhile.
`[...]` is left out when something in it is not known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from perfmon.stats import percentile
from perfmon.units import format_value, metric_unit

from .view import Item, View

_STATS = ("mean", "p50", "p95", "max", "min", "first", "last", "peak")
_SLOT = re.compile(r"\{([\w.-]+)\}")
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")


def _stat(values: Sequence[float], stat: str) -> float | None:
    ordered = sorted(values)
    if stat == "peak":
        return ordered[-1] if ordered[-1] > 1.1 * percentile(ordered, 0.5) else None
    return {
        "mean": sum(values) / len(values),
        "p50": percentile(ordered, 0.5),
        "p95": percentile(ordered, 0.95),
        "max": ordered[-1],
        "min": ordered[0],
        "first": values[0],
        "last": values[-1],
    }[stat]


def _figure(slot: str, items: Sequence[Item], view: View) -> str | None:
    metric, _, stat = slot.rpartition(".")
    if stat not in _STATS:
        return None
    values = [item.values[metric] for item in items if metric in item.values]
    if not values:
        track = view.track(metric)
        first, stop = track.between(items[0].start, max(item.end for item in items)) if items else (0, 0)
        values = list(track.values[first:stop])
    result = _stat(values, stat) if values else None
    return None if result is None else format_value(result, metric_unit(metric))


def fill(template: str, known: Mapping[str, str], items: Sequence[Item], view: View) -> str:
    """The sentence with its figures."""

    def resolve(text: str) -> str | None:
        missing = False

        def slot(match: re.Match[str]) -> str:
            nonlocal missing
            value = known.get(match[1]) or _figure(match[1], items, view)
            if value is None:
                missing = True
                return "?"
            return value

        filled = _SLOT.sub(slot, text)
        return None if missing else filled

    text = _OPTIONAL.sub(lambda match: resolve(match[1]) or "", template)
    return _SLOT.sub(lambda match: known.get(match[1]) or _figure(match[1], items, view) or "an unknown time", text)
