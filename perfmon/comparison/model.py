"""What a comparison holds. Shares are fractions of 1; values and their changes are in the metric's unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from perfmon.model import Severity
from perfmon.resampling import Interval
from perfmon.snapshot import Snapshot
from perfmon.stats import Summary

Said = Literal["better", "worse", "same"]
Kind = Literal["gone", "new", "still"]
Outcome = Literal["fixed", "improved", "unchanged", "regressed", "mixed", "cannot tell"]


@dataclass(frozen=True, slots=True)
class Side:
    """A metric in one run."""

    summary: Summary
    effective: float
    """Independent samples that would tell as much about the mean."""
    band: str | None
    """Band of the p95 (p5 where low values are bad): good, warning or critical; None without limits."""
    bands_from: str = ""


@dataclass(frozen=True, slots=True)
class Shift:
    """How far one statistic moved."""

    change: float
    ci95: Interval | None
    """None: too few independent samples to tell."""


@dataclass(frozen=True, slots=True)
class MetricChange:
    """A metric, or one group of it, in both runs."""

    name: str
    """`metric`, `metric.op` or `metric{group}`."""
    unit: str
    better: str
    """lower or higher; "" for a metric that has no good direction: it is told, not judged."""
    before: Side | None
    after: Side | None
    shifts: Mapping[str, Shift]
    """By statistic (mean, p50, p95); empty where a run lacks the metric."""
    verdict: Said | None
    """None: not judged."""
    why: str
    """What the verdict rests on, or why there is none."""
    moved: bool = False
    """Changed beyond chance and by enough to matter, whether that is good or bad."""
    good_anyway: bool = False
    """In its good band before and after: the change counts neither for the run nor against it."""
    group: str = ""
    unsure: bool = False
    """Changed by enough to matter, but that may be chance: more samples would tell."""

    @property
    def counts(self) -> bool:
        """Speaks for or against the run as a whole: groups are parts of what is counted already."""
        return not self.good_anyway and not self.group


@dataclass(frozen=True, slots=True)
class FindingSide:
    """All findings of a signature in one run."""

    severity: Severity
    count: int
    lost_s: float
    lost_share: float
    sentence: str


@dataclass(frozen=True, slots=True)
class FindingChange:
    """A signature that was found in either run."""

    signature: str
    title: str
    kind: Kind
    before: FindingSide | None
    after: FindingSide | None
    proven: bool = True
    """What it is looked for in was observed in the run that lacks it, often enough to have shown it."""
    looked: tuple[int, int] = (0, 0)
    """How often that was observed, before and after."""
    rare: bool = False
    """Found in so few of these observations that it may be chance that the other run has none."""
    spread: int = 0
    """1 where it costs little but shows in clearly more of these observations after than before, -1 in fewer."""

    @property
    def doubt(self) -> str:
        """Why it cannot be called gone or new; "" where it can."""
        before, after = self.looked
        if not self.proven:
            return f"its inputs were observed {before} times before and {after} after: too few"
        return f"{self.told}, which may be chance" if self.rare else ""

    @property
    def told(self) -> str:
        """In how many of what was observed it was found."""
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
    """Whether something that was asked for holds."""

    name: str
    ok: bool | None
    """None: what it looks at was not observed."""
    told: str
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

    before: Snapshot
    after: Snapshot
    metrics: tuple[MetricChange, ...]
    findings: tuple[FindingChange, ...]
    lost: tuple[LostShare, ...]
    lost_change: Shift
    """How the share of time that was lost to any cause moved, as a fraction."""
    criteria: tuple[CriterionResult, ...]
    verdict: Outcome
    sentence: str
    notes: tuple[str, ...] = ()
    """What to read it with."""
