"""Ends of runs as scripts, servers and bars print them: what is one, what is none, and how long the run was."""

from __future__ import annotations

import pytest

from perfmon.core.config import Config
from perfmon.core.model import Block, Progress
from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.session import Session


def _result_of(*lines: str, companion: tuple[str, ...] = ()) -> Diagnosis:
    session = Session(Config())
    for name, text in (("run.log", lines), ("run.err", companion)):
        if text:
            session.feed(session.add_source(name), Block("\n".join([*text, ""]).encode(), 0, 1))
    return session.snapshot()


def _found(snapshot: Diagnosis) -> list[str]:
    return [finding.signature for finding in snapshot.findings]


_TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/srv/own/serve.py", line 41, in <module>',
    "    serve(load(path))",
    "OSError: /srv/own/policy does not hold a config.json",
)


def test_a_server_that_answers_after_an_earlier_start_failed_has_not_failed() -> None:
    requests = [f'INFO:     10.0.0.7:{50_000 + at} - "POST /policy/infer HTTP/1.1" 200 OK' for at in range(20)]
    snapshot = _result_of(*_TRACEBACK, "INFO:     Started server process [71]", *requests)
    assert snapshot.run.state is Progress.RUNNING
    assert not _found(snapshot)


def test_a_server_that_was_idle_and_is_stopped_has_ended() -> None:
    engine = (
        "INFO 05-10 15:18:58 [metrics.py:398] Avg prompt throughput: 210.0 tokens/s, Avg generation throughput: 41.0 "
        "tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 0.8%, CPU cache: 0.0%."
    )
    stopped = (
        "(APIServer pid=71) INFO 05-10 17:27:55 [launcher.py:101] Shutting down FastAPI HTTP server.",
        "Process SpawnProcess-1:",
        "Traceback (most recent call last):",
        '  File "/srv/lib/python3.12/site-packages/vllm/engine/multiprocessing/engine.py", line 446, in signal_handler',
        '    raise KeyboardInterrupt("engine terminated")',
        "KeyboardInterrupt: engine terminated",
    )
    snapshot = _result_of(*(engine.replace("18:58", f"18:{at}") for at in range(10, 58, 8)), *stopped)
    assert snapshot.run.state is Progress.FINISHED
    assert not _found(snapshot)


def _trained(model: str) -> list[str]:
    return [
        f"### {model}",
        "Map: 100%|██████████| 900/900 [00:14<00:00, 64.20 examples/s]",
        "Map: 100%|██████████| 200/200 [00:03<00:00, 64.20 examples/s]",
        "{'eval_loss': 0.61, 'eval_runtime': 31.2, 'eval_samples_per_second': 6.4, 'epoch': 1.0}",
        "{'train_runtime': 1812.4, 'train_samples_per_second': 0.5, 'train_loss': 0.81, 'epoch': 1.0}",
        "100%|██████████| 120/120 [30:12<00:00, 15.10s/it]",
        "100%|██████████| 24/24 [00:48<00:00,  2.00s/it]",
    ]


def test_a_script_that_fails_at_its_third_model_has_failed() -> None:
    failed = [
        "  0%|          | 0/120 [00:00<?, ?it/s]Traceback (most recent call last):",
        '  File "/srv/own/main.py", line 78, in main',
        "    trainer.train()",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x768 and 512x2)",
    ]
    snapshot = _result_of(*_trained("first"), *_trained("second"), *_trained("third")[:3], *failed)
    assert snapshot.run.state is Progress.FAILED
    assert "run-failed" in _found(snapshot)


def test_what_a_shutdown_prints_behind_the_end_is_no_failure() -> None:
    noise = [
        "Exception in thread Thread-3:",
        "Traceback (most recent call last):",
        '  File "/srv/own/watch.py", line 9, in run',
        "    self.report()",
        "RuntimeError: cannot schedule new futures after shutdown",
    ]
    assert _result_of(*_trained("only")[:-1], *noise).run.state is Progress.FINISHED


