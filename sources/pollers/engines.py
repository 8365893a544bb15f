"""How servers tell of their engines on a page of metrics: which metric is which value, by version and system.

One TOML file each, beside this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path

from perfmon.datafile import Table, read_toml

_HERE = Path(__file__).parent


class Sort(StrEnum):
    """What becomes of a metric."""

    SUM = "sum"
    """A gauge; where an engine has several they are added up."""
    MAX = "max"
    """A gauge; the greatest of several."""
    PER_S = "per_s"
    """A counter, told as what it grows by in a second."""
    GREW = "grew"
    """A counter, told as what it grew by since the last poll, and by the minute as `NAME_per_min`."""
    QUANTILES = "quantiles"
    """A histogram of seconds, told as `NAME_p50_s` and `NAME_p95_s` of the last half minute."""


GAUGES = (Sort.SUM, Sort.MAX)
COUNTERS = (Sort.PER_S, Sort.GREW)


@dataclass(frozen=True, slots=True)
class Told:
    """One value of an engine, and the metrics that tell it: the first that the page has, for names change."""

    value: str
    sort: Sort
    names: tuple[str, ...]
    scale: float = 1.0
    labels: Mapping[str, Set[str]] = field(default_factory=dict)
    """Of a gauge only samples count whose labels have one of these values."""

    @property
    def on_page(self) -> tuple[str, ...]:
        """The names as the lines of a page begin."""
        return tuple(f"{name}_bucket" for name in self.names) if self.sort is Sort.QUANTILES else self.names


@dataclass(frozen=True, slots=True)
class Share:
    """A percentage: what one counter grew by since the last poll, of what another one did."""

    value: str
    part: tuple[str, ...]
    whole: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    """Only samples with these labels are the part."""
    least: float = 1.0
    """Of the whole: of less a share says nothing."""


@dataclass(frozen=True)
class Dialect:
    """How one kind of server tells of its engines."""

    kind: str
    title: str
    told: tuple[Told, ...]
    shares: tuple[Share, ...] = ()
    only: Mapping[str, str] = field(default_factory=dict)
    """Samples that have these labels count only with these values: ranks of an engine that tell the same again."""

    @cached_property
    def names(self) -> frozenset[str]:
        """All names that are looked for on a page."""
        return frozenset(name for told in self.told for name in told.on_page) | self.counters

    @cached_property
    def counters(self) -> frozenset[str]:
        """Those that are counters."""
        told = {name for told in self.told if told.sort in COUNTERS for name in told.names}
        return frozenset(told.union(*[(*share.part, *share.whole) for share in self.shares]))


@cache
def load_dialect(kind: str) -> Dialect:
    """The dialect in `KIND.toml`. Raises DataFileError."""
    table = read_toml(_HERE / f"{kind}.toml")
    table.only(("schema", "kind", "title", "prefixes", "only", "value", "share"))
    prefixes = table.texts("prefixes", required=True)
    values = tuple(_value(row, prefixes) for row in table.tables("value"))
    shares = tuple(_share(row, prefixes) for row in table.tables("share"))
    return Dialect(table.word("kind"), table.line("title"), values, shares, _labels(table, "only"))


def _value(row: Table, prefixes: Sequence[str]) -> Told:
    row.only(("name", "sort", "metrics", "scale", "labels"))
    try:
        sort = Sort(row.text("sort"))
    except ValueError:
        raise row.wrong("sort", f"expected one of {', '.join(Sort)}") from None
    labels = row.table("labels", row.data.get("labels", {}))
    wanted = {name: frozenset(labels.texts(name, required=True)) for name in labels.data}
    return Told(row.word("name"), sort, _names(row, "metrics", prefixes), row.number("scale", 1.0), wanted)


def _share(row: Table, prefixes: Sequence[str]) -> Share:
    row.only(("name", "part", "part_labels", "whole", "least"))
    part, whole = _names(row, "part", prefixes), _names(row, "whole", prefixes)
    return Share(row.word("name"), part, whole, _labels(row, "part_labels"), row.amount("least", 1.0))


def _names(row: Table, key: str, prefixes: Sequence[str]) -> tuple[str, ...]:
    """All names of a metric: those with the first prefix come first."""
    metrics = row.texts(key, required=True)
    return tuple(f"{prefix}{metric}" for prefix in prefixes for metric in metrics)


def _labels(table: Table, key: str) -> dict[str, str]:
    labels = table.table(key, table.data.get(key, {}))
    return {name: labels.text(name) for name in labels.data}
