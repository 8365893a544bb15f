"""Two runs compared: what changed beyond chance, and what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .changes import FEWEST, MATERIAL
    from .comparing import compare
    from .model import (
        Comparison,
        Criterion,
        CriterionResult,
        FindingChange,
        FindingSide,
        MetricChange,
        Run,
        Shift,
        Side,
        load_criteria,
        run_of,
    )

__all__ = [
    "FEWEST",
    "MATERIAL",
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

__getattr__ = lazy_face(
    __name__,
    {
        "changes": "FEWEST,MATERIAL",
        "comparing": "compare",
        "model": "Comparison,Criterion,CriterionResult,FindingChange,FindingSide,MetricChange,Run,Shift,Side,load_criteria,run_of",
    },
)
