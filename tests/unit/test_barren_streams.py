"""What is passed over because it cannot hold is what judging all of it does not find."""

from __future__ import annotations

import random

import pytest

from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.demo.output import simulated
from perfmon.demo.scenarios import SCENARIOS
from perfmon.diagnosis.result import Finding
from perfmon.pipeline.session import Session
from perfmon.rules import candidates


def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stream is passed over from now on."""
    monkeypatch.setattr(candidates, "_barren", lambda *_: False)


def result_of(logs: dict[str, str]) -> list[tuple[Finding, ...]]:
    """What is found in all of it, and in a window from which the beginning is gone."""
    session = Session(Config())
    for name, text in logs.items():
        session.feed(session.add_source(name), Block(text.encode() + b"\n", 0, 1))
    whole = session.snapshot()
    low, high = whole.run.start + 0.3 * whole.run.wall_s, whole.run.end
    return [whole.findings, session.present((low, high), session.lay(), high).findings]


def noisy(seed: int) -> dict[str, str]:
    """Two logs in which every figure is at times good, at times at its limit, at times beyond."""
    chance = random.Random(seed)
    orchestrator, engine = [], []
    for step in range(240):
        at = f"2026-03-01 10:{step // 60:02d}:{step % 60:02d}.000"
        orchestrator += [
            f"{at} INFO [rollout] trunc_pct={chance.randrange(9)}.2 current_step={step} ckpt_step={step} "
            f"staleness={chance.randrange(4)}",
            f"{at} INFO [ckpt] wait.done target_step={step} wait_ms={chance.choice((3, 500, 900, 30000))}.5",
            f"{at} INFO [gen] batch.done completions=64 dur_ms={chance.choice((900, 4000))}.5 inflight={step % 140}",
        ]
        engine.append(
            f"(APIServer pid=4) INFO 03-01 {at[11:19]} [loggers.py:336] Engine 000: Avg prompt throughput: 8.1 "
            f"tokens/s, Avg generation throughput: {chance.choice((0, 300))}.4 tokens/s, Running: "
            f"{chance.randrange(9)} reqs, Waiting: {chance.choice((0, 0, 5, 90))} reqs, GPU KV cache usage: "
            f"{chance.choice((20, 91, 99))}.1%, Prefix cache hit rate: 41.0%"
        )
    return {"orchestrator.log": "\n".join(orchestrator), "inference.log": "\n".join(engine)}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_of_the_built_in_runs(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = simulated(scenario, 3, 6.0)
    run.run()
    logs = run.journal.texts()
    quick = result_of(logs)
    everything(monkeypatch)
    assert quick == result_of(logs)


@pytest.mark.parametrize("seed", range(6))
def test_of_figures_about_their_limits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = noisy(seed)
    quick = result_of(logs)
    assert all(quick)
    everything(monkeypatch)
    assert quick == result_of(logs)
