"""What has to hold of the run after: data, like bands and signatures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import perfmon.rules
from perfmon.datafile import Table, read_toml
from perfmon.rules.bands import Bands
from perfmon.units import format_value

from .values import CriterionResult, MetricChange

BUILTIN = Path(perfmon.rules.__file__).parent / "criteria" / "default.toml"
STATISTICS = ("mean", "p50", "p90", "p95", "p99", "min", "max")
_LEVELS = ("good", "warning", "critical")
_KINDS = ("below", "above", "band", "change")


@dataclass(frozen=True, slots=True)
class Criterion:
    """Something that is asked for of a metric."""

    name: str
    metrics: tuple[str, ...]
    """The first one that was observed is looked at."""
    kind: Literal["below", "above", "band", "change"]
    statistic: str = "mean"
    limit: float = 0.0
    """Of `below` and `above`, in the metric's unit."""
    band: str = ""
    """Of `band`: the worst that is allowed."""

    def judge(self, changes: Mapping[str, MetricChange], bands: Bands) -> CriterionResult:
        """Whether it holds."""
        change = next((changes[name] for name in self.metrics if _observed(self, changes.get(name))), None)
        if change is None or change.after is None:
            runs = "both runs" if self.kind == "change" else "the run after"
            return CriterionResult(self.name, None, f"{' or '.join(self.metrics)} was not observed in {runs}")
        if self.kind == "change":
            return _not_worse(self.name, change)
        value = float(getattr(change.after.summary, self.statistic))
        told = f"{change.name} {self.statistic} {format_value(value, change.unit)}"
        if self.kind == "band":
            level = bands.level(change.name, value)
            ok = None if level is None else level <= _LEVELS.index(self.band)
            return CriterionResult(self.name, ok, f"{told}: {'no thresholds' if level is None else _LEVELS[level]}")
        return CriterionResult(self.name, value < self.limit if self.kind == "below" else value > self.limit, told)


def _observed(criterion: Criterion, change: MetricChange | None) -> bool:
    if change is None or change.after is None:
        return False
    return criterion.kind != "change" or change.before is not None


def _not_worse(name: str, change: MetricChange) -> CriterionResult:
    assert change.before is not None  # noqa: S101 - observed on both sides
    assert change.after is not None  # noqa: S101
    means = (format_value(side.summary.mean, change.unit) for side in (change.before, change.after))
    told = f"{change.name} mean {' → '.join(means)}"
    if change.verdict is None and not change.unsure:
        return CriterionResult(name, None, f"{told}: {change.why}")
    good = ", good before and after" if change.good_anyway and change.verdict == "worse" else ""
    said = change.verdict or change.why
    return CriterionResult(name, change.verdict != "worse" or change.good_anyway, f"{told}: {said}{good}")


def load_criteria(file: Path | None = None) -> tuple[Criterion, ...]:
    """The criteria of a file, or the built-in ones; DataFileError names file, key and what was expected."""
    root = read_toml(file or BUILTIN)
    root.only(("schema", "criterion"))
    if root.data.get("schema") != 1:
        raise root.wrong("schema", "expected 1")
    return tuple(_criterion(table) for table in root.tables("criterion"))


def _criterion(table: Table) -> Criterion:
    table.only(("name", "metric", "statistic", *_KINDS))
    name, metrics, statistic = table.text("name"), table.texts("metric", required=True), table.text("statistic", "mean")
    if statistic not in STATISTICS:
        raise table.wrong("statistic", f"expected one of {', '.join(STATISTICS)}")
    if sum(kind in table.data for kind in _KINDS) != 1:
        raise table.wrong(_KINDS[0], f"expected exactly one of {', '.join(_KINDS)}")
    if "change" in table.data:
        _one_of(table, "change", ("not worse",))
        return Criterion(name, metrics, "change")
    if "band" in table.data:
        return Criterion(name, metrics, "band", statistic, band=_one_of(table, "band", _LEVELS[:2]))
    if "below" in table.data:
        return Criterion(name, metrics, "below", statistic, table.required_number("below"))
    return Criterion(name, metrics, "above", statistic, table.required_number("above"))


def _one_of(table: Table, name: str, allowed: Iterable[str]) -> str:
    text, allowed = table.text(name), tuple(allowed)
    if text not in allowed:
        raise table.wrong(name, f"expected {' or '.join(allowed)}")
    return text
