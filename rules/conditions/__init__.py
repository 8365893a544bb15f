"""Kinds of conditions, one module each; `REGISTRY` maps the `type` of a TOML table to its class."""

from __future__ import annotations

from .absence import Missed
from .advances import Advances
from .aggregate import Aggregate
from .alternatives import AnyOf
from .base import Condition, Level
from .baseline import Baseline
from .coincides import Coincides
from .outweighs import Outweighs
from .ratio import Ratio
from .ready import WasReady
from .threshold import Threshold
from .together import AllOf

REGISTRY: dict[str, type[Condition]] = {
    "threshold": Threshold,
    "aggregate": Aggregate,
    "ratio": Ratio,
    "coincides": Coincides,
    "baseline": Baseline,
    "missed": Missed,
    "outweighs": Outweighs,
    "any": AnyOf,
    "all": AllOf,
    "ready": WasReady,
    "advances": Advances,
}

__all__ = ["REGISTRY", "Condition", "Level"]
