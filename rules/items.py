"""What signatures judge: spans, samples and silences as items, their values, and what they follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from perfmon.model import Fields, Ref, Span, Update

UPDATE = "weight-update"
START_KINDS = frozenset(
    (
        "shards", "files", "graphs", "model-load", "compile", "graph-capture", "engine-init", "download",
        "data-prepare", "checkpoint-load", "samples",
    )
)  # fmt: skip
"""Progress of a run that starts: no work of its own."""
_USUAL_OP = "update_weights"
"""Its RPC is `rpc_ms`; that of another operation is a metric of its own."""
SPAN_METRICS = {
    "checkpoint-write": ("write_ms", 1000.0),
    "checkpoint-wait": ("wait_ms", 1000.0),
    "generation-batch": ("dur_ms", 1000.0),
    "policy-wait": ("policy_wait_s", 1.0),
    "batch-wait": ("batch_wait_s", 1.0),
    "weight-sync": ("weight_sync_s", 1.0),
}
"""The metric that the duration of a span is, and its units per second."""
START_SPANS = (
    "model-load", "compile", "graph-capture", "engine-init", "download", "data-prepare", "checkpoint-load",
)  # fmt: skip
"""Kinds of spans of which a start is made up, whichever format tells of them."""
UPDATE_METRICS = ("queue_ms", "rpc_ms", "rpc_ms.reload_weights", "wall_ms")


@dataclass(slots=True)
class Item:
    """Something that a signature judges."""

    start: float
    end: float
    told: Mapping[str, float] | None
    """Its values by metric; None for those of its span, which few are ever asked for."""
    fields: Fields
    refs: Sequence[tuple[Ref, str]]
    group: str = ""
    key: str = ""
    source: int = 0
    span: Span | None = None
    stream: object = ""
    """What it is one of: neighbours in time are items of the same stream."""
    at: int = 0
    """Its place in the stream."""
    floor: float = float("-inf")
    """Time of the last item of its stream that is not judged: windows do not reach behind it."""

    @property
    def values(self) -> Mapping[str, float]:
        """By metric."""
        if self.told is None:
            self.told = {} if self.span is None else values_of(self.span)
        return self.told


@dataclass(slots=True)
class Stream:
    """Items that follow one another: updates of one server, samples of one log and group."""

    count: int = 0
    first: float = 0.0
    last: float = 0.0

    def add(self, time: float) -> int:
        """Counts an item; returns its place."""
        if not self.count:
            self.first = time
        self.last = time
        self.count += 1
        return self.count - 1

    @property
    def interval(self) -> float:
        """Mean seconds between items; 0 for a single one."""
        return (self.last - self.first) / (self.count - 1) if self.count > 1 else 0.0


Streams = tuple[list[str], list[int], dict[object, Stream]]
"""The stream of each item and its place in it; all streams."""


def value_of(kind: str, metric: str) -> Callable[[Span], float | None]:
    """What gives `values_of(span).get(metric)` of spans of a kind, without all their other values."""
    if kind != UPDATE:
        name, scale = SPAN_METRICS.get(kind, ("duration_s", 1.0))
        if metric != name:
            return lambda _: None
        return lambda span: None if span.duration_s is None else span.duration_s * scale
    if metric in ("queue_ms", "wall_ms"):
        return attrgetter(metric)
    name, _, op = metric.partition(".")
    if name != "rpc_ms" or op == _USUAL_OP:
        return lambda _: None
    wanted = op or _USUAL_OP
    return lambda update: update.rpc_ms if update.op == wanted else None  # type: ignore[attr-defined]  # an Update


def values_of(span: Span) -> dict[str, float]:
    """What a span lasted, as a metric; of an update the durations that it has."""
    if span.__class__ is Update:
        return update_values(span)
    if span.duration_s is None:
        return {}
    name, scale = SPAN_METRICS.get(span.kind, ("duration_s", 1.0))
    return {name: span.duration_s * scale}


def update_values(update: Update) -> dict[str, float]:
    """Durations of an update as metrics; a reload's RPC is a metric of its own."""
    values: dict[str, float] = {}
    if update.queue_ms is not None:
        values["queue_ms"] = update.queue_ms
    if update.rpc_ms is not None:
        values["rpc_ms" if update.op == _USUAL_OP else f"rpc_ms.{update.op}"] = update.rpc_ms
    if update.wall_ms is not None:
        values["wall_ms"] = update.wall_ms
    return values
