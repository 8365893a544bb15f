"""Engines and trainers by their own metrics pages: vLLM, SGLang, TRL, prime-rl."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path

from perfmon.core import Table, plain, read_toml

from ..http_client import ReplyError, Url, get
from .metrics_page import (
    QUANTILES,
    TIMEOUT_S,
    Counters,
    Endpoint,
    Histograms,
    Increase,
    PagePoller,
    Sample,
    Samples,
    add_bucket,
    quantile,
    read_samples,
)
from .reading import Area, Machine, PollError, Reading

# --- How servers show their engines on a page of metrics: which metric is which value, by version and system ---
#
# One TOML file each, next to this module.

_HERE = Path(__file__).parent / "engines"


class MetricKind(StrEnum):
    """The treatment of a metric."""

    SUM = "sum"
    """A gauge; where an engine has several they are added up."""
    MAX = "max"
    """A gauge; the greatest of several."""
    PER_S = "per_s"
    """A counter, reported as its increase per second."""
    GREW = "grew"
    """A counter, reported as its increase since the last poll, and by the minute as `NAME_per_min`."""
    QUANTILES = "quantiles"
    """A histogram of seconds, reported as `NAME_p50_s` and `NAME_p95_s` of the last half minute."""


GAUGES = (MetricKind.SUM, MetricKind.MAX)
COUNTERS = (MetricKind.PER_S, MetricKind.GREW)


@dataclass(frozen=True, slots=True)
class ValueMapping:
    """One value of an engine, and the metrics that contain it: the first that the page has, for names change."""

    value: str
    kind: MetricKind
    names: tuple[str, ...]
    scale: float = 1.0
    labels: Mapping[str, Set[str]] = field(default_factory=dict)
    """Of a gauge only samples count whose labels have one of these values."""

    @property
    def on_page(self) -> tuple[str, ...]:
        """The names as the lines of a page begin."""
        return tuple(f"{name}_bucket" for name in self.names) if self.kind is MetricKind.QUANTILES else self.names


@dataclass(frozen=True, slots=True)
class RatioMapping:
    """A percentage: what one counter grew by since the last poll, of what another one did."""

    value: str
    part: tuple[str, ...]
    whole: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    """Only samples with these labels are the part."""
    least: float = 1.0
    """Of the whole: of less a share means nothing."""


@dataclass(frozen=True)
class MetricMapping:
    """The mapping of the metrics of one kind of server."""

    kind: str
    title: str
    mappings: tuple[ValueMapping, ...]
    shares: tuple[RatioMapping, ...] = ()
    only: Mapping[str, str] = field(default_factory=dict)
    """Samples that have these labels count only with these values: ranks of an engine that report the same."""

    @cached_property
    def names(self) -> frozenset[str]:
        """All names that are looked for on a page."""
        return frozenset(name for mapping in self.mappings for name in mapping.on_page) | self.counters

    @cached_property
    def counters(self) -> frozenset[str]:
        """Those that are counters."""
        names = {name for mapping in self.mappings if mapping.kind in COUNTERS for name in mapping.names}
        return frozenset(names.union(*[(*share.part, *share.whole) for share in self.shares]))


@cache
def load_mapping(kind: str) -> MetricMapping:
    """The dialect in `KIND.toml`. Raises DataFileError."""
    table = read_toml(_HERE / f"{kind}.toml")
    table.only(("schema", "kind", "title", "prefixes", "only", "value", "share"))
    prefixes = table.texts("prefixes", required=True)
    values = tuple(_value(row, prefixes) for row in table.tables("value"))
    shares = tuple(_share(row, prefixes) for row in table.tables("share"))
    return MetricMapping(table.word("kind"), table.line("title"), values, shares, _labels(table, "only"))


def _value(row: Table, prefixes: Sequence[str]) -> ValueMapping:
    row.only(("name", "kind", "metrics", "scale", "labels"))
    try:
        kind = MetricKind(row.text("kind"))
    except ValueError:
        raise row.wrong("kind", f"expected one of {', '.join(MetricKind)}") from None
    labels = row.table("labels", row.data.get("labels", {}))
    wanted = {name: frozenset(labels.texts(name, required=True)) for name in labels.data}
    return ValueMapping(row.word("name"), kind, _names(row, "metrics", prefixes), row.number("scale", 1.0), wanted)


def _share(row: Table, prefixes: Sequence[str]) -> RatioMapping:
    row.only(("name", "part", "part_labels", "whole", "least"))
    part, whole = _names(row, "part", prefixes), _names(row, "whole", prefixes)
    return RatioMapping(row.word("name"), part, whole, _labels(row, "part_labels"), row.amount("least", 1.0))


def _names(row: Table, key: str, prefixes: Sequence[str]) -> tuple[str, ...]:
    """All names of a metric: those with the first prefix come first."""
    metrics = row.texts(key, required=True)
    return tuple(f"{prefix}{metric}" for prefix in prefixes for metric in metrics)


def _labels(table: Table, key: str) -> dict[str, str]:
    labels = table.table(key, table.data.get(key, {}))
    return {name: labels.text(name) for name in labels.data}


# --- Queries a prime-rl trainer (`trainer.metrics_server`, off by default, port 8000) how it gets on ---

_STEP, _AT = "trainer_step", "trainer_last_step_timestamp_seconds"


class TrainerPoller(PagePoller):
    """Polls one trainer."""

    def __init__(self, machine: Machine, endpoint: Endpoint) -> None:
        super().__init__(machine, endpoint)
        self._values = {mapping.names[0]: mapping.value for mapping in load_mapping("prime-rl").mappings}
        self._step: float | None = None

    async def poll(self) -> Sequence[Reading]:
        """One reading; `new_step` is reported once for each finished step."""
        samples, _ = await self._page(self._read)
        if not samples.found:
            raise self._endpoint.trouble(_nothing(samples))
        numbers = {sample.name: sample.value for sample in samples.found}
        values = {value: numbers[name] for name, value in self._values.items() if name in numbers}
        if numbers.get(_AT, 0.0) > 0:
            values["step_age_s"] = round(max(0.0, self._machine.now().timestamp() - numbers[_AT]), 3)
        step = numbers.get(_STEP)
        if step is not None:
            if self._step is not None and step != self._step:
                values["new_step"] = step
            self._step = step
        return [Reading(Area.QUEUE, self._endpoint.short, values, {"kind": "prime-rl", "role": "trainer"})]

    def _read(self, page: bytes) -> Samples:
        return read_samples(page, {*self._values, _AT})


def _nothing(samples: Samples) -> str:
    if samples.refused:
        return "its trainer metrics are not numeric"
    return "no metrics of a prime-rl trainer on this page; use vllm=URL for its inference server"


# --- Works out what each engine of a page does, each apart: a mean would hide a sick one ---

ENGINE_LABELS = ("engine", "dp_rank", "instance", "replica", "ReplicaId", "WorkerId")
"""Labels that distinguish engines of one page, besides the model."""

Key = tuple[str, ...]
"""Model, and what else distinguishes an engine."""
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

    def __init__(self, metrics: MetricMapping) -> None:
        self._metrics = metrics
        self._counters, self._histograms = Counters(), Histograms()

    def take(self, engines: Engines, at: float) -> Mapping[Key, Values]:
        """Return the values of a page that was read at `at` (monotonic seconds)."""
        values = {key: self._gauges(samples) for key, samples in engines.items()}
        grown = self._counters.take(self._counted(engines), at)
        windows = self._histograms.take(self._buckets(engines), at)
        for key, samples in engines.items():
            values[key] |= self._grown(key, samples, grown)
            values[key] |= self._quantiles(key, windows)
        return values

    def _gauges(self, samples: ByName) -> Values:
        values: Values = {}
        for mapping in self._metrics.mappings:
            if mapping.kind in GAUGES and (found := _chosen(mapping, samples)):
                fold = sum if mapping.kind is MetricKind.SUM else max
                values[mapping.value] = mapping.scale * fold(sample.value for sample in found)
        return values

    def _counted(self, engines: Engines) -> Mapping[Hashable, float]:
        names = self._metrics.counters
        return {
            _id(key, sample): sample.value
            for key, samples in engines.items()
            for name in names & samples.keys()
            for sample in samples[name]
        }

    def _grown(self, key: Key, samples: ByName, grown: Increase) -> Values:
        values: Values = {}
        for mapping in self._metrics.mappings:
            if mapping.kind not in COUNTERS:
                continue
            by = _sum(key, _first(mapping.names, samples), grown)
            if by is None:
                continue
            if mapping.kind is MetricKind.PER_S:
                values[mapping.value] = mapping.scale * by / grown.seconds
            else:
                values[mapping.value], values[f"{mapping.value}_per_min"] = by, 60.0 * by / grown.seconds
        for share in self._metrics.shares:
            part = _share_of(key, share, samples, grown)
            if part is not None:
                values[share.value] = part
        return values

    def _buckets(self, engines: Engines) -> Mapping[Hashable, Mapping[float, float]]:
        buckets: dict[Hashable, dict[float, float]] = {}
        for key, samples in engines.items():
            for mapping in self._metrics.mappings:
                if mapping.kind is MetricKind.QUANTILES:
                    for sample in _first(mapping.on_page, samples):
                        add_bucket(buckets.setdefault((key, mapping.value), {}), sample)
        return buckets

    def _quantiles(self, key: Key, windows: Mapping[Hashable, Mapping[float, float]]) -> Values:
        values: Values = {}
        for mapping in self._metrics.mappings:
            window = windows.get((key, mapping.value))
            for name, share in QUANTILES if window else ():
                value = quantile(window or {}, share)
                if value is not None:
                    values[f"{mapping.value}_{name}_s"] = value
        return values


def _first(names: Sequence[str], samples: ByName) -> Sequence[Sample]:
    """The samples of the first name that there are some of."""
    return next((samples[name] for name in names if name in samples), ())


def _chosen(mapping: ValueMapping, samples: ByName) -> Sequence[Sample]:
    found = _first(mapping.names, samples)
    if not mapping.labels:
        return found
    return [one for one in found if all(one.labels.get(name, "") in wanted for name, wanted in mapping.labels.items())]


def _id(key: Key, sample: Sample) -> Hashable:
    return (key, sample.name, tuple(sorted(sample.labels.items())))


def _sum(key: Key, samples: Sequence[Sample], grown: Increase) -> float | None:
    """Total increase of some counters; None if none of them is known from before."""
    found = [grown.by[name] for sample in samples if (name := _id(key, sample)) in grown.by]
    return sum(found) if found else None


def _share_of(key: Key, share: RatioMapping, samples: ByName, grown: Increase) -> float | None:
    parts = _first(share.part, samples)
    part = _sum(key, [s for s in parts if all(s.labels.get(n) == v for n, v in share.labels.items())], grown)
    whole = _sum(key, _first(share.whole, samples), grown)
    return None if part is None or whole is None or whole < share.least else 100.0 * part / whole


# --- Queries the metrics pages of servers of engines: vLLM, SGLang, and what TRL generates with ---

MOST_ENGINES = 64
"""Engines of one page that are reported."""
_WORD = 60


class EnginePoller(PagePoller):
    """Polls one server: one reading for each engine."""

    def __init__(self, machine: Machine, endpoint: Endpoint, metrics: MetricMapping) -> None:
        super().__init__(machine, endpoint)
        self._metrics, self._values = metrics, EngineValues(metrics)

    async def poll(self) -> Sequence[Reading]:
        """Poll once; rates and quantiles start with the second poll."""
        samples, at = await self._page(self._read)
        engines = by_engine(samples.found, self._metrics.only)
        if not engines:
            raise self._endpoint.trouble(self._nothing(samples))
        return self._readings(self._values.take(engines, at))

    def _read(self, page: bytes) -> Samples:
        return read_samples(page, self._metrics.names)

    def _nothing(self, samples: Samples) -> str:
        if samples.refused:
            return f"its {self._metrics.title} metrics are not numeric"
        return f"no {self._metrics.title} metrics on this page; use prometheus=URL for other servers"

    def _readings(self, values: Mapping[Key, Mapping[str, float]]) -> list[Reading]:
        kind, short = self._metrics.kind, self._endpoint.short
        several = len({key[0] for key in values}) > 1
        made = []
        for key in sorted(values)[:MOST_ENGINES]:
            model, *parts = (plain(part, _WORD) for part in key)
            name = "/".join([short, *([model] if several else []), *parts])
            made.append(Reading(Area.QUEUE, name, values[key], {"kind": kind, "model": model}))
        if len(values) > MOST_ENGINES:
            left_out = {"left_out": float(len(values) - MOST_ENGINES)}
            made.append(Reading(Area.QUEUE, f"{short}/others", left_out, {"kind": kind}))
        return made


# --- What TRL generates with: a vLLM server with its metrics, or `trl vllm-serve`, which only shows that it exists ---

HEALTH = "/health/"
"""`trl vllm-serve` has this and no metrics (read in trl/scripts/vllm_serve.py)."""
_AGAIN = 12
"""Polls after which a server that had no metrics is queried for them again: it may have been replaced."""


class TrlPoller(PagePoller):
    """Polls the metrics; if there are none, the response time of the health page."""

    def __init__(self, machine: Machine, endpoint: Endpoint) -> None:
        super().__init__(machine, endpoint)
        self._engines = EnginePoller(machine, endpoint, replace(load_mapping("vllm"), kind="trl"))
        self._without = 0

    async def poll(self) -> Sequence[Reading]:
        """Poll once."""
        if self._without:
            self._without -= 1
            return [await self._health(None)]
        try:
            return await self._engines.poll()
        except PollError as error:
            reading = await self._health(error)
            self._without = _AGAIN
            return [reading]

    async def _health(self, error: PollError | None) -> Reading:
        url = self._endpoint.url
        health = Url(url.scheme, url.host, url.port, HEALTH)
        try:
            reply = await get(self._machine.opener, health, timeout_s=TIMEOUT_S)
        except ReplyError as why:
            raise error or self._endpoint.trouble(str(why)) from None
        if reply.status != 200:
            raise error or self._endpoint.trouble(f"{HEALTH} answered {reply.status}")
        words = {"kind": "trl", "state": "ok"}
        return Reading(Area.QUEUE, self._endpoint.short, {"health_ms": round(1e3 * reply.took_s, 1)}, words)
