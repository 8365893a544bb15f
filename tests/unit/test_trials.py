"""Bars of several trials in one log: they run at the same time, and their times are not added up."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from perfmon.pipeline.offline import diagnose_texts


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def _trials(name: Callable[[int], str], at_once: int, trials: int = 6) -> tuple[str, float]:
    """Trials of 80 steps, so many at once, each on a GPU that another one has left; and how long that took."""
    chance, free = random.Random(7), [0.0] * at_once
    frames = []
    for trial in range(trials):
        gpu = min(range(at_once), key=free.__getitem__)
        begin, step_s = free[gpu] + chance.uniform(3, 20), chance.uniform(1.5, 3.0)
        frames += [(begin + n * step_s, trial, n, step_s) for n in range(81)]
        free[gpu] = begin + 80 * step_s
    frames.sort()
    lines = [
        f"{name(trial)}Training: {n / 0.8:3.0f}%|####    | {n}/80 [{_clock(n * step_s)}<{_clock((80 - n) * step_s)}, "
        f"{step_s:.2f}s/it]"
        for _, trial, n, step_s in frames
    ]
    return "\n".join(lines), frames[-1][0] - frames[0][0]


@pytest.mark.parametrize("at_once", [1, 2, 4])
@pytest.mark.parametrize(
    "name",
    [
        lambda trial: f"(train_fn pid={4100 + trial}) ",
        lambda trial: f"(train_fn pid=4100, ip=10.0.0.{trial + 1}) ",
        lambda trial: f"(train_mnist_1a2b_{trial:05d}) ",
        lambda trial: f"[rank{trial}]: ",
        lambda _: "",
    ],
    ids=["pid", "host", "trial", "rank", "nothing"],
)
def test_a_log_of_trials_is_as_long_as_they_ran(name: Callable[[int], str], at_once: int) -> None:
    text, took = _trials(name, at_once)
    # Without a clock nobody knows how long a GPU was idle between two trials.
    assert diagnose_texts({"tune.log": text}).run.wall_s == pytest.approx(took, rel=0.1 if at_once > 1 else 0.2)


def test_ranks_whose_bars_are_a_little_apart_are_one_bar() -> None:
    frames = [(n, late) for n in range(1, 301) for late in (0, 1, 2)]
    lines = [f"Training: {n / 3:3.0f}%|##   | {n}/300 [{_clock(2 * n + late)}<?, 2.00s/it]" for n, late in frames]
    run = diagnose_texts({"train.log": "\n".join(lines)}).run
    assert run.wall_s == pytest.approx(600.0, abs=5.0)
