"""What a finding rests on, by name: the timeline begins with it."""

from __future__ import annotations

import pytest

from perfmon.pipeline.offline import diagnose_texts
from perfmon.rules.signatures import load_signatures

EXAMPLES = {one.id: next(example for example in one.examples if example.verdict) for one in load_signatures()
            if any(example.verdict for example in one.examples)}  # fmt: skip
EXPECTED = {
    "frontend-queue": ("weight-update", "queue_ms"),
    "slow-weight-load": ("weight-update", "rpc_ms"),
    "slow-checkpoint-write": ("checkpoint-write", "write_ms"),
    "kv-cache-pressure": ("kv_usage", "waiting", "running"),
    "rollout-truncation": ("trunc_pct",),
}


@pytest.mark.parametrize("signature", EXPECTED)
def test_a_finding_names_what_it_rests_on(signature: str) -> None:
    snapshot = diagnose_texts(EXAMPLES[signature].logs)
    proof = next(one.proof for one in snapshot.findings if one.signature == signature)
    assert proof[: len(EXPECTED[signature])] == EXPECTED[signature]


def test_all_that_it_names_is_something_that_the_run_logs() -> None:
    snapshot = diagnose_texts(EXAMPLES["kv-cache-pressure"].logs)
    assert all(name in snapshot.metrics for one in snapshot.findings for name in one.proof)