def test_a_last_evaluation_and_a_bar_drawn_once_more_do_not_go_on() -> None:
    assert _result_of(*_trained("only")).run.state is Progress.FINISHED
    assert _result_of(*_trained("first"), *_trained("second")[:3]).run.state is Progress.RUNNING


def _epoch(label: str, minutes: int) -> str:
    moments = [(n, f"{minutes * n // 10:02d}:00") for n in range(11)]
    return "\r".join(f"{label}:  {n * 10:2d}%|█         | {n}/10 [{moment}<00:01, 30.00s/it]" for n, moment in moments)


@pytest.mark.parametrize("first", [[], ["2026-03-02 08:00:00 INFO reads its data"]], ids=["no clock", "one clock"])
def test_bars_that_follow_one_another_add_up(first: list[str]) -> None:
    snapshot = _result_of(*first, *(_epoch("Training", 10) for _ in range(4)))
    assert snapshot.run.wall_s == pytest.approx(40 * 60, rel=0.05)


def test_full_bars_of_epochs_follow_one_another() -> None:
    """As files hold them that kept the last frame of each."""
    bars = [f"Epoch {at}/9: 100%|██████████| 50/50 [02:00<00:00,  2.40s/it, loss=0.{90 - at}]" for at in range(1, 8)]
    assert _result_of(*bars).run.wall_s == pytest.approx(7 * 120)


def test_full_bars_of_ranks_ran_at_the_same_time() -> None:
    bars = [f"[rank{at}]: Epoch 1/9: 100%|██████████| 50/50 [02:00<00:00,  2.40s/it]" for at in range(8)]
    assert _result_of(*bars).run.wall_s == pytest.approx(120)


def test_epochs_without_clocks_add_up_behind_the_words_of_a_library() -> None:
    epochs = [
        line
        for at in range(1, 7)
        for line in (
            f"Epoch {at}/9",
            f"188/188 [==============================] - 70s 372ms/step - loss: 0.{90 - at} - accuracy: 0.81",
        )
    ]
    first = "2026-03-02 08:00:00.027607: I tensorflow/core/platform/cpu_feature_guard.cc:182] This binary is optimized."
    for lines in (epochs, [first, *epochs]):
        assert _result_of(*lines).run.wall_s == pytest.approx(6 * 70)


def test_samples_that_a_loop_trains_on_are_progress() -> None:
    result = "2026-03-02 08:00:{at:02d} Train Epoch: 1 [{n}/60000 ({at}%)]\tLoss: 0.{loss}"
    lines = [result.format(at=at, n=640 * at, loss=90 - at) for at in range(30)]
    assert _result_of(*lines).run.state is Progress.RUNNING


def test_a_rank_that_lost_its_peer_has_failed_whoever_did_it() -> None:
    snapshot = _result_of(
        "[rank0]: Traceback (most recent call last):",
        '[rank0]:   File "/srv/own/train.py", line 210, in <module>',
        "[rank0]:     dist.broadcast(weights, 0)",
        "[rank0]: torch.distributed.DistBackendError: NCCL error in: ../NCCLUtils.cpp:77, remote process exited or "
        "there was a network error, NCCL version 2.27.3",
    )
    assert snapshot.run.state is Progress.FAILED


def test_an_error_file_without_clocks_ends_when_the_output_does() -> None:
    """As a scheduler keeps two files of a job."""
    steps = [f"2026-03-02 08:{at:02d}:00 INFO step {at}/500 loss: 1.{90 - at}" for at in range(30)]
    snapshot = _result_of(*steps, companion=_TRACEBACK)
    assert snapshot.run.state is Progress.FAILED
    assert [row for row in snapshot.ledger if row.cause == "downtime"] == []
    assert snapshot.run.goal is not None
    assert snapshot.run.goal.remaining_s is None
