"""What polled GPUs say about a run, and what they do not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from perfmon.core.model import Severity
from perfmon.diagnosis.result import Finding
from perfmon.pipeline.offline import diagnose_texts

BEGIN = datetime(2026, 3, 2, 8, 15)
Use = Callable[[int], int]


def stamp(at: int) -> str:
    """A moment of the run."""
    return (BEGIN + timedelta(seconds=at)).strftime("%Y-%m-%d %H:%M:%S")


def polls(index: int, use: Use, seconds: int, words: str = "state=ok", every: int = 1) -> list[str]:
    """A GPU, polled every second."""
    line = "{}.118 [poll] gpu host=a100-0 name={} util_pct={} mem_used_mb=71840 mem_total_mb=81559 {}"
    return [line.format(stamp(at), index, use(at), words) for at in range(0, seconds, every)]


def steps(begin: int, end: int, every: int = 10) -> str:
    """A trainer that makes a step ever so often."""
    line = "[titan] {},402 - root - INFO - step: {:2d}  loss: 10.1  memory: 47.3GiB(59.8%)  tps: 914  mfu: 1.71%"
    return "\n".join(line.format(stamp(at), number) for number, at in enumerate(range(begin, end, every)))


def found(trainer: str, *gpus: list[str]) -> dict[str, Finding]:
    """The findings about GPUs, by GPU."""
    lines = sorted(line for gpu in gpus for line in gpu)
    snapshot = diagnose_texts({"gpus.log": "\n".join(lines), "train.log": trainer})
    return {f.identity["group"]: f for f in snapshot.findings if f.signature.startswith("gpu-")}


def test_each_idle_gpu_is_told_by_its_name_with_what_it_costs() -> None:
    result = found(steps(20, 400), polls(0, lambda at: 96, 400), polls(5, lambda at: 23, 400))
    assert list(result) == ["a100-0:5"]
    finding = result["a100-0:5"]
    assert (finding.signature, finding.severity, finding.state) == ("gpu-idle", Severity.CRITICAL, "firing")
    assert finding.sentence == (
        "GPU a100-0:5 was busy 23.0 % of the time while the run continued, with 88.1 % of its memory in use"
    )
    assert finding.lost_s == pytest.approx(0.77 * 250, rel=0.05)


@pytest.mark.parametrize(("use", "severity"), [(62, Severity.WARNING), (49, Severity.CRITICAL), (72, None)])
def test_how_idle_it_must_be(use: int, severity: Severity | None) -> None:
    result = found(steps(20, 400), polls(0, lambda at: use, 400))
    assert [finding.severity for finding in result.values()] == ([severity] if severity else [])


def test_polled_rarely_or_often_it_is_the_same() -> None:
    rare, often = (found(steps(20, 600), polls(0, lambda at: 30, 600, every=every)) for every in (1, 5))
    assert rare["a100-0:0"].lost_s == pytest.approx(often["a100-0:0"].lost_s, rel=0.05)


def test_ranks_that_tell_of_one_step_each_are_one_step() -> None:
    trainer = "\n".join(line for line in steps(20, 400).splitlines() for _ in range(8))
    assert list(found(trainer, polls(0, lambda at: 30, 400))) == ["a100-0:0"]


@pytest.mark.parametrize("trainer", ["", steps(20, 50), steps(380, 400), "\n".join(steps(20, 100).splitlines()[:4])])
def test_a_gpu_may_idle_where_nothing_says_that_the_run_works(trainer: str) -> None:
    assert not found(trainer, polls(0, lambda at: 97 if 20 <= at < 50 else 0, 400))


def test_evaluations_between_steps_are_no_idleness() -> None:
    assert not found(steps(20, 600), polls(0, lambda at: 10 if at % 120 < 20 else 97, 600))


HOT = "sm_mhz=990 sm_max_mhz=1980 temp_c=93 throttled=1 throttle=hw-thermal+power-cap state=ok"
COOL = "sm_mhz=1935 sm_max_mhz=1980 temp_c=64 throttled=1 throttle=power-cap state=ok"


def test_the_reason_is_named_and_only_its_own() -> None:
    result = found(steps(20, 200), polls(0, lambda at: 99, 200, HOT), polls(1, lambda at: 99, 200, COOL))
    assert list(result) == ["a100-0:0"]
    assert result["a100-0:0"].sentence == (
        "GPU a100-0:0: clocks were throttled, by heat in 191 polls, by its power limit in 191 polls, to 990 MHz, "
        "50.0 % below maximum, at up to 93 °C"
    )
    assert result["a100-0:0"].severity is Severity.WARNING
    assert result["a100-0:0"].lost_s == pytest.approx(98, rel=0.05)


def test_what_another_gpu_suffers_from_is_not_told_of_this_one() -> None:
    slow = "sm_mhz=790 sm_max_mhz=1980 throttled=1 throttle=power-cap state=ok"
    result = found(steps(20, 200), polls(0, lambda at: 99, 200, HOT), polls(1, lambda at: 99, 200, slow))
    assert "heat" in result["a100-0:0"].sentence
    assert "heat" not in result["a100-0:1"].sentence
    assert result["a100-0:1"].severity is Severity.CRITICAL


def test_without_clocks_the_reason_is_enough() -> None:
    result = found("", polls(0, lambda at: 99, 200, "throttled=1 throttle=hw-thermal state=ok"))
    assert result["a100-0:0"].sentence.startswith("GPU a100-0:0: clocks were throttled, by heat in ")


def test_others_gpus_say_nothing_about_this_run() -> None:
    assert not found(steps(20, 400), polls(0, lambda at: 30, 400, "state=ok mine=no"))


def test_a_gpu_that_is_lost_is_told_by_its_name_until_it_comes_back() -> None:
    there = polls(0, lambda at: 97, 60)
    lost = [f"{stamp(at)}.118 [poll] gpu host=a100-0 name=1 uuid=GPU-7d1a state=lost" for at in range(60)]
    result = found(steps(0, 60), there, lost)
    assert [(name, f.signature, f.severity, f.state) for name, f in result.items()] == [
        ("a100-0:1", "gpu-lost", Severity.CRITICAL, "firing")
    ]
    back = polls(1, lambda at: 97, 60)[20:]
    assert found(steps(0, 60), there, lost[:20] + back)["a100-0:1"].state == "resolved"


def test_a_gpu_that_idles_in_a_pause_between_steps_is_no_idle_one() -> None:
    """An evaluation, a checkpoint: no steps are made in it."""
    trainer = steps(20, 300, 2) + "\n" + steps(380, 900, 2)
    assert found(trainer, polls(0, lambda at: 8 if 300 <= at < 380 else 93, 900)) == {}
