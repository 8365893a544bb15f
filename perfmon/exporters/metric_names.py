"""The families of one page, within bounds: what has had a place in the page before keeps it, and what is left out is
counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import isfinite

from prometheus_client.metrics_core import Metric

from perfmon.text import plain

from .names import PREFIX, labelled

MOST_OF_FAMILY, MOST = 2_000, 20_000
"""Series of one family, and of a page."""
LEFT_OUT = f"{PREFIX}export_left_out_series"
Labels = tuple[tuple[str, str], ...]


class Places:
    """Series of earlier pages, which keep their place: a series that comes and goes is useless."""

    def __init__(self, most_of_family: int = MOST_OF_FAMILY, most: int = MOST) -> None:
        self._most_of_family, self._most = most_of_family, most
        self._held: dict[str, dict[Labels, None]] = {}

    def admit(self, wanted: dict[str, dict[Labels, float]]) -> tuple[dict[str, dict[Labels, None]], Counter[str]]:
        """(who has a place, in their order; how many of each family have none)."""
        kept = {
            name: {labels: None for labels in self._held.get(name, ()) if labels in series}
            for name, series in wanted.items()
        }
        left, out = self._most - sum(map(len, kept.values())), Counter[str]()
        for name, series in wanted.items():
            new = [labels for labels in series if labels not in kept[name]]
            room = max(0, min(left, self._most_of_family - len(kept[name])))
            kept[name].update(dict.fromkeys(new[:room]))
            left -= len(new[:room])
            if len(new) > room:
                out[name] = len(new) - room
        self._held = kept
        return kept, out


class Families:
    """Takes samples of any family, in any order."""

    def __init__(self) -> None:
        self._series: dict[str, dict[Labels, float]] = {}
        self._about: dict[str, tuple[str, str]] = {}
        self._twice: Counter[str] = Counter()

    def gauge(self, name: str, about: str, value: float | None, /, **labels: str) -> None:
        """A value that goes up and down; None and what is not finite is left out. `name` lacks the prefix."""
        self._add(f"{PREFIX}{name}", "gauge", about, value, labels)

    def counter(self, name: str, about: str, value: float, /, **labels: str) -> None:
        """A count that only grows; `name` lacks the prefix and `_total`."""
        self._add(f"{PREFIX}{name}", "counter", about, value, labels)

    def info(self, name: str, about: str, /, **labels: str) -> None:
        """Add an info metric with the value 1; `name` lacks the prefix and `_info`."""
        self._add(f"{PREFIX}{name}", "info", about, 1.0, labels)

    def _add(self, name: str, kind: str, about: str, value: float | None, labels: dict[str, str]) -> None:
        if value is None or not isfinite(value):
            return
        self._about.setdefault(name, (kind, plain(about)))
        series, key = self._series.setdefault(name, {}), labelled(labels)
        if key in series:  # long names that differ at their ends only
            self._twice[name] += 1
        else:
            series[key] = float(value)

    def metrics(self, places: Places) -> Iterator[Metric]:
        """Everything that has a place, by name."""
        kept, out = places.admit(dict(sorted(self._series.items())))
        for name, series in kept.items():
            kind, about = self._about[name]
            metric = Metric(name, about, kind)
            ending = {"counter": "_total", "info": "_info"}.get(kind, "")
            for labels in series:
                metric.add_sample(name + ending, dict(labels), self._series[name][labels])
            if metric.samples:
                yield metric
        yield _left_out(out + self._twice)


def _left_out(out: Counter[str]) -> Metric:
    metric = Metric(LEFT_OUT, 'Series dropped because the page is full, by family; family="" is the total', "gauge")
    metric.add_sample(LEFT_OUT, {"family": ""}, float(out.total()))
    for family, count in sorted(out.items()):
        metric.add_sample(LEFT_OUT, {"family": family}, float(count))
    return metric
