"""Pages of metrics read: samples, and rates and quantiles between two pages."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, isfinite, isnan

# --- Reads pages of metrics, Prometheus' text and OpenMetrics alike: only the samples of names that are asked for ---
#
# `prometheus-client` reads every line into objects, which takes 0.5 s a megabyte (`python bench/openmetrics.py`); of a
# page that engines or Ray serve hardly a tenth is looked at, so here all other lines are passed over unread.

MOST = 20_000
"""Samples that are read of one page: a page that has more of what was asked for is broken, or means harm."""
_SAMPLE = re.compile(
    rb'([A-Za-z_:][\w:]*+)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*+")*+)\})?[ \t]+([^ \t#]++)'
    rb"(?:[ \t]+-?[\d.eE+-]++)?[ \t]*+(?:#.*+)?\r?"
)
_LABEL = re.compile(rb'([A-Za-z_]\w*+)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*+)"')
_ESCAPE = re.compile(r'\\([\\"n])')
_TYPE = re.compile(rb"#[ \t]+TYPE[ \t]+(\S+)[ \t]+(\w+)")


@dataclass(frozen=True, slots=True)
class Sample:
    """One number of a page."""

    name: str
    """As on the page: with `_total`, `_bucket` and so on."""
    labels: Mapping[str, str]
    """Unescaped, else as they came: hostile."""
    value: float
    """Finite."""


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of the requested names."""

    found: tuple[Sample, ...]
    refused: int
    """Lines of these names that hold no finite number."""


def read_samples(page: bytes, names: Collection[str]) -> Samples:
    """The samples of these names, in the order of the page."""
    wanted = frozenset(name.encode() for name in names)
    heads = tuple(wanted)
    found: list[Sample] = []
    refused = 0
    known: dict[bytes | None, Mapping[str, str]] = {None: {}}
    for line in page.split(b"\n"):
        if not line.startswith(heads):
            continue
        match = _SAMPLE.fullmatch(line)
        if match is None or match[1] not in wanted:
            refused += match is None
            continue
        value = _number(match[3])
        if value is None:
            refused += 1
            continue
        labels = known.get(match[2])
        if labels is None:
            labels = known[match[2]] = _labels(match[2])
        found.append(Sample(match[1].decode(), labels, value))
        if len(found) >= MOST:
            break
    return Samples(tuple(found), refused)


def read_types(page: bytes) -> Iterator[tuple[str, str]]:
    """Name and type (`gauge`, `counter`, `histogram`, …) of the families of a page, as its comments tell them."""
    for line in page.split(b"\n"):
        if line.startswith(b"#"):
            match = _TYPE.match(line)
            if match is not None:
                yield match[1].decode("utf-8", "replace"), match[2].decode()


def _number(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) and b"_" not in text else None


def _labels(text: bytes) -> Mapping[str, str]:
    return {name.decode(): _unescaped(value) for name, value in _LABEL.findall(text)}


def _unescaped(value: bytes) -> str:
    text = value.decode("utf-8", "replace")
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text) if "\\" in text else text


# --- What happened between two polls: increases of counters, and quantiles of histograms over the last half minute ---
#
# Both survive a server that starts again: a counter that is lower than before has begun anew at zero.

Buckets = Mapping[float, float]
"""Upper limit → how many were not above it, as histograms on a page count them; inf for all."""
WINDOW_S = 30.0
QUANTILES = (("p50", 0.5), ("p95", 0.95))
"""Those that are reported of a histogram."""


def add_bucket(buckets: dict[float, float], sample: Sample) -> None:
    """Count the sample of a bucket; histograms that other labels distinguish are counted together."""
    try:
        limit = float(sample.labels.get("le", ""))
    except ValueError:
        return
    if not isnan(limit) and sample.value >= 0:
        buckets[limit] = buckets.get(limit, 0.0) + sample.value


@dataclass(frozen=True, slots=True)
class Increase:
    """Increases of counters since the last poll."""

    seconds: float
    by: Mapping[Hashable, float]
    """Of those counters that were seen before, too."""


class Counters:
    """Counters by key, poll after poll."""

    def __init__(self) -> None:
        self._last: Mapping[Hashable, float] = {}
        self._at: float | None = None

    def take(self, values: Mapping[Hashable, float], at: float) -> Increase:
        """The counters at a moment (monotonic seconds); a negative one is none, and is left out."""
        now = {key: value for key, value in values.items() if value >= 0}
        before, since = self._last, self._at
        self._last, self._at = now, at
        if since is None or at <= since:
            return Increase(0.0, {})
        return Increase(at - since, {key: _grown(before[key], value) for key, value in now.items() if key in before})


def _grown(before: float, now: float) -> float:
    return now - before if now >= before else now


class Histograms:
    """Histograms by key, poll after poll."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._pages: dict[Hashable, deque[tuple[float, Buckets]]] = {}

    def take(self, counted: Mapping[Hashable, Buckets], at: float) -> Mapping[Hashable, Buckets]:
        """Return the counts of the window that ends at `at` (monotonic seconds); nothing at first."""
        self._pages = {key: self._pages.get(key) or deque() for key in counted}
        return {key: window for key, buckets in counted.items() if (window := self._one(key, buckets, at))}

    def _one(self, key: Hashable, buckets: Buckets, at: float) -> Buckets:
        pages = self._pages[key]
        if pages and _is_other(pages[-1][1], buckets):
            pages.clear()
        pages.append((at, buckets))
        while len(pages) > 2 and pages[1][0] <= at - self._window_s:
            pages.popleft()
        if len(pages) < 2:
            return {}
        first = pages[0][1]
        return {limit: count - first[limit] for limit, count in buckets.items()}


def _is_other(before: Buckets, now: Buckets) -> bool:
    """The server has started again, or has other limits: the two cannot be told apart by subtraction."""
    return before.keys() != now.keys() or any(count < before[limit] for limit, count in now.items())


def quantile(counted: Buckets, share: float) -> float | None:
    """The value below which `share` of what was counted lies, straight within a bucket; None where nothing was.

    What lies in the last bucket, which has no upper limit, is taken to be at its lower one.
    """
    limits = sorted(counted)
    if len(limits) < 2 or limits[-1] != inf:
        return None
    wanted = share * max(counted.values())
    if wanted <= 0:
        return None
    low, below = 0.0, 0.0
    for limit in limits:
        count = max(counted[limit], below)
        if count >= wanted:
            if limit == inf:
                return low
            return low if count == below else low + (limit - low) * (wanted - below) / (count - below)
        low, below = limit, count
    return None
