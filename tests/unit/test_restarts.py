"""Steps that begin anew behind a long silence are another run's; steps that go on are not, nor are those of epochs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest

from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.session import Session
from perfmon.rules.silence import FAREWELL

_BEGIN = datetime(2026, 3, 2, 8)
_STEP = "SUCCESS Step {step} |   60.0s | Reward 0.41 | Trainable 110/128 (85.9%) | Truncation 2.0%"
_TRAINED = "SUCCESS Step {step} |   60.0s | Loss 0.001 | Entropy 0.33 | Grad. Norm 0.11 | MFU 25.1% | Peak Mem. 71.3 G"
_HANG_S = 10_800


def _at(second: float) -> str:
    return f"{_BEGIN + timedelta(seconds=second):%Y-%m-%d %H:%M:%S}"


def _run(text: str, begin_s: float, steps: Iterable[int], load_s: float = 900.0) -> list[str]:
    result = [f"{_at(begin_s)} INFO Starting"]
    return [
        *result, *(f"{_at(begin_s + load_s + 60 * at)} {text.format(step=step)}" for at, step in enumerate(steps))
    ]  # fmt: skip


def _result_of(**logs: list[str]) -> Diagnosis:
    session = Session(Config())
    for name, lines in logs.items():
        session.feed(session.add_source(f"{name}.log"), Block("\n".join([*lines, ""]).encode(), 0, 1))
    return session.snapshot()


def _stalled_s(snapshot: Diagnosis) -> float:
    return sum(finding.lost_s for finding in snapshot.findings if finding.signature == "stall")


@pytest.mark.parametrize("first", [0, 1])
def test_the_time_between_two_runs_is_no_run_s(first: int) -> None:
    again = _HANG_S + 900 + 60 * 80
    logs = {
        "orchestrator": _run(_STEP, 0, range(80)) + _run(_STEP, again, range(first, 60)),
        "trainer": _run(_TRAINED, 0, range(80)) + _run(_TRAINED, again, range(first, 60)),
    }
    snapshot = _result_of(**logs)
    assert not snapshot.findings
    assert snapshot.run.wall_s == pytest.approx(2 * 900 + 60 * (79 + 59 - first), abs=1.0)
    for source in snapshot.run.sources:
        assert [note for note in source.notes if "steps restart after 3h 01m without output" in note]


def test_a_run_that_goes_on_was_silent() -> None:
    lines = _run(_STEP, 0, range(80)) + _run(_STEP, 900 + 60 * 80 + _HANG_S, range(80, 140), load_s=10)
    assert _stalled_s(_result_of(orchestrator=lines)) == pytest.approx(_HANG_S, abs=61.0)


def test_a_run_that_goes_on_from_its_last_checkpoint_was_down() -> None:
    lines = _run(_STEP, 0, range(80)) + _run(_STEP, 900 + 60 * 80 + _HANG_S, range(75, 140), load_s=10)
    snapshot = _result_of(orchestrator=lines)
    assert snapshot.run.runs == 2
    down = sum(entry.lost_s for entry in snapshot.ledger if entry.cause == "downtime")
    assert down == pytest.approx(_HANG_S, abs=61.0)


def test_steps_of_epochs_begin_anew_within_a_run() -> None:
    """A hang between two epochs of six."""
    lines = _run(_STEP, 0, [*range(30)] * 3)
    lines += _run(_STEP, 900 + 60 * 90 + _HANG_S, [*range(30)] * 3, load_s=10)
    assert _stalled_s(_result_of(trainer=lines)) == pytest.approx(_HANG_S, abs=61.0)


def test_a_run_of_which_one_part_was_started_again_was_silent() -> None:
    again = 900 + 60 * 80 + _HANG_S
    orchestrator = _run(_STEP, 0, range(80)) + _run(_STEP, again, range(60), load_s=10)
    trainer = _run(_TRAINED, 0, range(80)) + _run(_TRAINED, again, range(80, 140), load_s=10)
    assert _stalled_s(_result_of(orchestrator=orchestrator, trainer=trainer)) == pytest.approx(_HANG_S, abs=61.0)


_BEGUN = [
    "DEBUG Starting training step 80",
    "INFO [gen] batch.start inflight=64 target_batch=64",
    "INFO [weights][u80] client.send url=http://h:8000 path=/update_weights t=9000.0",
    "INFO [ckpt] wait.start target_step=80",
    "INFO Orchestrator paused: waiting for trainer process to complete checkpoint 79 (>1 step(s) ahead)",
]
_ENDED = ["INFO Training finished!", "INFO Shutting down", "ERROR RuntimeError: CUDA error: out of memory"]


def _run_again(*last: str) -> Diagnosis:
    """A run of 80 steps, its last lines, a silence, and another run."""
    end = 900 + 60 * 79
    lines = _run(_STEP, 0, range(80)) + [f"{_at(end + 1 + at)} {text}" for at, text in enumerate(last)]
    return _result_of(orchestrator=lines + _run(_STEP, end + len(last) + _HANG_S, range(60)))


@pytest.mark.parametrize("begun", _BEGUN)
def test_a_run_that_fell_silent_within_a_step_lost_the_silence(begun: str) -> None:
    snapshot = _run_again(begun)
    assert snapshot.verdict is not None
    assert snapshot.verdict.signature == "stall"
    assert _stalled_s(snapshot) == pytest.approx(_HANG_S, abs=61.0)
    assert [note for note in snapshot.run.sources[0].notes if "stopped logging within a step" in note]


@pytest.mark.parametrize("begun", _BEGUN)
@pytest.mark.parametrize("ended", _ENDED)
def test_a_run_that_said_its_end_lost_nothing(begun: str, ended: str) -> None:
    snapshot = _run_again(begun, ended)
    assert not _stalled_s(snapshot)
    assert [note for note in snapshot.run.sources[0].notes if "the gap is not evaluated" in note]


_TRACEBACK = "Traceback (most recent call last):\n  File 'train.py', line 3, in <module>\nRuntimeError: boom"


@pytest.mark.parametrize(
    "crash", [_TRACEBACK, "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-02T10:00:00 ***"]
)
def test_a_run_that_crashed_lost_nothing_afterwards(crash: str) -> None:
    """What a process prints as it dies has no clock."""
    end = 900 + 60 * 79
    lines = [*_run(_STEP, 0, range(80)), f"{_at(end + 1)} {_BEGUN[1]}", *crash.split("\n")]
    again = _run(_STEP, end + _HANG_S, range(60))
    assert not _stalled_s(_result_of(orchestrator=[*lines, *again]))
    assert _stalled_s(_result_of(orchestrator=[*crash.split("\n"), *lines[: -crash.count("\n") - 1], *again])) > 0


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("INFO Orchestrator paused: waiting for trainer process to complete checkpoint 9", False),
        ("[titan] root - INFO - Finished saving the checkpoint in 12.25 seconds.", False),
        ("INFO ✨ Evaluation completed in 00:03:00, global_step 10", False),
        ("[FullyAsyncTrainer] Loop collection completed: 128/128 samples", False),
        ("INFO Orchestrator finished.", True),
        ("INFO Training complete", True),
        ("[Pipeline] Completed: 48,000 samples in 1210.25s (39.7 samples/s)", True),
        ("INFO: Finished server process [4021]", True),
        ("INFO: Shutting down", True),
        ("{'train_runtime': 1234.5, 'epoch': 3.0}", True),
    ],
)
def test_a_farewell_is_that_of_a_run(line: str, is_one: bool) -> None:
    assert bool(FAREWELL.search(line)) is is_one


def test_what_a_run_left_open_is_not_open_in_the_next_one() -> None:
    end = 900 + 60 * 80
    lines = [*_run(_STEP, 0, range(80)), f"{_at(end)} {_BEGUN[3]}", *_run(_STEP, end + _HANG_S, range(60))]
    session = Session(Config())
    session.feed(session.add_source("run.log"), Block("\n".join([*lines, ""]).encode(), 0, 1))
    assert not list(session.store.opened())
    assert _stalled_s(session.snapshot()) == pytest.approx(_HANG_S, abs=61.0)


def test_a_share_of_errors_is_no_failure() -> None:
    step = "SUCCESS Step 80 |   60.0s | Reward 0.41 | Trainable 96/128 (75.0%) | Error 1.6% | Truncation 4.7%"
    end = 900 + 60 * 80
    trainer = [*_run(_TRAINED, 0, range(80)), f"{_at(end)} INFO Waiting for training batch to arrive"]
    logs = {
        "orchestrator": [*_run(_STEP, 0, range(80)), f"{_at(end)} {step}", *_run(_STEP, end + _HANG_S, range(60))],
        "trainer": trainer + _run(_TRAINED, end + _HANG_S, range(60)),
    }
    assert _stalled_s(_result_of(**logs)) == pytest.approx(_HANG_S, abs=61.0)


def test_what_ended_again_is_not_open() -> None:
    assert not _stalled_s(_run_again("INFO [gen] batch.start inflight=64", "INFO [gen] batch.done dur_ms=900"))
