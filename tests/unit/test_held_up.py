"""Evaluations and checkpoints that hold a training up are no productive time; those that go on beside it are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from perfmon.pipeline.offline import diagnose_texts

_BEGIN = datetime(2026, 3, 2, 10)
_SAVE_S, _EVALUATE_S, _LINE_S = 1.8, 60.0, 25.0


def _megatron(dated: bool, rows: bool) -> Iterator[str]:
    """A line every 10 iterations of 2.5 s; an evaluation behind each 100th, and a checkpoint after it."""
    now = _BEGIN
    for step in range(10, 401, 10):
        now += timedelta(seconds=_LINE_S)
        yield (
            f" {f'[{now}]' if dated else ''} iteration {step:8d}/   5000 | consumed samples: {step * 64:12d} | elapsed "
            "time per iteration (ms): 2500.0 | learning rate: 1.5E-04 | global batch size:    64 | lm loss: 2.1E+00 | "
            "loss scale: 1.0 | grad norm: 1.2 | number of skipped iterations: 0 | number of nan iterations: 0 |"
        )
        if step % 100 == 0:
            yield from _timer("evaluate", _EVALUATE_S, rows)
            yield f" validation loss at iteration {step} | lm loss value: 2.01E+00 | lm loss PPL: 7.4E+00 | "
            yield from _timer("save-checkpoint", _SAVE_S, rows)
            now += timedelta(seconds=_EVALUATE_S + _SAVE_S)


def _timer(name: str, seconds: float, rows: bool) -> Iterator[str]:
    if rows:
        yield from ("times across ranks (ms):", f"  {name}:")
        yield from (f"     rank {rank:2d}: {1000 * seconds - rank:.2f}" for rank in range(3))
    else:
        yield "(min, max) time across ranks (ms):"
        yield f"    {name:.<48}: ({1000 * seconds - 3:.2f}, {1000 * seconds:.2f})".replace(f"{name}.", f"{name} ", 1)


@pytest.mark.parametrize("rows", [False, True], ids=["minmax", "all"])
@pytest.mark.parametrize("dated", [True, False], ids=["dated", "clockless"])
def test_timers_of_evaluations_and_saves(dated: bool, rows: bool) -> None:
    snapshot = diagnose_texts({"train.log": "\n".join(_megatron(dated, rows))})
    ledger = {entry.cause: entry.lost_s for entry in snapshot.ledger}
    evaluated = ledger.pop("blocking-eval", 0.0) + ledger.pop("evaluation", 0.0)
    assert evaluated == pytest.approx(4 * _EVALUATE_S, abs=1.0)
    assert ledger["checkpoint"] == pytest.approx(4 * _SAVE_S, abs=1.0)
    assert ledger["productive"] == pytest.approx(40 * _LINE_S, rel=0.03)
    assert ledger["unaccounted"] == pytest.approx(0.0, abs=1.0)


def _steps(at_s: float) -> str:
    return f"{_BEGIN + timedelta(seconds=at_s)} INFO step={at_s / 10:.0f} step_time=10.0 loss=2.1"


def test_a_checkpoint_that_is_written_beside_the_steps_costs_nothing() -> None:
    lines = [_steps(at_s) for at_s in range(10, 610, 10)]
    lines.insert(40, f"{_BEGIN + timedelta(seconds=401)} [ckpt] write.done step=38 write_ms=21000")
    ledger = {entry.cause: entry.lost_s for entry in diagnose_texts({"train.log": "\n".join(lines)}).ledger}
    assert "checkpoint" not in ledger
    assert ledger["productive"] == pytest.approx(600.0, abs=11.0)


def test_one_between_two_steps_does() -> None:
    lines = [_steps(at_s) for at_s in range(10, 310, 10)] + [_steps(at_s) for at_s in range(314, 614, 10)]
    lines.insert(30, f"{_BEGIN + timedelta(seconds=304)} [ckpt] write.done step=30 write_ms=4000")
    ledger = {entry.cause: entry.lost_s for entry in diagnose_texts({"train.log": "\n".join(lines)}).ledger}
    assert ledger["checkpoint"] == pytest.approx(4.0, abs=0.1)


def test_evaluations_alone_do_not_prove_the_time_between_them() -> None:
    """No step for an hour, but its evaluations come every twelve minutes: what it does between them nobody knows."""
    lines = [_steps(at_s) for at_s in range(10, 610, 10)]
    form = "{} INFO:tensorflow:Saving dict for global step 61: eval_accuracy = 0.81"
    lines += [form.format(_BEGIN + timedelta(seconds=600 + 720 * at)) for at in range(1, 6)]
    entries = diagnose_texts({"train.log": "\n".join(lines)}).ledger
    assert next(entry.lost_s for entry in entries if entry.cause == "productive") < 700
