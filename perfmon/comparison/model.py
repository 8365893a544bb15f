"""The data of a comparison: its sides, criteria and results."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import perfmon.rules
from perfmon.core import Interval, Severity, Summary, Table, format_value, read_toml
from perfmon.diagnosis import Diagnosis, RuleSet, uncalibrated
from perfmon.rules import Bands, Signature, Track, View, bands_of, load_bands

# --- What a comparison holds. Shares are fractions of 1; values and their changes are in the metric's unit ---

MetricVerdict = Literal["better", "worse", "same"]
Kind = Literal["gone", "new", "still"]
Outcome = Literal["fixed", "improved", "unchanged", "regressed", "mixed", "cannot tell"]


@dataclass(frozen=True, slots=True)
class Side:
    """A metric in one run."""

    summary: Summary
    effective: float
    """Independent samples that would determine the mean as well."""
    band: str | None
    """Band of the p95 (p5 where low values are bad): good, warning or critical; None without limits."""
    bands_from: str = ""


@dataclass(frozen=True, slots=True)
class Shift:
    """Change of one statistic."""

    change: float
    ci95: Interval | None
    """None: too few independent samples."""

    @property
    def beyond_chance(self) -> bool:
        """True if the interval excludes 0."""
        return self.ci95 is not None and (self.ci95[0] > 0 or self.ci95[1] < 0)


@dataclass(frozen=True, slots=True)
class MetricChange:
    """A metric, or one group of it, in both runs."""

    name: str
    """`metric`, `metric.op` or `metric{group}`."""
    unit: str
    better: str
    """lower or higher; "" for a metric that has no good direction: it is shown, not judged."""
    before: Side | None
    after: Side | None
    shifts: Mapping[str, Shift]
    """By statistic (mean, p50, p95); empty where a run lacks the metric."""
    verdict: MetricVerdict | None
    """None: not judged."""
    why: str
    """The statistic that the verdict rests on, or the reason why there is none."""
    moved: bool = False
    """Changed beyond chance and by enough to matter, whether that is good or bad."""
    good_anyway: bool = False
    """In its good band before and after: the change counts neither for the run nor against it."""
    group: str = ""
    unsure: bool = False
    """Changed by enough to matter, but that may be chance: more samples would decide."""
    explains: bool = False
    """Another metric decides, and this one shows why that moved."""

    @property
    def counts(self) -> bool:
        """Counts for or against the run as a whole: groups are parts of what is counted already."""
        return not self.good_anyway and not self.group and not self.explains


@dataclass(frozen=True, slots=True)
class FindingSide:
    """All findings of a signature in one run."""

    severity: Severity
    count: int
    lost_s: float
    lost_share: float
    sentence: str
    explained_by: str | None = None
    """The signature of its cause, where all of them have one."""


@dataclass(frozen=True, slots=True)
class FindingChange:
    """A signature that was found in either run."""

    signature: str
    title: str
    kind: Kind
    before: FindingSide | None
    after: FindingSide | None
    proven: bool = True
    """The run that lacks it was observed often enough to have shown it."""
    looked: tuple[int, int] = (0, 0)
    """Number of observations in which it could show, before and after."""
    rare: bool = False
    """Found in so few of these observations that it may be chance that the other run has none."""
    spread: int = 0
    """1 where it costs little but shows in clearly more of these observations after than before, -1 in fewer."""

    @property
    def doubt(self) -> str:
        """Reason why it cannot be called gone or new; "" where it can."""
        before, after = self.looked
        if not self.proven:
            return f"its inputs were observed {before} times before and {after} after: too few"
        return f"{self.occurrences}, which may be chance" if self.rare else ""

    @property
    def occurrences(self) -> str:
        """Number of observations with it, before and after."""
        found = [0 if side is None else side.count for side in (self.before, self.after)]
        before, after = self.looked
        return f"found in {found[0]} of {before} before and in {found[1]} of {after} after"

    @property
    def severity(self) -> Severity:
        """The worse of both."""
        held = [side.severity for side in (self.before, self.after) if side is not None]
        return max(held, key=lambda severity: severity.rank)


@dataclass(frozen=True, slots=True)
class CriterionResult:
    """Result of a criterion."""

    name: str
    ok: bool | None
    """None: its metrics were not observed."""
    figures: str
    """The figures."""


@dataclass(frozen=True, slots=True)
class LostShare:
    """A cause's share of either run's time."""

    cause: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs side by side."""

    before: Diagnosis
    after: Diagnosis
    metrics: tuple[MetricChange, ...]
    findings: tuple[FindingChange, ...]
    lost: tuple[LostShare, ...]
    lost_change: Shift
    """Change of the share of time lost to any cause, as a fraction."""
    criteria: tuple[CriterionResult, ...]
    verdict: Outcome
    sentence: str
    notes: tuple[str, ...] = ()
    """Caveats."""


# --- What has to hold of the run after: data, like bands and signatures ---

BUILTIN = Path(perfmon.rules.__file__).parent / "criteria" / "default.toml"
STATISTICS = ("mean", "p50", "p90", "p95", "p99", "min", "max")
LEVELS = ("good", "warning", "critical")
_KINDS = ("below", "above", "band", "change")


