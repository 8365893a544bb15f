"""Everything that can be turned in the lab, and what it is in a healthy run.

The speeds are such that the bands of a 7B model on two A100 hold unchanged: a healthy step takes some four seconds, an
update a quarter of a second, and a fault lasts as long as a fault does. Nothing is scaled, no clock lies.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Knobs:
    """How fast things are, how many there may be, what goes wrong."""

    # --- the engine ---
    slots: int = 48
    """Sequences that it runs at once."""
    tokens_per_s: float = 1100.0
    """What it makes at most, over all sequences."""
    sequence_tokens_per_s: float = 40.0
    """What it makes at most for one."""
    kv_tokens: int = 8000
    """What its cache holds."""
    load_mib_s: float = 16.0
    """How fast it reads weights from a checkpoint."""
    stuck: bool = False
    """It admits nothing any more, and runs two sequences that never end."""
    front_end_s: float = 0.0
    """How long an update keeps the server's only thread busy before the engine is asked."""

    # --- the orchestrator ---
    inflight: int = 64
    """Rollouts that are asked for at once; what the pool has no connection for waits in it.

    For each of them a pool looks at all of its connections at every request: more would be the client's work alone.
    """
    connections: int = 32
    """Connections of the pool that rollouts share."""
    batch: int = 32
    """Rollouts of a step."""
    buffer: int = 32
    """Finished rollouts that are kept, the oldest for the next batch."""
    score_s: float = 0.0
    """How long the rewards of a batch take."""
    reward_s: float = 0.0
    """How long the reward of one rollout takes, give or take a third; it is in flight until then."""
    async_level: int = 1
    """Steps that it may be ahead of the newest policy."""
    shared_admin: bool = False
    """Weight updates go through the pool of the rollouts."""
    in_flight_updates: bool = False
    """Weights are updated while a batch is being made, not before."""
    mean_tokens: float = 100.0
    spread: float = 0.15
    """Standard deviation of a rollout's length, as a share of the mean."""
    max_tokens: int = 200
    """Where a rollout is cut."""
    tail_share: float = 0.0
    """Share of rollouts that are some five times as long."""
    own_batch: bool = False
    """A batch waits for its own rollouts, all of them, instead of taking what is done first."""
    looks_for_checkpoints: bool = True
    evaluate_every: int = 0
    """Steps between evaluations that hold everything else; 0: never."""
    hangs_s: float = 0.0
    """How long it hangs, once."""
    holds_rollouts: bool = False
    """No rollout is begun while a policy is awaited."""
    empty_batches: bool = False
    """What it hands to the trainer holds no rollouts."""
    polls_s: float = 0.0
    """Seconds between two looks at the server's metrics; 0: nobody looks."""

    # --- the trainer ---
    train_s: float = 2.0
    checkpoint_mib: float = 4.0
    write_mib_s: float = 40.0
    """How fast its disk takes a checkpoint."""
    visible_after_s: float = 0.0
    """How long a written checkpoint takes to be seen by others."""
    activations_gib: float = 20.0
    """GPU memory that a step takes beside the trainer's weights and optimizer states."""
    trainer_fails: bool = False
    """A step raises an exception, unless the trainer was started again after one."""
    leak_mib_s: float = 0.0
    """Host memory that it takes each second and never gives back."""
    save_every: int = 0
    """Steps between full checkpoints, from which a trainer that is started again goes on; 0: there are none."""
    trainer_hangs: bool = False
    """It hangs within a step, until it is stopped."""

    # --- the pipeline: streamer, producer, queue, consumer ---
    produce_s: float = 0.21
    """How long the streamer takes for an item, give or take a tenth."""
    burst: int = 0
    """Items that the streamer holds back until it sends them at once; 0: it sends each."""
    starts_after_s: float = 0.0
    """Seconds until the streamer has its first item."""
    item_mib: float = 2.0
    link_mib_s: float = 0.0
    """What the link from the streamer to the producer carries; 0: as much as there is."""
    parse_s: float = 0.02
    """How long the producer takes to parse an item."""
    serialise_s: float = 0.0
    """How long it takes to serialise one for the queue."""
    queue_items: int = 16
    """What the queue holds."""
    queue_s: float = 0.0
    """How long each put, and each get, keeps the queue busy."""
    ray_queue: bool = False
    """The queue is an actor of a Ray cluster."""
    consume_s: float = 0.25
    """How long the consumer's GPU computes for a batch."""
    first_batch_s: float = 3.0
    """How much longer the first one takes: everything is compiled."""
    store_s: float = 0.0
    """How long the consumer stores the results of a batch, while its GPU waits."""
    consumer_hangs: bool = False
    """It hangs between two batches, until it is stopped."""
    consumer_dies: bool = False
    """Its process is gone without a word."""

    # --- all of them ---
    polls_host: bool = False
    """Somebody looks at the memory of their host."""
    rows: bool = False
    """Orchestrator and trainer write a row of figures for each step, to a file that both append to."""
    noise_lines_s: float = 0.0
    """Lines a second that have nothing to do with anything, in every log."""
