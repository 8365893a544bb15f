"""Whether a run will be done before its time limit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.offline import diagnose_texts

_BEGIN = datetime(2026, 3, 2, 10)


def _steps(count: int, total: int = 2000, begin: datetime = _BEGIN) -> list[str]:
    """A line every 10 steps of 10 s."""
    return [
        f"{begin + timedelta(seconds=10 * at)} step {at}/{total} loss 2.1 step_time 10.0"
        for at in range(10, 10 * count + 1, 10)
    ]


def _result_of(*lines: str) -> Diagnosis:
    return diagnose_texts({"train.log": "\n".join(lines)})


def _sentence(snapshot: Diagnosis) -> str:
    return next((one.sentence for one in snapshot.findings if one.signature == "time-limit-ahead"), "")


_LIMITS = [
    "#SBATCH --time=03:30:00",
    "#SBATCH -t 210",
    "   RunTime=00:00:12 TimeLimit=03:30:00 TimeMin=N/A",
    "#BSUB -W 3:30",
    "    RUNLIMIT\n 210.0 min of node7",
    "#PBS -l select=2:ngpus=8,walltime=03:30:00",
    "  exit_duration_in_mins ........................... 210",
    "Job 4711 will be cancelled at 2026-03-02T13:30:00",
]


@pytest.mark.parametrize("limit", _LIMITS)
def test_a_run_that_needs_longer_is_told_so(limit: str) -> None:
    snapshot = _result_of(f"{_BEGIN} INFO starting", limit, *_steps(18))
    assert snapshot.run.limit_left_s == pytest.approx(3 * 3600, abs=60)
    assert "it needs 5h 03m, and has 3h 00m (180 of 2,000 done)" in _sentence(snapshot)
    assert snapshot.verdict is not None
    assert snapshot.verdict.severity == "warning"


@pytest.mark.parametrize("limit", _LIMITS)
def test_one_that_has_time_enough_is_not(limit: str) -> None:
    assert not _sentence(_result_of(f"{_BEGIN} INFO starting", limit, *_steps(18, 1000)))


@pytest.mark.parametrize(
    "lines",
    [
        ["#SBATCH --time=03:30:00", *_steps(1)],
        ["#SBATCH --time=05:10:00", *_steps(18)],
        ["#SBATCH --time=UNLIMITED", *_steps(18)],
        ["#SBATCH --time=00:40:00", *_steps(18, 180)],
        ["INFO step_time is limited, --time=00:10:00 of it", *_steps(18)],
    ],
    ids=["too early to tell", "nearly enough", "no limit", "it is done", "no limit of the job"],
)
def test_nothing_is_claimed_without_proof(lines: Sequence[str]) -> None:
    assert not _sentence(_result_of(f"{_BEGIN} INFO starting", *lines))


def test_each_run_of_a_file_has_its_own_limit() -> None:
    later = _BEGIN + timedelta(hours=9)
    first = [f"{_BEGIN} INFO starting", "#SBATCH --time=00:40:00", "SLURM_JOB_ID=61001", *_steps(18)]
    killed = "slurmstepd: error: *** JOB 61001 ON node7 CANCELLED AT 2026-03-02T10:40:00 DUE TO TIME LIMIT ***"
    second = [f"{later} INFO starting", "SLURM_JOB_ID=61002", *_steps(18, begin=later)]
    assert _result_of(*first, killed, *second).run.limit_left_s is None


def test_a_bar_without_any_clock_has_its_own() -> None:
    frames = [f"{at / 20:3.0f}%|#   | {at}/2000 [{at // 6:02d}:{at % 6}0<?, 10.00s/it]" for at in range(10, 190, 10)]
    assert "and has 20m" in _sentence(_result_of("#SBATCH --time=00:50:00", *frames))
