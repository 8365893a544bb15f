"""A log that prints a line every so many steps covers all of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest

from perfmon.pipeline.offline import diagnose_texts

_BEGIN = datetime(2026, 3, 2, 10)


def _log(steps: Iterable[object], form: str = "{time} INFO step={step} step_time=2.0 loss=1.5") -> str:
    return "\n".join(
        form.format(time=_BEGIN + timedelta(seconds=20 * at), step=step) for at, step in enumerate(steps)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "covered"),
    [
        (range(1, 31), 30),
        (range(30), 30),
        (range(50, 2001, 50), 2000),
        ([*range(50, 1001, 50)] * 3, 3000),
        (range(500, 1001, 50), 550),
        ([*range(10, 201, 10), *range(9010, 9201, 10)], 400),
        ([1, *range(10, 301, 10)], 300),
    ],
    ids=["each", "from zero", "every fiftieth", "epochs", "the end of a log", "resumed far on", "the first one too"],
)
def test_steps_that_lines_cover_are_counted(steps: Iterable[int], covered: int) -> None:
    assert f" {covered} training steps observed" in diagnose_texts({"train.log": _log(steps)}).summary


def test_so_are_training_steps_whose_lines_tell_their_length() -> None:
    form = (
        "{time:%Y/%m/%d %H:%M:%S} - mmengine - INFO - Iter(train) [{step:6d}/80000]  lr: 1.0e-03  eta: 2:00:00  "
        "time: 0.4000  data_time: 0.0100  memory: 5000  loss: 0.91"
    )
    snapshot = diagnose_texts({"train.log": _log(range(50, 2001, 50), form)})
    assert " 2000 training steps observed" in snapshot.summary
    assert snapshot.run.goal is not None
    assert (snapshot.run.goal.done, snapshot.run.goal.total) == (2000, 80000)


def test_ranks_that_tell_of_the_same_steps_make_them_once() -> None:
    logs = {f"rank{rank}.log": _log(range(10, 301, 10)) for rank in range(4)}
    assert " 300 training steps observed" in diagnose_texts(logs).summary
