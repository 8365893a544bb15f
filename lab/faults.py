"""The faults: what each turns, what it must be called, and how the lab itself knows what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from .settings import Knobs

HEALTHY = "healthy"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong."""

    name: str
    says: str
    """What happens, physically."""
    signature: str | None
    """What perfmon must call it; None: no verdict at all."""
    turns: Mapping[str, object] = field(default_factory=dict)
    """Knobs, by name."""
    cost: str = ""
    """How the lab counts what is lost, see `lab.truth`; empty: nothing is."""
    also: tuple[str, ...] = ()
    """Signatures that must be found besides."""
    setting: Mapping[str, object] = field(default_factory=dict)
    """Knobs that are turned from the first moment: what the run is like in which it goes wrong."""
    from_start: bool = False
    """It is there from the first moment: it is no event but how the run is."""
    ends: str = ""
    """The role whose process ends because of it."""
    again_after_s: float = 0.0
    """So long after that it is started again; 0: never."""
    entries: tuple[str, ...] = ()
    """Entries of the ledger that hold what it cost, beside its signature's."""

    @property
    def over(self) -> bool:
        """It is over before the run is: at the end nothing is wrong any more."""
        return self.again_after_s > 0

    clock_s: float = 0.0
    """How far the server's clocks are ahead of the others'."""
    pipeline: bool = False
    """The run is a pipeline of streamer, producer, queue and consumer."""


_pipeline = partial(Fault, pipeline=True)

FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault(HEALTHY, "no fault", None),
        Fault(
            "shared-pool",
            "weight updates wait for a connection of a pool that three times as many rollouts compete for",
            "frontend-queue",
            {"shared_admin": True, "inflight": 96},
            "queue",
        ),
        Fault(
            "slow-load",
            "the engine reads weights from storage with 0.6 MiB/s",
            "slow-weight-load",
            {"load_mib_s": 0.6},
            "load",
        ),
        Fault(
            "slow-disk",
            "the trainer's disk writes 0.6 MiB/s",
            "slow-checkpoint-write",
            {"write_mib_s": 0.6},
            "write",
        ),
        Fault(
            "late-checkpoint",
            "the orchestrator notices a written checkpoint 6 s late",
            "checkpoint-stall",
            {"visible_after_s": 6.0},
            "wait",
        ),
        Fault(
            "truncation",
            "problems need longer answers than max_tokens",
            "rollout-truncation",
            {"mean_tokens": 120.0, "spread": 0.5, "max_tokens": 120},
        ),
        Fault(
            "stale",
            "rewards take 3 s: finished rollouts pile up in a buffer, and the oldest are taken first",
            "stale-rollouts",
            {"score_s": 3.0, "buffer": 240, "tokens_per_s": 1600.0, "inflight": 96, "connections": 48, "train_s": 2.4},
        ),
        Fault(
            "contention",
            "an update keeps the server's only thread busy for 9 s: generations and the update itself wait for it",
            "frontend-queue",
            {"in_flight_updates": True, "front_end_s": 9.0},
            "queue",
            also=("generation-contention",),
        ),
        Fault(
            "kv-pressure",
            "the cache holds two dozen sequences, the load is nearly three times that",
            "kv-cache-pressure",
            {"kv_tokens": 1500, "slots": 64, "connections": 64, "sequence_tokens_per_s": 20.0},
            "cache",
        ),
        Fault(
            "request-cap",
            "the engine is limited to 12 requests, far below its capacity, and 20 wait",
            "request-cap",
            {"slots": 12},
            "cap",
            also=("inference-bound",),
        ),
        Fault(
            "long-tail",
            "a few rollouts are about five times as long, and each batch waits for all of its rollouts",
            "long-tail-generation",
            {"tail_share": 0.05, "own_batch": True, "max_tokens": 2000},
            "tail",
        ),
        Fault(
            "stuck-engine",
            "the engine's scheduler admits no requests; two endless sequences keep running",
            "engine-stuck",
            {"stuck": True},
            "stuck",
        ),
        Fault(
            "trainer-slow", "the trainer computes 9 s instead of 2 s", "trainer-bound", {"train_s": 9.0}, "policy-wait"
        ),
        Fault(
            "inference-slow",
            "the engine generates a fifth of the tokens",
            "inference-bound",
            {"tokens_per_s": 220.0},
            "batch-wait",
        ),
        Fault(
            "slow-reward",
            "each reward takes about 6 s: most rollouts in flight wait for it, and the engine idles",
            "environment-bound",
            {"reward_s": 6.0},
            "batch-wait",
            also=("inference-bound",),
            setting={"reward_s": 0.2, "rows": True, "inflight": 32},
        ),
        Fault(
            "no-updates",
            "the orchestrator no longer sees new checkpoints and continues with the old policy",
            "no-weight-updates",
            {"looks_for_checkpoints": False},
        ),
        Fault("stall", "the orchestrator hangs for 75 s, and everything with it", "stall", {"hangs_s": 75.0}, "hang"),
        Fault(
            "hung-trainer",
            "the trainer hangs within a step; no rollout starts while a policy is awaited, the server is still polled",
            "stall",
            {"trainer_hangs": True, "holds_rollouts": True, "polls_s": 2.0},
            "hang",
        ),
        Fault(
            "dead-trainer",
            "the orchestrator sends empty batches, and the trainer divides by the number of rollouts",
            "run-failed",
            {"empty_batches": True, "holds_rollouts": True},
            ends="trainer",
        ),
        Fault(
            "gpu-memory",
            "the trainer's activations need 30 GiB of a GPU with 28 GiB free",
            "out-of-memory",
            {"activations_gib": 30.0, "holds_rollouts": True},
            ends="trainer",
        ),
        Fault(
            "restart",
            "the trainer crashes with a GPU error; 15 s later it restarts from its last complete checkpoint",
            "run-failed",
            {"trainer_fails": True},
            "restart",
            setting={"save_every": 5, "holds_rollouts": True},
            ends="trainer",
            again_after_s=15.0,
            entries=("downtime", "restore", "wasted-progress"),
        ),
        Fault(
            "memory-leak",
            "the trainer leaks 1.4 MiB of host memory per second; the host has 640 MiB",
            "host-memory-leak",
            {"leak_mib_s": 1.4},
            setting={"polls_host": True},
        ),
        Fault(
            "blocking-eval",
            "every fourth step an evaluation occupies the engine",
            "blocking-eval",
            {"evaluate_every": 4},
            "evaluation",
        ),
        Fault("noisy", "every log is full of unrelated lines", None, {"noise_lines_s": 40.0}),
        Fault(
            "clock-offset",
            "the server runs on a host whose clocks are 7.3 s ahead",
            None,
            from_start=True,
            clock_s=7.3,
        ),
        _pipeline("pipeline", "a healthy pipeline: the queue is full, the GPU busy", None),
        _pipeline(
            "warm-up",
            "the streamer starts 25 s late, and the first batch takes 15 s",
            None,
            setting={"starts_after_s": 25.0, "first_batch_s": 15.0},
        ),
        _pipeline("ray-queue", "the queue is an actor of a Ray cluster", None, setting={"ray_queue": True}),
        _pipeline("slow-producer", "the streamer takes 0.8 s for an item", "producer-slow", {"produce_s": 0.8}, "get"),
        _pipeline(
            "bursty-producer",
            "the streamer takes 0.4 s for an item, and sends twenty at once",
            "producer-slow",
            {"produce_s": 0.4, "burst": 20},
            "get",
        ),
        _pipeline("throttled-link", "the link carries 2.5 MiB/s", "network-slow", {"link_mib_s": 2.5}, "get"),
        _pipeline("slow-parse", "the producer parses an item for 0.7 s", "parse-bound", {"parse_s": 0.7}, "get"),
        _pipeline("slow-queue", "each put and get takes the queue 0.35 s", "queue-overhead", {"queue_s": 0.35}, "get"),
        _pipeline("slow-serialise", "an item is serialised for 0.7 s", "queue-overhead", {"serialise_s": 0.7}, "get"),
        _pipeline(
            "slow-consumer",
            "the consumer stores the results of a batch for 0.5 s, and its GPU waits",
            "consumer-bound",
            {"store_s": 0.5},
            "push",
        ),
        _pipeline("blocked-consumer", "the consumer hangs", "consumer-dead", {"consumer_hangs": True}, "stuck"),
        _pipeline(
            "dead-consumer",
            "the consumer's process is gone without a word",
            "consumer-dead",
            {"consumer_dies": True},
            "stuck",
            ends="consumer",
        ),
    )
}

HEALTHY_RUNS = [fault.name for fault in FAULTS.values() if fault.signature is None]
"""Faults that are none: what a run is like."""


def knobs(
    names: Iterable[str],
    turns: Mapping[str, object] | None = None,
    planned: Iterable[str] = (),
    setting: Mapping[str, object] | None = None,
    strength: Mapping[str, object] | None = None,
) -> Knobs:
    """The knobs with these faults on, and over them `turns`; those that are `planned` have their setting already.

    `setting` is turned from the start, whatever the faults turn; `strength` replaces how far a fault turns a knob.
    """
    turned: dict[str, object] = {}
    for name in planned:
        turned.update(FAULTS[name].setting)
    turned.update(setting or {})
    for name in names:
        turned.update({knob: (strength or {}).get(knob, value) for knob, value in FAULTS[name].turns.items()})
    turned.update(turns or {})
    return replace(Knobs(), **turned)  # type: ignore[arg-type]  # names and types are those of the table above
