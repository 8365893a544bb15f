"""From a store to a diagnosis: findings, time attribution, evidence, baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .assessment import RuleSet, diagnose, judge, view_of
    from .baseline import FEWEST, LEAST_S, Baseline, Calibration, as_toml, learn, tightest, uncalibrated
    from .result import (
        SCHEMA,
        Assessment,
        ClockOffset,
        ConditionState,
        Diagnosis,
        EvidenceLine,
        Finding,
        Goal,
        HypothesisState,
        LedgerEntry,
        MetricStats,
        Moment,
        RunInfo,
        SourceSummary,
        TimelineRow,
        Verdict,
        goodput_of,
    )
    from .summary import Part, parts
    from .wording import verdict_of

__getattr__ = lazy_face(__name__)
