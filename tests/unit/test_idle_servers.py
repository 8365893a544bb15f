"""A server without requests is idle, not late: by its last statistics, and only where nothing else runs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.offline import diagnose_texts

BUSY = [(48, 1)] * 20
QUIET = [(0, 0)] * 30


def _vllm(requests: Sequence[tuple[int, int]], engine: int = 0) -> str:
    """Statistics every 10 s from 09:10:10 on."""
    lines = ["INFO 11-20 09:10:00 [api_server.py:1912] vLLM API server version 0.33.0"]
    for at, (running, waiting) in enumerate(requests, 1):
        minute, second = divmod(10 * at, 60)
        lines.append(
            f"INFO 11-20 09:{10 + minute:02d}:{second:02d} [loggers.py:336] Engine {engine:03d}: "
            f"Avg prompt throughput: {20.0 * running:.1f} tokens/s, "
            f"Avg generation throughput: {50.0 * running:.1f} tokens/s, Running: {running} reqs, "
            f"Waiting: {waiting} reqs, GPU KV cache usage: {running:.1f}%, Prefix cache hit rate: 40.0%"
        )
    return "\n".join(lines)


def _sglang(last: str) -> str:
    decode = (
        "Decode batch, #running-req: 4, #token: 39700, token usage: 0.43, cuda graph: True, "
        "gen throughput (token/s): 861.20, #queue-req: 0"
    )
    ends = decode.replace("req: 4", "req: 0").replace("861.20", "0.00")
    lines = [f"[2026-11-20 09:12:{at:02d} TP0] {decode}" for at in range(0, 40, 4)]
    return "\n".join(
        [*lines, f"[2026-11-20 09:12:44 TP0] {ends}", *([f"[2026-11-20 09:14:00 TP0] {last}"] if last else [])]
    )


def _idle_s(found: Diagnosis) -> float | None:
    return None if found.run.idle is None else found.run.idle - found.run.start


def test_a_server_is_idle_since_its_first_statistics_without_requests() -> None:
    found = diagnose_texts({"vllm.log": _vllm(BUSY + QUIET)})
    assert _idle_s(found) == 210.0
    assert "no requests for 4m 50s" in found.summary
    assert "no progress" not in found.summary


def test_one_line_without_requests_is_enough_as_an_idle_server_may_print_no_more() -> None:
    assert _idle_s(diagnose_texts({"vllm.log": _vllm([*BUSY, (0, 0)])})) == 210.0


@pytest.mark.parametrize("last", [(48, 1), (1, 0), (0, 3)])
def test_requests_that_run_or_wait_are_work(last: tuple[int, int]) -> None:
    assert diagnose_texts({"vllm.log": _vllm([*BUSY, *QUIET, last])}).run.idle is None


def test_each_engine_has_to_be_idle() -> None:
    idle, busy = _vllm(BUSY + QUIET), _vllm(BUSY + BUSY, 1)
    assert diagnose_texts({"0.log": idle, "1.log": busy}).run.idle is None
    assert _idle_s(diagnose_texts({"0.log": idle, "1.log": _vllm([*BUSY, *BUSY, (0, 0)], 1)})) == 410.0


def test_a_trainer_whose_engine_is_idle_is_not() -> None:
    steps = "\n".join(f"2026-11-20 09:{10 + at // 6}:{at % 6}1 step {at} loss 1.5" for at in range(1, 30))
    assert diagnose_texts({"vllm.log": _vllm(BUSY + QUIET), "train.log": steps}).run.idle is None


def test_a_batch_that_comes_after_a_pause_is_work_although_none_runs_yet() -> None:
    assert _idle_s(diagnose_texts({"sglang.log": _sglang("")})) == 44.0
    prefill = (
        "Prefill batch, #new-seq: 1, #new-token: 1024, #cached-token: 0, token usage: 0.00, #running-req: 0, "
        "#queue-req: 0, #pending-token: 0, cuda graph: False, input throughput (token/s): 0.00"
    )
    assert diagnose_texts({"sglang.log": _sglang(prefill)}).run.idle is None


def test_time_without_requests_is_idle_in_the_breakdown() -> None:
    found = diagnose_texts({"vllm.log": _vllm(BUSY + QUIET)})
    shares = {entry.cause: entry.lost_s for entry in found.ledger}
    assert shares["idle"] == 290.0
    assert shares["unaccounted"] <= 30.0


def test_health_checks_alone_behind_a_batch_are_idle_or_hung() -> None:
    decode = "Decode batch, #running-req: 9, token usage: 0.43, gen throughput (token/s): 861.20, #queue-req: 0"
    health = 'INFO:     10.0.0.4:41210 - "GET /health_generate HTTP/1.1" 200 OK'
    busy = [f"[2026-11-20 09:12:{at:02d} TP0] {decode}" for at in range(0, 60, 4)]
    asked = [f"[2026-11-20 09:{minute}:00] {health}" for minute in range(13, 45)]
    found = diagnose_texts({"sglang.log": "\n".join(busy + asked)})
    assert "no token for 31m" in found.summary
    assert "idle, or hung" in found.summary
    assert "idle, or hung" not in diagnose_texts({"sglang.log": "\n".join(busy + asked[:5])}).summary


def test_a_server_that_starts_is_no_training_run() -> None:
    found = diagnose_texts(
        {
            "vllm.log": "INFO 11-20 09:10:00 [api_server.py:1912] vLLM API server version 0.33.0\n"
            "INFO 11-20 09:10:09 [gpu_model_runner.py:2338] Starting to load model /models/big...\n"
            + "".join(
                f"\rLoading safetensors checkpoint shards:  {n}0% Completed | {n}/10 [00:{n * 5:02d}<00:30, 5.00s/it]"
                for n in range(1, 5)
            )
        }
    )
    assert "the server is starting, and not ready yet" in found.summary
    assert not found.unseen
