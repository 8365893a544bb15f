"""Built-in runs side by side: fixed ones are fixed, broken ones regress, and two healthy ones differ in nothing."""

from __future__ import annotations

from functools import cache

import pytest

from perfmon.comparison.comparing import compare
from perfmon.comparison.model import Comparison, Run, load_criteria, run_of
from perfmon.core.config import FIGURES, Config
from perfmon.core.model import Block
from perfmon.demo.scenarios import FIXED, SCENARIOS
from perfmon.demo.simulation import Simulation
from perfmon.pipeline.session import Session

pytestmark = pytest.mark.slow

FAULTY = sorted(set(SCENARIOS) - {"healthy"})


@cache
def observed(scenario: str, seed: int = 0, fixed: bool = False, minutes: float = 10) -> Run:
    """A run as it is compared."""
    simulation = Simulation((FIXED if fixed else SCENARIOS)[scenario], seed, 60 * minutes)
    simulation.run()
    session = Session(Config())
    for name, text in simulation.journal.texts().items():
        state = session.add_source(name)
        state.ended = True
        session.feed(state, Block(text.encode(), 0, 1))
    return run_of(*session.examined(detail=FIGURES), session.knowledge)


def compared(before: Run, after: Run) -> Comparison:
    """By the built-in criteria."""
    return compare(before, after, load_criteria())


@pytest.mark.parametrize("scenario", FIXED)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_fixed_run_is_fixed_and_nothing_else_has_changed(scenario: str, seed: int) -> None:
    comparison = compared(observed(scenario), observed(scenario, seed, fixed=True))
    assert (comparison.verdict, [change.kind for change in comparison.findings]) == ("fixed", ["gone"])
    assert {change.name for change in comparison.metrics if change.verdict == "better"} == {"queue_ms", "wall_ms"}
    assert not [change.name for change in comparison.metrics if change.verdict == "worse"]
    assert {result.ok for result in comparison.criteria} == {True}


@pytest.mark.parametrize("scenario", FAULTY)
def test_a_run_that_breaks_regresses_and_says_by_what(scenario: str) -> None:
    comparison = compared(observed("healthy"), observed(scenario))
    assert comparison.verdict in ("regressed", "mixed")
    assert scenario in {change.signature for change in comparison.findings if change.kind == "new"}


@pytest.mark.parametrize("scenario", FAULTY)
def test_a_broken_run_is_unchanged_against_itself_and_its_like(scenario: str) -> None:
    assert compared(observed(scenario), observed(scenario)).verdict == "unchanged"


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)])
def test_two_healthy_runs_differ_in_nothing(before: int, after: int) -> None:
    comparison = compared(observed("healthy", before), observed("healthy", after))
    assert comparison.verdict == "unchanged"
    assert False not in {result.ok for result in comparison.criteria}


def _engines(usage: tuple[float, float]) -> Run:
    """Two engines, each with its own KV cache."""
    lines = [
        f"INFO 08-21 10:{at // 6:02d}:{at % 6}0 [loggers.py:123] Engine {engine:03d}: "
        "Avg prompt throughput: 80.0 tokens/s, "
        f"Avg generation throughput: 900.0 tokens/s, Running: 30 reqs, Waiting: 0 reqs, "
        f"GPU KV cache usage: {usage[engine] + at % 5:.1f}%, Prefix cache hit rate: 41.0%"
        for at in range(120)
        for engine in (0, 1)
    ]
    session = Session(Config())
    session.feed(session.add_source("inference.log"), Block("\n".join([*lines, ""]).encode(), 0, 1))
    return run_of(*session.examined(detail=FIGURES), session.knowledge)


def test_an_engine_of_its_own_kind_has_a_row_of_its_own_and_is_not_counted_twice() -> None:
    comparison = compared(_engines((50.0, 50.0)), _engines((50.0, 76.0)))
    usage = {change.name: change for change in comparison.metrics if change.name.startswith("kv_usage")}
    (same,) = [change for change in usage.values() if change.group.endswith(("0", "000"))]
    (worse,) = [change for change in usage.values() if change.group.endswith("1")]
    assert len(usage) == 3
    assert (same.verdict, worse.verdict, worse.counts) == ("same", "worse", False)
    assert worse.shifts["mean"].change == pytest.approx(26.0)
