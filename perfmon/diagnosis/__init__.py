"""From a store to a diagnosis: findings, time attribution, evidence, baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .assessment import RuleSet, diagnose, judge, view_of
    from .baseline import FEWEST, LEAST_S, Baseline, Calibration, as_toml, learn, tightest, uncalibrated
    from .evidence import Part, parts
    from .goodput import ALIASES, goodput_of
    from .result import (
        SCHEMA,
        Assessment,
        ClockOffset,
        ConditionState,
        Diagnosis,
        EvidenceLine,
        Finding,
        Goal,
        LedgerEntry,
        MetricStats,
        Moment,
        RunInfo,
        SourceSummary,
        TimelineRow,
        Verdict,
    )
    from .wording import verdict_of

__getattr__ = lazy_face(
    __name__,
    {
        "assessment": "RuleSet,diagnose,judge,view_of",
        "baseline": "Baseline,Calibration,FEWEST,LEAST_S,as_toml,learn,tightest,uncalibrated",
        "evidence": "Part,parts",
        "goodput": "ALIASES,goodput_of",
        "result": (
            "Assessment,ClockOffset,ConditionState,EvidenceLine,Finding,Goal,LedgerEntry,MetricStats,Moment,"
            "RunInfo,SCHEMA,Diagnosis,SourceSummary,TimelineRow,Verdict"
        ),
        "wording": "verdict_of",
    },
)
