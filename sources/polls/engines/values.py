"""Works out what each engine of a page does, each apart: a sick one would not be seen in a mean."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import isnan

from ..pages.openmetrics import Sample
from ..pages.rates import Counters, Histograms, Increase, quantile
from .dialects import COUNTERS, GAUGES, Dialect, Share, Sort, Told

ENGINE_LABELS = ("engine", "dp_rank", "instance", "replica", "ReplicaId", "WorkerId")
"""Labels that tell engines of one page apart, beside the model."""
_QUANTILES = (("p50", 0.5), ("p95", 0.95))

Key = tuple[str, ...]
"""Model, and what else tells an engine from others."""
ByName = Mapping[str, Sequence[Sample]]
Engines = Mapping[Key, ByName]
Values = dict[str, float]


def by_engine(samples: Sequence[Sample], only: Mapping[str, str]) -> Engines:
    """The samples of each engine by name, without those of other ranks than are looked at."""
    engines: dict[Key, dict[str, list[Sample]]] = {}
    for sample in samples:
        labels = sample.labels
        if any(labels.get(name, wanted) != wanted for name, wanted in only.items()):
            continue
        key = (labels.get("model_name", ""), *[labels[name] for name in ENGINE_LABELS if labels.get(name)])
        engines.setdefault(key, {}).setdefault(sample.name, []).append(sample)
    return engines


class EngineValues:
    """The values of engines, poll after poll."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._counters, self._histograms = Counters(), Histograms()

    def take(self, engines: Engines, at: float) -> Mapping[Key, Values]:
        """What a page tells at a moment (monotonic seconds)."""
        values = {key: self._gauges(samples) for key, samples in engines.items()}
        grown = self._counters.take(self._counted(engines), at)
        windows = self._histograms.take(self._buckets(engines), at)
        for key, samples in engines.items():
            values[key] |= self._grown(key, samples, grown)
            values[key] |= self._quantiles(key, windows)
        return values

    def _gauges(self, samples: ByName) -> Values:
        values: Values = {}
        for told in self._dialect.told:
            if told.sort in GAUGES and (found := _chosen(told, samples)):
                fold = sum if told.sort is Sort.SUM else max
                values[told.value] = told.scale * fold(sample.value for sample in found)
        return values

    def _counted(self, engines: Engines) -> Mapping[Hashable, float]:
        names = self._dialect.counters
        return {
            _id(key, sample): sample.value
            for key, samples in engines.items()
            for name in names & samples.keys()
            for sample in samples[name]
        }

    def _grown(self, key: Key, samples: ByName, grown: Increase) -> Values:
        values: Values = {}
        for told in self._dialect.told:
            if told.sort not in COUNTERS:
                continue
            by = _sum(key, _first(told.names, samples), grown)
            if by is None:
                continue
            if told.sort is Sort.PER_S:
                values[told.value] = told.scale * by / grown.seconds
            else:
                values[told.value], values[f"{told.value}_per_min"] = by, 60.0 * by / grown.seconds
        for share in self._dialect.shares:
            part = _share(key, share, samples, grown)
            if part is not None:
                values[share.value] = part
        return values

    def _buckets(self, engines: Engines) -> Mapping[Hashable, Mapping[float, float]]:
        told: dict[Hashable, dict[float, float]] = {}
        for key, samples in engines.items():
            for row in self._dialect.told:
                if row.sort is Sort.QUANTILES:
                    for sample in _first(row.on_page, samples):
                        _add(told.setdefault((key, row.value), {}), sample)
        return told

    def _quantiles(self, key: Key, windows: Mapping[Hashable, Mapping[float, float]]) -> Values:
        values: Values = {}
        for row in self._dialect.told:
            window = windows.get((key, row.value))
            for name, share in _QUANTILES if window else ():
                value = quantile(window or {}, share)
                if value is not None:
                    values[f"{row.value}_{name}_s"] = value
        return values


def _first(names: Sequence[str], samples: ByName) -> Sequence[Sample]:
    """The samples of the first name that there are some of."""
    return next((samples[name] for name in names if name in samples), ())


def _chosen(told: Told, samples: ByName) -> Sequence[Sample]:
    """The samples of a gauge that count."""
    found = _first(told.names, samples)
    if not told.labels:
        return found
    return [one for one in found if all(one.labels.get(name, "") in wanted for name, wanted in told.labels.items())]


def _id(key: Key, sample: Sample) -> Hashable:
    return (key, sample.name, tuple(sorted(sample.labels.items())))


def _sum(key: Key, samples: Sequence[Sample], grown: Increase) -> float | None:
    """What some counters grew by together; None where none of them was there before."""
    found = [grown.by[name] for sample in samples if (name := _id(key, sample)) in grown.by]
    return sum(found) if found else None


def _share(key: Key, share: Share, samples: ByName, grown: Increase) -> float | None:
    parts = _first(share.part, samples)
    part = _sum(key, [s for s in parts if all(s.labels.get(n) == v for n, v in share.labels.items())], grown)
    whole = _sum(key, _first(share.whole, samples), grown)
    return None if part is None or whole is None or whole < share.least else 100.0 * part / whole


def _add(buckets: dict[float, float], sample: Sample) -> None:
    """Histograms of one engine that other labels tell apart are counted together."""
    try:
        limit = float(sample.labels.get("le", ""))
    except ValueError:
        return
    if not isnan(limit) and sample.value >= 0:
        buckets[limit] = buckets.get(limit, 0.0) + sample.value
