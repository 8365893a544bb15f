"""A start that died of an exception before its first step is an attempt of its own; an exception survived is not."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from perfmon.core.model import Progress
from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.offline import diagnose_texts

_BEGIN = datetime(2026, 3, 2, 10)
_CAUGHT = """Traceback (most recent call last):
  File "/srv/app/fit.py", line 31, in run
    self.build(config)
RuntimeError: expected 4 channels, got 3"""
_UNCAUGHT = """Traceback (most recent call last):
  File "/srv/app/fit.py", line 90, in <module>
    run()
RuntimeError: expected 4 channels, got 3"""


def _line(second: float, text: str) -> str:
    return f"{_BEGIN + timedelta(seconds=second):%Y-%m-%d %H:%M:%S},000 - app - INFO - {text}"


def _opening(second: float, words: str = "Reading settings of configs/base.yaml") -> list[str]:
    return [_line(second, words), _line(second + 1, "Using device: cuda"), _line(second + 4, "Building the model")]


def _steps(second: float, first: int = 1, count: int = 40) -> list[str]:
    return [_line(second + 10 * at, f"Step {first + at}: loss=0.5000") for at in range(count)]


def _result_of(*parts: list[str] | str) -> Diagnosis:
    lines = [line for part in parts for line in ([part] if isinstance(part, str) else part)]
    return diagnose_texts({"app.log": "\n".join(lines)})


def _notes(snapshot: Diagnosis) -> str:
    return " ".join(note for source in snapshot.run.sources for note in source.notes)


def _lost(snapshot: Diagnosis, name: str) -> float:
    return sum(row.lost_s for row in snapshot.ledger if row.cause == name)


@pytest.mark.parametrize("apart_s", [140, 3_000, 250_000])
def test_a_start_that_comes_again_after_a_traceback_is_another_one(apart_s: int) -> None:
    snapshot = _result_of(_opening(0), _CAUGHT, _opening(apart_s), _steps(apart_s + 30))
    assert snapshot.run.runs == 2
    assert snapshot.run.state is not Progress.FAILED
    assert "a failed start is retried" in _notes(snapshot)
    assert "ended by an uncaught exception" in _notes(snapshot)
    assert _lost(snapshot, "downtime") == pytest.approx(apart_s - 4, abs=2)
    assert _lost(snapshot, "startup") < 60


def test_the_script_itself_died_and_another_opening_follows() -> None:
    snapshot = _result_of(_opening(0), _UNCAUGHT, _opening(140, "Settings: smaller model"), _steps(170))
    assert snapshot.run.runs == 2
    assert _lost(snapshot, "downtime") == pytest.approx(136, abs=2)


def test_each_start_that_died_counts() -> None:
    snapshot = _result_of(_opening(0), _CAUGHT, _opening(200), _CAUGHT, _opening(500), _steps(530))
    assert snapshot.run.runs == 3


def test_a_start_of_one_line_days_before() -> None:
    snapshot = _result_of(
        _line(0, "Starting to train"), _UNCAUGHT, _line(250_000, "Starting to train"), _steps(250_010)
    )
    assert snapshot.run.runs == 2
    assert "ended by an uncaught exception" in _notes(snapshot)
    assert _lost(snapshot, "productive") > 300


def test_an_exception_that_a_start_survives_divides_nothing() -> None:
    snapshot = _result_of(_opening(0), _CAUGHT, _line(140, "Continuing without it"), _steps(170))
    assert snapshot.run.runs == 1
    assert not _notes(snapshot)


def test_an_exception_of_a_run_at_work_divides_nothing() -> None:
    snapshot = _result_of(_opening(0), _steps(10), _UNCAUGHT, _line(540, "Evaluating"), _steps(550, first=41))
    assert snapshot.run.runs == 1


def test_a_check_that_died_just_before_the_run_divides_nothing() -> None:
    snapshot = _result_of(_line(0, "Looking for devices"), _UNCAUGHT, _opening(12), _steps(30))
    assert snapshot.run.runs == 1
