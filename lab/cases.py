"""The runs of the matrix: every fault, two at once, and a healthy run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .faults import FAULTS, HEALTHY
from .plan import Plan

BEGINS_S = 20.0
"""Enough of a healthy run to tell what is usual in it."""
RHYTHM_S = 50.0
"""And enough to tell a silence from a pause."""
SEED = 7


@dataclass(frozen=True, slots=True)
class Case:
    """One run of the matrix."""

    name: str
    faults: tuple[str, ...]
    seconds: float = 75.0
    begins_s: float = BEGINS_S

    @property
    def expected(self) -> tuple[str, ...]:
        """What may be the verdict: of two faults the costlier one."""
        return tuple(name for fault in self.faults if (name := FAULTS[fault].signature) is not None)

    @property
    def named(self) -> tuple[str, ...]:
        """What must be found."""
        return (*self.expected, *(name for fault in self.faults for name in FAULTS[fault].also))

    @property
    def entries(self) -> tuple[str, ...]:
        """Entries of the ledger that hold what the faults cost beside their signatures."""
        return tuple(name for fault in self.faults for name in FAULTS[fault].entries)

    @property
    def over(self) -> bool:
        """Nothing is wrong any more at its end."""
        return any(FAULTS[fault].over for fault in self.faults)

    def plan(self, out: str, seed: int = SEED) -> Plan:
        """How it is run."""
        return Plan(out=out, seed=seed, seconds=self.seconds, faults=self.faults, begins_s=self.begins_s)


def _case(*faults: str, seconds: float = 75.0, begins_s: float = BEGINS_S) -> Case:
    return Case("+".join(faults), faults, seconds, begins_s)


_APART = ("stall", "hung-trainer", "dead-trainer", "gpu-memory", "slow-reward", "restart", "request-cap", "memory-leak")
"""Faults whose runs take longer, or less long, than others."""
PIPELINE_BEGINS_S = 40.0
"""A pipeline has worked for half a minute by then."""
_PIPELINE_S = 100.0
"""A full queue, and the buffers on the way to it, have to be used up before anything is missed."""
RAY_S = 15.0
"""A Ray cluster takes its time to start."""

CASES: tuple[Case, ...] = (
    Case(HEALTHY, (), 75.0),
    *(_case(name) for name in FAULTS if name not in (HEALTHY, *_APART) and not FAULTS[name].pipeline),
    _case("stall", seconds=RHYTHM_S + 100.0, begins_s=RHYTHM_S),
    _case("hung-trainer", seconds=80.0),
    _case("dead-trainer", seconds=45.0),
    _case("gpu-memory", seconds=45.0),
    _case("slow-reward", seconds=90.0),
    _case("restart", seconds=90.0, begins_s=28.0),
    _case("request-cap", seconds=110.0, begins_s=0.0),
    _case("memory-leak", seconds=350.0),
    _case("shared-pool", "slow-disk"),
    _case("slow-load", "slow-disk"),
    _case("shared-pool", "truncation"),
    _case("noisy", "slow-load"),
    _case("clock-offset", "shared-pool"),
    *(
        _case(name, seconds=_PIPELINE_S, begins_s=PIPELINE_BEGINS_S)
        for name in FAULTS
        if FAULTS[name].pipeline and name != "ray-queue"
    ),
    *(
        _case("ray-queue", *others, seconds=_PIPELINE_S + RAY_S, begins_s=PIPELINE_BEGINS_S + RAY_S)
        for others in ((), ("slow-producer",), ("slow-serialise",), ("slow-consumer",))
    ),
)


def truly_lost(truth: Mapping[str, Any]) -> float:
    """Seconds that all faults of a run cost together."""
    return float(truth["lost_s"])
