"""Two runs compared: what changed beyond chance, and what it means."""

from __future__ import annotations

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
    Stages,
    load_criteria,
    run_of,
)
