"""Kinds of conditions, one module each; `REGISTRY` maps the `type` of a TOML table to its class."""

from __future__ import annotations

from .absence import Missed
from .advances import Advances
from .aggregate import Aggregate
from .alternatives import AnyOf
from .base import Condition, Level
from .baseline import Baseline
from .coincides import Coincides
from .drift import Drift
from .fits import Fits
from .grows import Grows
from .jump import Jump
from .last_word import LastWord
from .lasts import Lasts
from .nonfinite import NonFinite
from .outweighs import Outweighs
from .overlong import Overlong
from .peers import Peers
from .periodic import Periodic
from .prevails import Prevails
from .ratio import Ratio
from .ready import WasReady
from .takes import Takes
from .tells import Tells
from .threshold import Threshold
from .together import AllOf
from .trickle import Trickle
from .unchanged import Unchanged

REGISTRY: dict[str, type[Condition]] = {
    "threshold": Threshold,
    "aggregate": Aggregate,
    "ratio": Ratio,
    "coincides": Coincides,
    "baseline": Baseline,
    "missed": Missed,
    "last-word": LastWord,
    "outweighs": Outweighs,
    "any": AnyOf,
    "all": AllOf,
    "ready": WasReady,
    "advances": Advances,
    "unchanged": Unchanged,
    "lasts": Lasts,
    "tells": Tells,
    "trickle": Trickle,
    "peers": Peers,
    "nonfinite": NonFinite,
    "jump": Jump,
    "drift": Drift,
    "periodic": Periodic,
    "prevails": Prevails,
    "grows": Grows,
    "overlong": Overlong,
    "fits": Fits,
    "takes": Takes,
}

__all__ = ["REGISTRY", "Condition", "Level"]
