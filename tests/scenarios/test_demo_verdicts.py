"""Every built-in run gets the verdict that it is named for, and what it lost is what the simulation knows it lost."""

from __future__ import annotations

from functools import cache

import pytest

from perfmon.demo.scenarios import SCENARIOS
from perfmon.demo.simulation import Simulation
from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.offline import diagnose_texts
from perfmon.sources.formats.loader import load_packs

SEEDS = (0, 1)
FAULTY = sorted(set(SCENARIOS) - {"healthy"})
NAMED = (
    "frontend-queue",
    "slow-weight-load",
    "slow-checkpoint-write",
    "checkpoint-stall",
    "generation-contention",
    "inference-bound",
    "trainer-bound",
    "weight-sync-bound",
    "stall",
)
"""Scenarios whose simulation knows the seconds."""


@cache
def observed(scenario: str, seed: int, minutes: float = 10) -> tuple[Diagnosis, float]:
    """The diagnosis of a run, and the seconds that it lost to what it is named for."""
    simulation = Simulation(SCENARIOS[scenario], seed, 60 * minutes)
    simulation.run()
    return diagnose_texts(simulation.journal.texts()), simulation.lost_s[scenario]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scenario", FAULTY)
def test_a_faulty_run_gets_its_verdict(scenario: str, seed: int) -> None:
    snapshot, _ = observed(scenario, seed)
    assert snapshot.verdict is not None
    assert snapshot.verdict.signature == scenario
    assert snapshot.summary == snapshot.verdict.sentence


@pytest.mark.parametrize("scenario", FAULTY)
def test_every_finding_shows_the_lines_that_prove_it(scenario: str) -> None:
    snapshot, _ = observed(scenario, 0)
    assert all(finding.evidence for finding in snapshot.findings)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scenario", NAMED)
def test_the_lost_time_is_the_simulations(scenario: str, seed: int) -> None:
    snapshot, lost_s = observed(scenario, seed)
    assert snapshot.verdict is not None
    assert snapshot.verdict.lost_s == pytest.approx(lost_s, rel=0.2)


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_the_ledger_shares_out_the_whole_window(scenario: str) -> None:
    snapshot, _ = observed(scenario, 0)
    assert sum(entry.lost_s for entry in snapshot.ledger) == pytest.approx(snapshot.run.wall_s)
    assert sum(entry.share for entry in snapshot.ledger) == pytest.approx(1.0)
    assert all(entry.lost_s >= 0 for entry in snapshot.ledger)
    assert all(finding.first_s <= finding.last_s <= snapshot.run.wall_s + 1e-3 for finding in snapshot.findings)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("minutes", [3, 5, 10, 30])
def test_a_healthy_run_raises_no_alarm(seed: int, minutes: int) -> None:
    snapshot, _ = observed("healthy", seed, minutes)
    assert (snapshot.verdict, snapshot.findings) == (None, ())
    assert snapshot.summary.startswith("No bottleneck found: ")


@pytest.mark.parametrize("log", ["orchestrator.log", "inference.log", "trainer.log"])
@pytest.mark.parametrize("seed", SEEDS)
def test_one_log_of_a_healthy_run_raises_no_alarm(log: str, seed: int) -> None:
    simulation = Simulation(SCENARIOS["healthy"], seed, 600)
    simulation.run()
    snapshot = diagnose_texts({log: simulation.journal.texts()[log]})
    assert (snapshot.verdict, snapshot.findings) == (None, ())


PACKS = [pytest.param("\n".join(pack.healthy), id=pack.id) for pack in load_packs() if pack.healthy]


@pytest.mark.parametrize("healthy", PACKS)
def test_the_healthy_lines_of_every_format_raise_no_alarm(healthy: str) -> None:
    snapshot = diagnose_texts({"run.log": healthy})
    assert (snapshot.verdict, snapshot.findings) == (None, ())


def test_symptoms_stand_in_the_chain_of_their_cause() -> None:
    snapshot, _ = observed("kv-cache-pressure", 0)
    assert snapshot.verdict is not None
    inhibited = [f.signature for f in snapshot.findings if f.explained_by]
    assert not inhibited or snapshot.verdict.chain[-1] == "kv-cache-pressure"
    assert snapshot.verdict.signature not in inhibited
