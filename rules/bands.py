"""Bands: the limits of good, warning and critical values of a metric, and their origin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, nextafter
from pathlib import Path

from perfmon.core import Table, read_toml

BUILTIN = Path(__file__).parent / "bands"
DEFAULT_ASYNC_LEVEL = 2.0
LOWER, HIGHER = "lower", "higher"
_KEYS = (
    "good", "critical", "higher_is_worse", "good_is_inclusive", "relative_to", "note", "origin", "unless",
    "plausible_from", "judged_by", "only_with",
)  # fmt: skip
_NO_VALUE = (inf, -inf)
CALIBRATED, LEARNED = "calibrated from", "learned from"
"""Prefixes of the origins of limits from a healthy run, and from the healthy start of the run itself."""


@dataclass(frozen=True, slots=True)
class Band:
    """Limits of one metric, in its unit; a value at a limit is a warning."""

    metric: str
    good: float
    critical: float
    higher_is_worse: bool = True
    good_is_inclusive: bool = False
    """The good limit itself is still good (`staleness <= async_level`)."""
    relative_to: str = ""
    """`async_level`: the limits are added to it."""
    origin: str = ""
    unless: tuple[str, ...] = ()
    """Spans, metrics and marks: these limits do not apply to a run with one of them."""
    plausible_from: float = 0.0
    """If set, the limits apply to runs in which some value is at least this: else the whole is never used."""
    judged_by: tuple[str, ...] = ()
    """Metrics that show better whether a critical value is a fault: in a run with one of them it is none by itself."""
    only_with: tuple[str, ...] = ()
    """Spans, metrics and marks: these limits apply only to a run with one of them."""

    @property
    def names(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The keys that hold names of spans, metrics and marks, with these."""
        return ("unless", self.unless), ("judged_by", self.judged_by), ("only_with", self.only_with)

    def level(self, value: float) -> int:
        """0 good, 1 warning, 2 critical."""
        good, critical = self.good, self.critical
        if not self.higher_is_worse:
            value, good, critical = -value, -good, -critical
        if value > critical:
            return 2
        return 0 if value < good or (self.good_is_inclusive and value == good) else 1

    @property
    def good_values(self) -> tuple[float, float]:
        """The least and the largest value of level 0."""
        if self.higher_is_worse:
            return -inf, self.good if self.good_is_inclusive else nextafter(self.good, -inf)
        return self.good if self.good_is_inclusive else nextafter(self.good, inf), inf

    def levels(self, values: Iterable[float]) -> bytes:
        """Of each value one more than its level, and 0 for NaN."""
        good, critical = self.good, self.critical
        if self.higher_is_worse:
            good = nextafter(good, inf) if self.good_is_inclusive else good
            return bytes([3 if v > critical else 1 if v < good else 2 if v >= good else 0 for v in values])
        good = nextafter(good, -inf) if self.good_is_inclusive else good
        return bytes([3 if v < critical else 1 if v > good else 2 if v <= good else 0 for v in values])


