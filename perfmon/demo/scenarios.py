"""The runs that can be simulated: one healthy, the others with one thing wrong each.

In all of them checkpoints are there when the orchestrator looks for them, but where waiting for them is the point.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfmon.core import UsageError, plain

SOON_S = 640.0
"""Latest time of an event, so that a long run shows it soon."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The figures of a run; the defaults are those of a healthy one with steps of about 35 s."""

    title: str
    batches: int = 10
    """Generation batches that a step needs, one after another."""
    batch_s: float = 3.2
    contended_s: float = 0.0
    """Duration of a batch that shares time with a queued weight update; 0: that of any other."""
    inflight: int = 96
    """Generations in flight."""
    queue_s: float = 0.02
    """Wait of a weight update in the server's front end, once that is full."""
    rpc_s: float = 1.2
    train_s: float = 24.0
    warmup_s: float = 0.0
    """Time until the trainer begins its first step."""
    broadcast_s: float = 1.1
    """Time that the trainer takes to hand over its weights."""
    broadcast_growth_s: float = 0.0
    """Growth of `broadcast_s` with each further step, for twelve steps."""
    write_s: float = 0.85
    visible_after_s: float = 0.0
    """Time until the orchestrator notices a written checkpoint."""
    trunc_pct: float = 4.0
    async_level: int = 1
    """Steps that the orchestrator may be ahead of the checkpoint it generates with."""
    barrier: bool = True
    """The orchestrator waits at that many steps; without it staleness grows."""
    traced_waits: bool = True
    """Waits for a checkpoint are logged as trace lines; else in the orchestrator's own words."""
    kv_usage: float = 58.0
    """Share of the KV cache in use while generating, in %."""
    waiting: int = 0
    """Requests that wait for room in the engine."""
    updates_until: float = 1.0
    """Share of the run after which no weight update is sent any more; `SOON_S` at the latest."""
    spread: float = 1.0
    """Variation of durations: 0 for none, 1 for that of a real run."""
    stalls_at: float = 1.0
    """Share of the run after which nothing happens until a watchdog ends it; `SOON_S` at the latest."""


SCENARIOS = {
    "healthy": Scenario("nothing is wrong"),
    "frontend-queue": Scenario(
        "weight updates wait behind generations", batches=6, batch_s=3.4, inflight=128, queue_s=12.4
    ),
    "slow-weight-load": Scenario("the engine loads weights slowly", batches=6, rpc_s=14.6),
    "slow-checkpoint-write": Scenario("checkpoints are written slowly", train_s=18.0, write_s=8.2),
    "checkpoint-stall": Scenario("written checkpoints are seen late", batches=6, train_s=18.0, visible_after_s=17.0),
    "rollout-truncation": Scenario("rollouts hit the length limit", trunc_pct=58.0),
    "stale-rollouts": Scenario("rollouts run ahead of the trainer", train_s=58.0, barrier=False),
    "async-barrier": Scenario(
        "rollouts meet the async barrier", train_s=30.9, warmup_s=127.0, async_level=5, spread=0.15
    ),
    "generation-contention": Scenario(
        "queued updates slow generation down", batches=7, inflight=128, queue_s=8.0, contended_s=45.0, train_s=37.0
    ),
    "kv-cache-pressure": Scenario(
        "the KV cache is full", batches=7, batch_s=6.8, inflight=220, train_s=36.0, kv_usage=97.0, waiting=92
    ),
    "inference-bound": Scenario("the trainer waits for batches", train_s=9.0),
    "trainer-bound": Scenario("the orchestrator waits for weights", batches=6, train_s=36.0, traced_waits=False),
    "weight-sync-bound": Scenario(
        "handing over weights takes long", train_s=18.0, broadcast_s=7.0, broadcast_growth_s=0.25
    ),
    "stall": Scenario("everything stops in the middle", stalls_at=0.5),
    "no-weight-updates": Scenario("weight updates cease", updates_until=0.5),
}

FIXED = {"frontend-queue": Scenario("weight updates have a client of their own", batch_s=3.4, inflight=128)}
"""The same runs once their advice was followed, where that can be shown."""

_LONGEST_MINUTES = 10_000.0


def scenario_of(name: str, minutes: float, *, fixed: bool = False) -> Scenario:
    """Return the scenario of a name; `fixed`: as it is once its advice was followed.

    Raises UsageError for an unknown scenario, one that has no fixed run, or a length out of range.
    """
    if name not in SCENARIOS:
        raise UsageError(f"{plain(name, 80)}: no such scenario (expected one of: {', '.join(SCENARIOS)})")
    if not 0 < minutes <= _LONGEST_MINUTES:
        raise UsageError(f"{minutes:g} minutes: expected more than 0 and at most {_LONGEST_MINUTES:g}")
    if fixed and name not in FIXED:
        raise UsageError(f"{name}: no fixed run of it (available for: {', '.join(FIXED)})")
    return (FIXED if fixed else SCENARIOS)[name]
