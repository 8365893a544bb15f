"""Asks any page of metrics: those that are named, else the first gauges, counters and histograms of the page."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from perfmon.errors import UsageError
from perfmon.text import plain, without_secrets

from ..poller import Machine
from ..reading import Area, Reading
from .endpoint import Endpoint
from .openmetrics import Sample, read_samples, read_types
from .poller import PagePoller
from .rates import Counters, Histograms, quantile

MOST_NAMED, MOST_FOUND = 200, 40
"""Values that are told of a page: of names that were asked for, and of those that just are there."""
_DULL = ("python_", "process_", "go_", "promhttp_", "prometheus_", "scrape_", "net_conntrack_")
"""What nearly every page begins with, and nobody asks for."""
_NAME = re.compile(r"[A-Za-z_:][\w:]*")
_SIGN = re.compile(r"[^\w.:/-]+")
_WORD = 120
_QUANTILES = (("p50", 0.5), ("p95", 0.95))


def parse_prometheus(argument: str) -> tuple[Endpoint, tuple[str, ...]]:
    """`URL[#NAME,NAME…]`. Raises UsageError."""
    text, _, chosen = argument.partition("#")
    names = tuple(name.strip() for name in chosen.split(",") if name.strip())
    wrong = next((name for name in names if not _NAME.fullmatch(name)), None)
    if wrong is not None or len(names) > MOST_NAMED:
        shown = without_secrets(plain(wrong or f"{len(names)} names", 60))
        raise UsageError(f"prometheus=…#{shown}: expected comma-separated metric names after #, at most {MOST_NAMED}")
    return Endpoint.parse("prometheus", text), names


@dataclass(frozen=True, slots=True)
class Found:
    """What was read of a page."""

    samples: tuple[Sample, ...]
    counters: frozenset[str]
    """Names of samples that are counters."""


class PrometheusPoller(PagePoller):
    """Asks one page."""

    def __init__(
        self, machine: Machine, endpoint: Endpoint, names: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(machine, endpoint, clock)
        self._names = names
        self._counters, self._histograms = Counters(), Histograms()

    async def poll(self) -> Sequence[Reading]:
        """A reading for each value; rates and quantiles come from the second time on."""
        found, at = await self._page(self._read)
        if not found.samples:
            named = f"none of {', '.join(self._names)}"
            raise self._endpoint.trouble(f"{named if self._names else 'no numbers'} on this page")
        told = self._told(found, at)
        most = MOST_NAMED if self._names else MOST_FOUND
        readings = [Reading(Area.VALUE, name, {"value": value}) for name, value in islice(told.items(), most)]
        if len(told) > most:
            left_out = {"value": float(len(told) - most)}
            readings.append(Reading(Area.VALUE, f"{self._endpoint.short}/left_out", left_out))
        return readings

    def _read(self, page: bytes) -> Found:
        types = {name: kind for name, kind in read_types(page) if _NAME.fullmatch(name)}
        names = self._names or [name for name in types if not name.startswith(_DULL)][: 4 * MOST_FOUND]
        on_page = [*names, *[f"{name}_total" for name in names], *[f"{name}_bucket" for name in names]]
        counters = {name for name, kind in types.items() if kind == "counter"}
        counters |= {f"{name}_total" for name in counters} | {name for name in on_page if name.endswith("_total")}
        return Found(read_samples(page, on_page).told, frozenset(counters))

    def _told(self, found: Found, at: float) -> Mapping[str, float]:
        """Value by name, in the order of the page; what has the same name is added up."""
        counted: dict[Hashable, float] = {}
        buckets: dict[Hashable, dict[float, float]] = {}
        told: dict[str, float] = {}
        for sample in found.samples:
            name = self._named(sample)
            if sample.name.endswith("_bucket"):
                _add(buckets.setdefault(name, {}), sample)
            elif sample.name in found.counters:
                counted[name] = counted.get(name, 0.0) + sample.value
            else:
                told[name] = told.get(name, 0.0) + sample.value
        grown = self._counters.take(counted, at)
        told |= {f"{name}_per_s": by / grown.seconds for name, by in grown.by.items()}
        for family, window in self._histograms.take(buckets, at).items():
            values = {f"{family}_{label}": quantile(window, share) for label, share in _QUANTILES}
            told |= {name: value for name, value in values.items() if value is not None}
        return told

    def _named(self, sample: Sample) -> str:
        """`host:port/metric/label`: labels by their values, in the order of the page."""
        name = sample.name.removesuffix("_bucket").removesuffix("_total")
        labels = [_SIGN.sub("_", plain(value, 40)) for key, value in sample.labels.items() if key != "le" and value]
        return plain("/".join([self._endpoint.short, name, *labels]), _WORD)


def _add(buckets: dict[float, float], sample: Sample) -> None:
    try:
        limit = float(sample.labels.get("le", ""))
    except ValueError:
        return
    if sample.value >= 0:
        buckets[limit] = buckets.get(limit, 0.0) + sample.value
