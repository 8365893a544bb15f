"""Pages of metrics: their endpoints, fetching them, and the poller of any Prometheus page."""

from __future__ import annotations

import asyncio
import re
import time
import zlib
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf, isfinite, isnan
from typing import TypeVar

from perfmon.core import UsageError, evidence_text, plain

from ..http_client import LIMIT, Opener, ReplyError, Url, get, parse_url
from .reading import Area, Machine, PollError, Reading

# --- Fetches a page of metrics, and states in one line why there is none ---

TIMEOUT_S = 15.0
_INLINE = 1 << 14
_GZIP = b"\x1f\x8b"
_HTML = re.compile(rb"\s*<(?:!doctype|html|head|body)", re.IGNORECASE)
_WHY = {
    401: "it requires a login, which is not supported",
    403: "access denied",
    404: "wrong path? metrics are usually at /metrics",
    405: "wrong path? metrics are usually at /metrics",
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A page of metrics that is checked periodically."""

    kind: str
    url: Url

    @classmethod
    def parse(cls, kind: str, text: str) -> Endpoint:
        """Read `http://HOST:PORT[/PATH]`, or https; without a path it is /metrics. Raises UsageError."""
        url = parse_url(text)
        return cls(kind, Url(url.scheme, url.host, url.port, "/metrics") if url.path == "/" else url)

    @property
    def shown(self) -> str:
        """For display, as a SOURCE begins: `vllm http://gpu-1:8000`."""
        return f"{self.kind} {self.url.shown.removesuffix('/metrics')}"

    @property
    def short(self) -> str:
        """Prefix of the names of readings: `gpu-1:8000`."""
        return self.url.shown.removesuffix("/metrics").partition("://")[2]

    async def fetch(self, opener: Opener) -> bytes:
        """The page. Raises PollError."""
        try:
            reply = await get(opener, self.url, timeout_s=TIMEOUT_S)
        except ReplyError as error:
            raise self.trouble(str(error)) from None
        if reply.status != 200:
            raise self.trouble(f"answered {reply.status}: {_WHY.get(reply.status, 'see its log')}")
        page = self._unpacked(reply.body) if reply.body.startswith(_GZIP) else reply.body
        if _HTML.match(page):
            raise self.trouble("returned a web page instead of metrics: give the path of its metrics")
        return page

    def _unpacked(self, body: bytes) -> bytes:
        """Decompress the reply of a server that compresses without a request."""
        packed = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            page = packed.decompress(body, LIMIT)
        except zlib.error:
            page = b""
        if packed.unconsumed_tail:
            raise self.trouble(f"more than {LIMIT >> 20} MiB")
        if not packed.eof:
            raise self.trouble("returned corrupt gzip data")
        return page

    def trouble(self, why: str) -> PollError:
        """The error with what failed and why."""
        return PollError(f"{self.shown}: {why}")


async def off_loop(page: bytes, read: Callable[[bytes], T]) -> T:
    """Read a page; a large one in a thread, so that the event loop is not blocked."""
    return read(page) if len(page) <= _INLINE else await asyncio.to_thread(read, page)


# --- What all pollers of a page of metrics are: a name, a pace, and the page as it was read, with the moment of it ---

EVERY_S = 5.0


class PagePoller:
    """Fetches one page periodically; subclasses make readings of it."""

    every_s = EVERY_S

    def __init__(self, machine: Machine, endpoint: Endpoint, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives the times for rates, in seconds."""
        self._machine, self._endpoint, self._clock = machine, endpoint, clock

    @property
    def name(self) -> str:
        """Kind and address: `vllm http://127.0.0.1:8000`."""
        return self._endpoint.shown

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _page(self, read: Callable[[bytes], T]) -> tuple[T, float]:
        """Fetch and read the page; returns when it came, too. Raises PollError."""
        page = await self._endpoint.fetch(self._machine.opener)
        at = self._clock()
        return await off_loop(page, read), at


# --- Queries any page of metrics: those that are named, else the first gauges, counters and histograms of the page ---

MOST_NAMED, MOST_FOUND = 200, 40
"""Values that are reported of a page: of requested names, and of a page without such."""
_DULL = ("python_", "process_", "go_", "promhttp_", "prometheus_", "scrape_", "net_conntrack_")
"""Prefixes of metrics at the start of nearly every page that no one requests."""
_NAME = re.compile(r"[A-Za-z_:][\w:]*")
_SIGN = re.compile(r"[^\w.:/-]+")
_WORD = 120


def parse_prometheus(argument: str) -> tuple[Endpoint, tuple[str, ...]]:
    """`URL[#NAME,NAME…]`. Raises UsageError."""
    text, _, chosen = argument.partition("#")
    names = tuple(name.strip() for name in chosen.split(",") if name.strip())
    wrong = next((name for name in names if not _NAME.fullmatch(name)), None)
    if wrong is not None or len(names) > MOST_NAMED:
        shown = evidence_text(wrong or f"{len(names)} names", 60)
        raise UsageError(f"prometheus=…#{shown}: expected comma-separated metric names after #, at most {MOST_NAMED}")
    return Endpoint.parse("prometheus", text), names


@dataclass(frozen=True, slots=True)
class PageSamples:
    """The parsed samples of a page."""

    samples: tuple[Sample, ...]
    counters: frozenset[str]
    """Names of samples that are counters."""


class PrometheusPoller(PagePoller):
    """Polls one page."""

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
        values = self._values(found, at)
        most = MOST_NAMED if self._names else MOST_FOUND
        readings = [Reading(Area.VALUE, name, {"value": value}) for name, value in islice(values.items(), most)]
        if len(values) > most:
            left_out = {"value": float(len(values) - most)}
            readings.append(Reading(Area.VALUE, f"{self._endpoint.short}/left_out", left_out))
        return readings

    def _read(self, page: bytes) -> PageSamples:
        types = {name: kind for name, kind in read_types(page) if _NAME.fullmatch(name)}
        names = self._names or [name for name in types if not name.startswith(_DULL)][: 4 * MOST_FOUND]
        on_page = [*names, *[f"{name}_total" for name in names], *[f"{name}_bucket" for name in names]]
        counters = {name for name, kind in types.items() if kind == "counter"}
        counters |= {f"{name}_total" for name in counters} | {name for name in on_page if name.endswith("_total")}
        return PageSamples(read_samples(page, on_page).found, frozenset(counters))

    def _values(self, found: PageSamples, at: float) -> Mapping[str, float]:
        """Value by name, in the order of the page; what has the same name is added up."""
        counted: dict[Hashable, float] = {}
        buckets: dict[Hashable, dict[float, float]] = {}
        numbers: dict[str, float] = {}
        for sample in found.samples:
            name = self._named(sample)
            if sample.name.endswith("_bucket"):
                add_bucket(buckets.setdefault(name, {}), sample)
            elif sample.name in found.counters:
                counted[name] = counted.get(name, 0.0) + sample.value
            else:
                numbers[name] = numbers.get(name, 0.0) + sample.value
        grown = self._counters.take(counted, at)
        numbers |= {f"{name}_per_s": by / grown.seconds for name, by in grown.by.items()}
        for family, window in self._histograms.take(buckets, at).items():
            values = {f"{family}_{label}": quantile(window, share) for label, share in QUANTILES}
            numbers |= {name: value for name, value in values.items() if value is not None}
        return numbers

    def _named(self, sample: Sample) -> str:
        """`host:port/metric/label`: labels by their values, in the order of the page."""
        name = sample.name.removesuffix("_bucket").removesuffix("_total")
        labels = [_SIGN.sub("_", plain(value, 40)) for key, value in sample.labels.items() if key != "le" and value]
        return plain("/".join([self._endpoint.short, name, *labels]), _WORD)


# --- Pages of metrics read: samples, and rates and quantiles between two pages ---

# --- Reads pages of metrics, Prometheus' text and OpenMetrics alike: only the samples of requested names ---
#
# `prometheus-client` reads every line into objects, which takes 0.5 s a megabyte (`python bench/openmetrics.py`); of a
# page that engines or Ray serve hardly a tenth is looked at, so here all other lines are passed over unread.

MOST = 20_000
"""Samples that are read of one page: a page that has more of the requested names is broken, or means harm."""
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
    """Name and type (`gauge`, `counter`, `histogram`, …) of the families of a page, as its comments state them."""
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
# Both survive a server that starts again: a counter that is lower than before has restarted at zero.

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
    """Of the counters that are known from before."""


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
    """The server has started again, or has other limits: subtraction means nothing."""
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
