"""The bootstrap: its intervals cover the truth about as often as they say, on samples that remember each other too."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from perfmon.core.stats import block_length, mean_change, quantile_change, resample, student

Make = Callable[[random.Random], list[float]]


def independent(count: int) -> Make:
    """Samples that know nothing of each other."""
    return lambda chance: [chance.gauss(10.0, 2.0) for _ in range(count)]


def stepwise(steps: int, servers: int) -> Make:
    """One update of many servers at each step: most of what they take is the step's."""

    def make(chance: random.Random) -> list[float]:
        usual = [chance.gauss(10.0, 1.8) for _ in range(steps)]
        return [step + chance.gauss(0.0, 0.9) for step in usual for _ in range(servers)]

    return make


def covered(make: Make, runs: int = 200) -> float:
    """How often the interval of a difference that is none holds 0."""
    pairs = [(make(random.Random(f"a{at}")), make(random.Random(f"b{at}"))) for at in range(runs)]
    intervals = [mean_change(resample(a, (), 200), resample(b, (), 200)) for a, b in pairs]
    return sum(interval is not None and interval[0] <= 0 <= interval[1] for interval in intervals) / runs


@pytest.mark.parametrize("make", [independent(15), independent(200), stepwise(15, 16), stepwise(40, 8)])
def test_a_difference_by_chance_is_within_the_interval_nearly_always(make: Make) -> None:
    assert 0.87 <= covered(make) <= 0.99


def test_a_real_difference_is_outside_of_it() -> None:
    chance = random.Random(1)
    before, after = ([chance.gauss(mean, 2.0) for _ in range(60)] for mean in (10.0, 13.0))
    interval = mean_change(resample(before), resample(after))
    assert interval is not None
    assert 1.5 < interval[0] < 3.0 < interval[1] < 4.5


def test_servers_of_one_step_count_as_little_more_than_one_sample() -> None:
    alike = resample(stepwise(30, 16)(random.Random(2)))
    apart = resample(independent(480)(random.Random(2)))
    assert alike.effective < 100
    assert apart.effective > 350


def _walk(memory: float) -> list[float]:
    chance, at, values = random.Random(3), 0.0, list[float]()
    for _ in range(64):
        at = memory * at + chance.gauss(0.0, 1.0)
        values.append(at)
    return values


def test_blocks_are_as_long_as_the_memory() -> None:
    assert block_length(_walk(0.0)) == 1
    assert 3 < block_length(_walk(0.8)) <= 64 // 5
    assert block_length([5.0] * 64) == 1


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0], [1.0, 2.0, 3.0, 4.0]])
def test_of_too_few_samples_nothing_is_said(values: Sequence[float]) -> None:
    few, many = resample(values, (0.5,)), resample(independent(50)(random.Random(4)), (0.5,))
    assert mean_change(few, many) is None
    assert quantile_change(few, many, 0.5) is None


def test_a_p95_takes_more_samples_than_a_median() -> None:
    few = resample(independent(15)(random.Random(5)), (0.5, 0.95))
    many = resample(independent(300)(random.Random(5)), (0.5, 0.95))
    assert quantile_change(few, few, 0.5) is not None
    assert quantile_change(few, few, 0.95) is None
    assert quantile_change(many, many, 0.95) is not None


def test_the_median_has_an_interval_of_its_own() -> None:
    chance = random.Random(6)
    before = [chance.gauss(10.0, 1.0) for _ in range(100)]
    after = [value + 5.0 for value in before]
    interval = quantile_change(resample(before, (0.5,)), resample(after, (0.5,)), 0.5)
    assert interval is not None
    assert 4.0 < interval[0] < 5.0 < interval[1] < 6.0


def test_constants_differ_for_sure() -> None:
    assert mean_change(resample([3.0] * 9), resample([4.0] * 9)) == (1.0, 1.0)


@pytest.mark.parametrize(("freedom", "expected"), [(4, 2.776), (9, 2.262), (29, 2.045), (1000, 1.962)])
def test_students_quantile(freedom: float, expected: float) -> None:
    assert student(freedom) == pytest.approx(expected, rel=0.01)
