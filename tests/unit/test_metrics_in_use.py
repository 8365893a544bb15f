"""Every metric and mark that a format tells of is judged by some signature, or is context, for a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from perfmon.pipeline.offline import vocabulary
from perfmon.rules.bands import load_bands
from perfmon.rules.conditions import Condition, every_condition
from perfmon.rules.lint import metrics_of, sentence_slots
from perfmon.rules.signatures import Signature, load_signatures
from perfmon.sources.formats import glossary, in_words, load_packs, meaning_of, short_names

CONTEXT: dict[str, tuple[str, ...]] = {
    "a part of a step: the step's own time and what it waits for are judged, this shows where the rest went": (
        "backward_s", "barrier_s", "comm_s", "epoch_elapsed_s", "forward_s", "gather_s",
        "group_wait_s", "iter_blocked_s", "iter_user_s", "micro_backward_s", "micro_comm_s", "micro_forward_s",
        "micro_step_s", "optim_s", "pause_s", "pipeline_wait_s", "timer_s", "transfer_s", "weight_apply_s",
        "weight_pull_s",
    ),
    "what the mean of the epoch shows next to its parts, which are judged, and what a wait costs": (
        "epoch_data_share", "recent_data_share",
    ),
    "how long requests take: what is good is a promise that only the operator knows": (
        "e2e_p50_s", "e2e_p95_s", "itl_p50_s", "itl_p95_s", "request_queue_p50_s", "request_queue_p95_s", "ttft_p50_s",
        "ttft_p95_s", "iteration_ms",
    ),
    "a setting, or a size: it does not change, and others are measured by it": (
        "async_level", "kv_cache_gib", "kv_capacity", "max_concurrency", "max_inflight", "nccl_ranks", "time_limit_s",
        "deadline_at",
    ),
    "how well it learns, or how much of the hardware it uses: what is good depends on the task and the model": (
        "accept_pct", "entropy", "kl", "mfu_pct", "tflops", "cut_pct", "peak_mem_gib", "mem_gib",
        "loss_scale",
    ),
    "a host, a disk, a network: bands colour it, and it explains findings; alone it costs the run nothing": (
        "disk_busy_pct", "disk_read_mb_s", "disk_write_mb_s", "gpu_power_w", "host_cpu_pct",
        "iowait_pct", "nic_drops_per_s", "nic_errors_per_s", "nic_rx_mb_s", "nic_rx_share", "nic_tx_mb_s",
        "nic_tx_share", "psi_cpu_pct", "psi_io_pct", "psi_mem_pct",
        "socket_recv_q_share", "socket_rwnd_limited_pct", "socket_send_q_bytes",
    ),
    "a stream of data between processes: it says why data are late, where a run is starved": (
        "backpressure_events", "data_rows_done", "dropped_events", "empty_polls", "queued_blocks",
        "received_packets", "restored_bytes", "sent_bytes", "sent_items", "sent_mb_s", "sent_per_s", "sent_wait_s",
        "spilled_bytes", "spilled_objects",
    ),
    "a part of the idle time of a GPU in a trace: the findings about it judge what it waits for": (
        "gpu_idle_share", "host_wait_share", "profiled_step_ms", "range_gap_ms", "range_ms", "sync_stall_share",
    ),
    "a part of a step in a trace: two traces are compared by them": (
        "step_comm_ms", "step_compute_ms", "step_data_ms", "step_h2d_ms", "step_launch_ms", "step_rest_ms",
        "step_stall_ms",
    ),
    "the slowest rank of a report that names no rank, or what else is told of it": (
        "slowest_rank_pct", "slowest_rank_tflops",
    ),
    "how long collectives took to set up: a part of the start": ("nccl_bootstrap_s", "nccl_init_s"),
    "what a poller found out about something that answers, or how old it is": (
        "check_ms", "health_ms", "job_uptime_s", "node_unwell", "polled_value", "step_age_s",
    ),
    "a count that a line tells beside something else": ("completions",),
}  # fmt: skip
MARKS: dict[str, tuple[str, ...]] = {
    "says that a process died, ended or is ready: the state of the run follows from it": (
        "crash", "finished", "request-failed", "server-ready", "tracker-ended",
    ),
    "something that a format warns of; there are too few to say what it costs": (
        "backpressure", "disk-nearly-full", "empty-batch", "env-error", "few_workers", "inference-unreachable",
        "overload", "receive_error", "validation", "weights-failed",
    ),
    "says that a process lives, which a hung one does, too": (
        "heartbeat", "idle-queue", "raylet-chore", "resources-unavailable", "still-waiting",
    ),
    "a start that waits for others: it is stalled where that takes too long": ("waits-for-others",),
    "a process is gone, and no line says why: the state of the run is unknown": ("process-gone",),
    "which network ranks use, and why": ("nccl-net-ib", "nccl-no-ib-device", "nccl-no-plugin"),
}  # fmt: skip


def _names(signature: Signature) -> Iterator[str]:
    yield from metrics_of(signature)
    yield from (subject.name for subject in signature.subjects if subject.kind == "mark")
    yield from (slot.rpartition(".")[0] for _, slot, _ in sentence_slots(signature))
    yield from signature.unless
    if signature.lost is not None:
        yield from (*signature.lost.share, *signature.lost.fraction, signature.lost.rest)
    for condition in every_condition(signature.conditions):
        yield from condition.other_names()


def _in_use() -> set[str]:
    return {name for signature in load_signatures() for name in _names(signature)}


def _is_complete(names: frozenset[str], context: dict[str, tuple[str, ...]]) -> None:
    """A name is used by a signature, or it is in a list with the reason why none uses it."""
    known = [name for each in context.values() for name in each]
    assert len(known) == len(set(known))
    in_use = _in_use()
    unjudged, used = sorted(names - in_use - set(known)), sorted(in_use & set(known))
    assert not unjudged, f"no signature uses {unjudged}: add them to a list in this file, with the reason"
    assert not used, f"a signature uses {used}: remove them from the lists in this file"


def test_every_metric_is_judged_or_is_context() -> None:
    _is_complete(vocabulary().metrics, CONTEXT)


def test_every_mark_is_judged_or_is_context() -> None:
    _is_complete(vocabulary().marks, MARKS)


def test_every_metric_is_explained_in_one_sentence() -> None:
    reported = {
        name
        for pack in load_packs()
        for p in pack.patterns
        for emit in p.emit
        for name in (emit.name if emit.kind == "metric" else "", emit.metric)
    }
    explained = glossary()
    known = {name for name in reported if name} | set(load_bands().table) | {"wall_ms"}
    assert known - explained.keys() == set(), "metrics without a sentence in sources/glossary.toml"
    assert explained.keys() - known == set(), "names in sources/glossary.toml that no format and no threshold has"
    assert all(meaning.endswith(".") and not meaning[0].islower() for meaning in explained.values())
    assert meaning_of("queue_ms{server-1}") == explained["queue_ms"]
    assert meaning_of("of_its_own") == ""


def test_every_metric_that_a_condition_uses_has_short_words() -> None:
    used = {name for signature in load_signatures() for one in signature.conditions for name in _of(one)}
    missing = {name for name in used if re.search(r"[_-]", name) and name.partition(".")[0] not in short_names()}
    assert missing == set()
    assert all(words == words.strip() and "_" not in words for words in short_names().values())


def _of(condition: Condition) -> set[str]:
    return {name for one in every_condition((condition,)) for name in one.metric_names()}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("queue_ms 13.4 s (critical > 1 s)", "queue time 13.4 s (critical > 1 s)"),
        ("running 32 (> 8)", "running requests 32 (> 8)"),
        ("32 requests are running and 4 waiting", "32 requests are running and 4 waiting"),
        ("max of running over 600 s 40", "max of running requests over 600 s 40"),
        ("waiting / running 0.72", "waiting requests / running requests 0.72"),
        ("my_queue_ms 3 s", "my_queue_ms 3 s"),
    ],
)
def test_the_values_of_a_condition_are_put_in_words(text: str, words: str) -> None:
    assert in_words(text) == words
