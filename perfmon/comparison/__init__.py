"""Two runs side by side: what changed beyond chance, what it means, and one verdict."""

from __future__ import annotations

from .criteria import Criterion, load_criteria
from .runs import Run, run_of
from .values import Comparison, CriterionResult, FindingChange, FindingSide, MetricChange, Shift, Side
from .whole import compare

__all__ = [
    "Comparison",
    "Criterion",
    "CriterionResult",
    "FindingChange",
    "FindingSide",
    "MetricChange",
    "Run",
    "Shift",
    "Side",
    "compare",
    "load_criteria",
    "run_of",
]