@dataclass(frozen=True, slots=True)
class Bands:
    """The limits of all metrics that have any."""

    table: Mapping[str, Band]
    better: Mapping[str, str] = field(default_factory=dict)
    """LOWER or HIGHER, for metrics that have no limits but a good direction."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The user's file that defines a metric, where one does."""
    loads: frozenset[str] = frozenset()
    """Metrics of how loaded hosts and links are: they explain what a run does, and less of them is no better run."""

    def direction(self, metric: str) -> str:
        """LOWER or HIGHER: the better values of a metric; "" where neither is.

        A metric's `.op` and `{group}` have the direction of the metric itself.
        """
        base = metric.partition("{")[0]
        for name in (base, base.partition(".")[0]):
            band = self.table.get(name)
            if band is not None:
                return LOWER if band.higher_is_worse else HIGHER
            if name in self.better:
                return self.better[name]
        return ""

    def get(self, metric: str) -> Band | None:
        """The band of a metric."""
        return self.table.get(metric)

    def level(self, metric: str, value: float) -> int | None:
        """0 good, 1 warning, 2 critical; None for a metric without a band."""
        band = self.table.get(metric)
        return None if band is None else band.level(value)

    def holding(self, has_any: Callable[[Sequence[str]], bool], largest: Callable[[str], float]) -> Bands:
        """Those that apply to a run, of which `has_any` finds names, and `largest` the largest value of a metric.

        The others keep their direction.
        """
        gone = {
            metric
            for metric, band in self.table.items()
            if (band.unless and has_any(band.unless))
            or (band.only_with and not has_any(band.only_with))
            or (band.plausible_from and largest(metric) < band.plausible_from)
        }
        if not gone:
            return self
        held = {metric: band for metric, band in self.table.items() if metric not in gone}
        better = {**self.better, **{metric: self.direction(metric) for metric in gone}}
        return replace(self, table=held, better=better)

    def with_async_level(self, level: float) -> Bands:
        """Bands whose relative limits are worked out for this async level."""
        return replace(
            self,
            table={
                metric: replace(band, good=band.good + level, critical=band.critical + level, relative_to="")
                if band.relative_to == "async_level"
                else band
                for metric, band in self.table.items()
            },
        )

    def remarkable(self) -> Callable[[str, float], bool]:
        """A function of metric and value that is true outside of the good band: such lines are kept as evidence.

        Values of metrics without a band are not kept; relative bands keep everything, their level is not known yet.
        """
        good = {metric: band.good_values for metric, band in self.table.items() if not band.relative_to}
        table = self.table

        def keep(metric: str, value: float) -> bool:
            if metric not in table:
                return value >= 0.5 and metric.startswith("span:")
            low, high = good.get(metric, _NO_VALUE)
            return not low <= value <= high

        return keep


def load_bands(files: Iterable[Path] = ()) -> Bands:
    """The built-in bands, overridden by those of user files; DataFileError names file, key and what was expected."""
    table: dict[str, Band] = {}
    better: dict[str, str] = {}
    places: dict[str, str] = {}
    loads: set[str] = set()
    builtin = sorted(BUILTIN.glob("*.toml"))
    for path in [*builtin, *files]:
        root = read_toml(path)
        root.only(("schema", "origin", "band", "better", "loads"))
        if root.data.get("schema") != 1:
            raise root.wrong("schema", "expected 1")
        limits, sides = _bands(root, root.text("origin", str(path))), _better(root)
        table.update(limits)
        loads.update({*limits, *sides} if root.flag("loads") else ())
        better.update(sides)
        if path not in builtin:
            places.update(dict.fromkeys(sides, f"{path}: better"))
            places.update({name: f"{path}: band.{name}" for name in limits})
    return Bands(table, better, places, frozenset(loads))


def _better(root: Table) -> dict[str, str]:
    if "better" not in root.data:
        return {}
    table = root.table("better", root.data["better"])
    table.only((LOWER, HIGHER))
    return {metric: side for side in table.data for metric in table.texts(side)}


def _bands(root: Table, origin: str) -> dict[str, Band]:
    bands: dict[str, Band] = {}
    entries = root.data.get("band", {})
    if not isinstance(entries, dict):
        raise root.wrong("band", "expected tables ([band.METRIC])")
    for metric in entries:
        table = root.table(f"band.{metric}", entries[metric])
        table.only(_KEYS)
        higher = table.flag("higher_is_worse", True)
        good, critical = table.required_number("good"), table.required_number("critical")
        if (good > critical) if higher else (good < critical):
            raise table.wrong("critical", f"expected a threshold {'above' if higher else 'below'} good")
        relative = table.text("relative_to", "")
        if relative not in ("", "async_level"):
            raise table.wrong("relative_to", "expected async_level")
        source, unless, only_with = table.text("origin", origin), table.texts("unless"), table.texts("only_with")
        for key, names in (("unless", unless), ("only_with", only_with)):
            if not all(names):
                raise table.wrong(key, "expected names of spans, metrics or marks")
        inclusive = table.flag("good_is_inclusive")
        plausible = table.amount("plausible_from", 0.0)
        judged_by = table.texts("judged_by")
        bands[metric] = Band(
            metric, good, critical, higher, inclusive, relative, source, unless, plausible, judged_by, only_with
        )
    return bands