@dataclass(frozen=True, slots=True)
class Criterion:
    """A requirement on a metric."""

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
        """Evaluate the criterion."""
        change = next((changes[name] for name in self.metrics if _observed(self, changes.get(name))), None)
        if change is None or change.after is None:
            runs = "both runs" if self.kind == "change" else "the run after"
            return CriterionResult(self.name, None, f"{' or '.join(self.metrics)} was not observed in {runs}")
        if self.kind == "change":
            return _not_worse(self.name, change)
        value = float(getattr(change.after.summary, self.statistic))
        figures = f"{change.name} {self.statistic} {format_value(value, change.unit)}"
        if self.kind == "band":
            level = bands.level(change.name, value)
            ok = None if level is None else level <= LEVELS.index(self.band)
            return CriterionResult(self.name, ok, f"{figures}: {'no thresholds' if level is None else LEVELS[level]}")
        return CriterionResult(self.name, value < self.limit if self.kind == "below" else value > self.limit, figures)


def _observed(criterion: Criterion, change: MetricChange | None) -> bool:
    if change is None or change.after is None:
        return False
    return criterion.kind != "change" or change.before is not None


def _not_worse(name: str, change: MetricChange) -> CriterionResult:
    assert change.before is not None  # noqa: S101 - observed on both sides
    assert change.after is not None  # noqa: S101
    means = (format_value(side.summary.mean, change.unit) for side in (change.before, change.after))
    figures = f"{change.name} mean {' → '.join(means)}"
    if change.verdict is None and not change.unsure:
        return CriterionResult(name, None, f"{figures}: {change.why}")
    good = ", good before and after" if change.good_anyway and change.verdict == "worse" else ""
    result = change.verdict or change.why
    return CriterionResult(name, change.verdict != "worse" or change.good_anyway, f"{figures}: {result}{good}")


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
        return Criterion(name, metrics, "band", statistic, band=_one_of(table, "band", LEVELS[:2]))
    if "below" in table.data:
        return Criterion(name, metrics, "below", statistic, table.required_number("below"))
    return Criterion(name, metrics, "above", statistic, table.required_number("above"))


def _one_of(table: Table, name: str, allowed: Iterable[str]) -> str:
    text, allowed = table.text(name), tuple(allowed)
    if text not in allowed:
        raise table.wrong(name, f"expected {' or '.join(allowed)}")
    return text


# --- What of a run is compared: its diagnosis, its samples in time order, and how often what rules look at was seen ---

GROUPS = 16
"""So many groups of a metric are compared one by one; with more, none."""


_OF_EACH = ("produced_per_s", "consumed_per_s")


@dataclass(frozen=True, slots=True)
class Run:
    """One side of a comparison."""

    snapshot: Diagnosis
    bands: Bands
    """With the limits that hold for this run."""
    samples: Mapping[str, Sequence[float]]
    """Values in time order, by `metric` or `metric{group}`."""
    seen: Mapping[str, int] = field(default_factory=dict)
    """Number of observations of each kind of span, metric, mark and progress."""
    looked_for_in: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Spans and metrics of which a signature needs one at least to show; () where silence is evidence too."""
    given: Bands | None = None
    """Limits that a person set. Learned ones are what is usual, and leave room for noise in which a change may hide."""
    by_means: bool = False
    """Samples are arbitrary parts of its time: of their distribution only the mean means something."""
    stages: Stages | None = None


@dataclass(frozen=True, slots=True)
class Stages:
    """A metric that decides which run is better, where both have it, and the metrics of its parts."""

    whole: str
    words: str
    """A name for the whole."""
    parts: Mapping[str, str]
    """The same of each part."""


def run_of(snapshot: Diagnosis, view: View, knowledge: RuleSet, by_group: Collection[str] = ()) -> Run:
    """Takes from a view what is needed of it: the rest may be forgotten.

    `by_group`: metrics of which the mean over all groups means nothing.
    """
    samples: dict[str, Sequence[float]] = {}
    for name, track in view.metrics.items():
        if name in by_group:
            samples |= _grouped(name, track, 1)
            continue
        # Of several producers or consumers each reports its own rate: the run has as many times their mean.
        times = len(track.streams) if name in _OF_EACH else 1
        samples[name] = array("d", [times * value for value in track.values] if times > 1 else track.values)
        if view.bands.direction(name):  # of what is judged somebody wants to know which engine it was
            samples |= _grouped(name, track)
    looked_for_in = {signature.id: _looked_for_in(signature) for signature in knowledge.signatures}
    given = bands_of(view.store, uncalibrated(view.bands, load_bands()))
    return Run(snapshot, view.bands, samples, _seen(view), looked_for_in, given)


def _looked_for_in(signature: Signature) -> tuple[str, ...]:
    """Marks are printed when something is wrong, and so are silences: that there are none is good news."""
    if any(subject.kind not in ("span", "metric") for subject in signature.subjects):
        return ()
    return tuple(subject.name for subject in signature.subjects)


def _grouped(name: str, track: Track, least: int = 2) -> dict[str, Sequence[float]]:
    """The samples of each group, where there are several: engines, servers, queues."""
    groups: dict[str, array[float]] = {}
    for at, value in enumerate(track.values):
        group = track.group(at)
        if group not in groups and len(groups) == GROUPS:
            return {}
        groups.setdefault(group, array("d")).append(value)
    return {f"{name}{{{group}}}": values for group, values in groups.items() if group} if len(groups) >= least else {}


def _seen(view: View) -> Counter[str]:
    seen = Counter({kind: len(view.spans(kind)) for kind in view.span_kinds})
    for tracks in (view.metrics, view.marks, view.steps):
        for name, track in tracks.items():
            seen[name] = max(seen[name], len(track))
    return seen
