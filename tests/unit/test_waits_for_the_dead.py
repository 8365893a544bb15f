"""What waits for a process that is down waits for nothing else: the time is downtime, and no bottleneck."""

from __future__ import annotations

from feeding import feed

from perfmon.clocks.alignment import align
from perfmon.core.config import Config
from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.session import Session

_STEP = "SUCCESS Step {} |   10.0s | Loss 0.1 | Grad. Norm 0.1 | LR 1.00e-06 | Throughput 900 tokens/s"
_BEGIN = "INFO Starting RL trainer in World(world_size=1, rank=0, local_rank=0, local_world_size=1, num_nodes=1)"
_DEATH = [
    "Traceback (most recent call last):",
    '  File "/opt/train/steps.py", line 88, in forward',
    "    loss.backward()",
    "torch.AcceleratorError: CUDA error: unspecified launch failure",
]


def _at(second: int) -> str:
    return f"2026-03-02 10:{second // 60:02d}:{second % 60:02d}"


def _trainer(begin_s: int, steps: range) -> list[str]:
    begin = [f"{_at(begin_s)} {_BEGIN}"]
    return begin + [f"{_at(begin_s + 10 * (at + 1))} {_STEP.format(step)}" for at, step in enumerate(steps)]


def _waited(begin_s: int, end_s: int, step: int) -> list[str]:
    return [
        f"{_at(begin_s)} INFO [ckpt] wait.start target_step={step}",
        f"{_at(end_s)} INFO [ckpt] wait.done target_step={step} wait_ms={1000 * (end_s - begin_s)}.0",
    ]


def _rollouts(begin_s: int, steps: range) -> list[str]:
    line = "{} INFO [rollout] trunc_pct=1.0 current_step={} ckpt_step={} staleness=1"
    return [line.format(_at(begin_s + 10 * at), step, step - 1) for at, step in enumerate(steps)]


def _watched(trainer: list[str], orchestrator: list[str]) -> list[Diagnosis]:
    session = Session(Config())
    for name, lines in (("trainer.log", trainer), ("orchestrator.log", orchestrator)):
        feed(session, name, ["\n".join([*lines, ""])])
    now = max(state.last or 0.0 for state in session.store.sources)
    return [session.snapshot(), session.present((now - 1800, now), align(session.store), now)]


def test_a_wait_over_a_restart_costs_downtime_and_the_steps_made_again() -> None:
    trainer = [*_trainer(0, range(1, 13)), *_DEATH, *_trainer(200, range(9, 30))]
    orchestrator = [*_rollouts(5, range(1, 14)), *_waited(126, 250, 13), *_rollouts(255, range(14, 29))]
    for snapshot in _watched(trainer, orchestrator):
        assert not snapshot.findings
        assert snapshot.verdict is None
        lost = {entry.cause: round(entry.lost_s) for entry in snapshot.ledger}
        assert (lost["downtime"], lost["wasted-progress"]) == (80, 40)


def test_a_wait_for_a_trainer_that_died_is_no_bottleneck() -> None:
    trainer = [*_trainer(0, range(1, 13)), *_DEATH]
    orchestrator = [*_rollouts(5, range(1, 14)), *_waited(126, 250, 13)]
    for snapshot in _watched(trainer, orchestrator):
        assert [finding.signature for finding in snapshot.findings] == ["run-failed"]


def test_a_slow_checkpoint_after_the_restart_is_one() -> None:
    trainer = [*_trainer(0, range(1, 13)), *_DEATH, *_trainer(200, range(9, 30))]
    orchestrator = [*_rollouts(5, range(1, 14)), *_rollouts(255, range(14, 29)), *_waited(410, 440, 29)]
    for snapshot in _watched(trainer, orchestrator):
        assert "checkpoint-stall" in {finding.signature for finding in snapshot.findings}


def test_a_disk_that_is_full_still_is() -> None:
    disk = "{}.000 [poll] disk host=a name=/data used_pct=98.5 free_gb=30 total_gb=2000 holds=checkpoints+logs"
    polls = [disk.format(_at(second)) for second in range(0, 400, 10)]
    trainer = [*_trainer(0, range(1, 13)), *_DEATH]
    for snapshot in _watched(trainer, polls):
        assert {finding.signature for finding in snapshot.findings} == {"run-failed", "disk-full"}
        (full,) = (finding for finding in snapshot.findings if finding.signature == "disk-full")
        assert full.last_s > 300
