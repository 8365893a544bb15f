"""Pages of metrics: their endpoints, fetching them, and the poller of any Prometheus page."""

from __future__ import annotations

import asyncio
import re
import time
import zlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from perfmon.core import UsageError, plain, without_secrets

from ..http_client import LIMIT, Opener, ReplyError, Url, get, parse_url
from .base import Machine, PollError
from .openmetrics import QUANTILES, Counters, Histograms, Sample, add_bucket, quantile, read_samples, read_types
from .reading import Area, Reading

# --- Fetches a page of metrics, and says in one line why there is none ---

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
        """For display, as a SPEC begins: `vllm http://gpu-1:8000`."""
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
        """The error that says what and why."""
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


# --- Asks any page of metrics: those that are named, else the first gauges, counters and histograms of the page ---

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
        shown = without_secrets(plain(wrong or f"{len(names)} names", 60))
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
