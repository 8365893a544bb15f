"""What is passed over because it cannot hold is what judging all of it does not find."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.demo.output import simulated
from perfmon.demo.scenarios import SCENARIOS
from perfmon.diagnosis.result import Finding
from perfmon.pipeline.session import Session
from perfmon.rules import candidates, run_view, tracks
from perfmon.rules.candidates import bars_of
from perfmon.rules.signatures import load_signatures


def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is passed over from now on, and no track is known to be of one log."""
    merged = tracks.merged
    monkeypatch.setattr(candidates, "bars_of", lambda *_: [])
    monkeypatch.setattr(run_view, "merged", lambda *told: replace(merged(*told), only=None))


def told(logs: dict[str, str]) -> list[tuple[Finding, ...]]:
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
    quick = told(logs)
    everything(monkeypatch)
    assert quick == told(logs)


@pytest.mark.parametrize("seed", range(6))
def test_of_figures_about_their_limits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = noisy(seed)
    quick = told(logs)
    assert all(quick)
    everything(monkeypatch)
    assert quick == told(logs)


PAUSE = "INFO:trl.experimental.async_grpo.async_rollout_worker:[score] rollout buffer full (maxsize=128), waiting"
STEP = '{{"step": {0}, "time": {1}.0, "time/step": 60.0, "time/wait_for_policy": 1.0}}'


@pytest.mark.parametrize(
    ("more", "metrics"),
    [
        ((), {"wait_ms", "policy_wait_share"}),
        (
            tuple(STEP.format(at, 1772359200 + 60 * at) for at in range(4)),
            {"wait_ms", "policy_wait_share", "policy_wait_s"},
        ),
        (tuple(f"2026-03-01 10:00:{at:02d} INFO {PAUSE}" for at in range(4)), set()),
    ],
    ids=["neither", "waits for policies", "pauses"],
)
def test_only_what_the_run_tells_nothing_of_cannot_hold(more: tuple[str, ...], metrics: set[str]) -> None:
    session = Session(Config())
    for name, text in (*noisy(1).items(), *((f"{at}.log", line) for at, line in enumerate(more))):
        session.feed(session.add_source(name), Block(text.encode() + b"\n", 0, 1))
    judged = session.examined()[1]
    (signature,) = (one for one in load_signatures(()) if one.id == "trainer-bound")
    assert {bar.metric for bar in bars_of(signature, judged)} == metrics
