"""What a format pack holds once its TOML file was read and checked.

A pack is one system's way of logging. Its patterns say which lines mean something, how their fields are read and
which observations (see `perfmon.model`) they give.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Style = Literal["regex", "kv", "commas", "json", "pydict", "dashes", "pipes"]
"""How the `body` group of a pattern is read: `regex` not at all (named groups are the fields), `kv` a=1 b=2,
`commas` a: 1, b: 2 (`=` too), `json` one object, `pydict` a dict repr, `dashes` a:1 - b:2, `pipes` a 1 | b: 2."""

EXTREMES = ("min", "max")
"""The fields of a table that its rows give."""

STYLES: tuple[Style, ...] = ("regex", "kv", "commas", "json", "pydict", "dashes", "pipes")


@dataclass(frozen=True, slots=True)
class Emit:
    """One observation that a matching line gives; `kind` says which of the other members count."""

    kind: Literal["metric", "leg", "span", "open", "close", "step", "mark", "row"]
    name: str
    """Metric, span kind, component of the step, mark, or the field with a row's number; for a leg the field that names
    the leg, or the leg itself: then the line counts only when it tells two of queue_ms, rpc_ms and wall_ms."""
    field: tuple[str, ...] = ()
    """Where the value stands; the first of these that the line has. For a step its number, for a mark the count."""
    unit: str = ""
    """Unit of the field as printed: us, ms, s, m, h, ratio, %, `duration` (1m 13s), or "" when it is the metric's."""
    scale: float = 1.0
    over: tuple[str, ...] = ()
    """The metric is 100 * field / over, a percentage."""
    minus: tuple[str, ...] = ()
    """Fields taken off a metric's value or a span's duration, those that the line has; never below zero."""
    skip_zero: bool = False
    """A zero says that it did not happen (no checkpoint in this step), not that it was quick."""
    group: str = ""
    """Field that tells series of one metric apart (an engine, a rank); `host:name` joins two fields by `:`."""
    duration: tuple[str, ...] = ()
    lead: tuple[str, ...] = ()
    """Field with the time from the span's start to the line; the duration itself when empty."""
    key: tuple[str, ...] = ()
    """Fields that pair an `open` with its `close` and name a span, joined by `/`; for a leg the trace's field, none
    when each line is an update of its own."""
    metric: str = ""
    """Metric that the paired duration of an open/close, or the duration of a span, is a sample of."""
    keep: tuple[str, ...] = ()
    """Fields kept with a span."""
    when: tuple[str, str] | None = None
    """(field, text): only for lines whose field has exactly this text."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A line (or several) that must be recognised, and what it must give."""

    text: str
    gives: Mapping[str, float]
    """Metric name to value, in the metric's unit."""
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Header:
    """How the records of a system begin: the regex has `{time}` where the stamp stands."""

    id: str
    regex: str
    time: str
    """strptime-like: %Y %m %d %H %M %S %b %f (fraction, optional) %p (AM or PM, optional)
    %z (offset or Z, optional) %s (since 1970: seconds, or whole milli-, micro- or nanoseconds)."""
    samples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of line."""

    pack: str
    id: str
    needles: tuple[str, ...]
    """Literal text, one of which every such line holds; at least 4 bytes each."""
    regex: str
    style: Style
    emit: tuple[Emit, ...]
    samples: tuple[Sample, ...] = ()
    rejects: tuple[str, ...] = ()
    clock: tuple[str, ...] = ()
    """Fields, the first of which is the line's own clock: epoch seconds (`time` in metrics.jsonl) or an ISO time."""
    mono: str = ""
    """Field with monotonic seconds (`t=`)."""
    rows: bool = False
    """The line heads a table, of which each row has a line, told by a pattern that emits a `row`: the fields `min` and
    `max` are the least and the greatest of them, and nothing is told before the last of them."""

    @property
    def name(self) -> str:
        """`pack/pattern`, as reports show it."""
        return f"{self.pack}/{self.id}"


@dataclass(frozen=True, slots=True)
class Pack:
    """One system's formats."""

    id: str
    title: str
    component: str
    """orchestrator, inference, trainer, data, or "" when the pack does not tell."""
    rank: int
    """Packs are asked in this order; the generic one comes last."""
    idle_silence: bool
    """Silence of such a source is normal when there is no work (vLLM)."""
    generic: bool
    """A catch-all: it comes last and reads the lines that no other pack recognised."""
    headers: tuple[Header, ...]
    patterns: tuple[Pattern, ...]
    file: str = ""
    healthy: tuple[str, ...] = ()
    """Lines of a healthy run of this system: a fixture in which nothing may be found."""
