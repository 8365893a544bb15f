"""A start that fails again and again: the banner of the next try does not hide what the one before died of."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from perfmon.core.model import Progress
from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.offline import diagnose_texts

_BEGIN = datetime(2026, 3, 2, 10)
_DEATH = """Traceback (most recent call last):
  File "/srv/app/serve.py", line 31, in main
    cache.allocate(config.blocks)
ValueError: No available memory for the cache blocks."""


def _at(second: float) -> str:
    return f"{_BEGIN + timedelta(seconds=second):%m-%d %H:%M:%S}"


def _banner(second: float) -> str:
    return f"(APIServer pid=1) INFO {_at(second)} [api_server.py:1839] vLLM API server version 0.11.0"


def _starts(count: int, apart_s: float = 60.0, word: str = "") -> list[str]:
    lines: list[str] = []
    for number in range(count):
        lines += [_banner(number * apart_s), f"INFO {_at(number * apart_s + 9)} [x.py:1] Starting to load model m..."]
        lines += [word, _DEATH] if word else [_DEATH]
    return [*lines, _banner(count * apart_s)]


def _result_of(lines: list[str]) -> Diagnosis:
    return diagnose_texts({"server.log": "\n".join(lines)})


def _failure(snapshot: Diagnosis) -> str:
    return "" if snapshot.verdict is None else snapshot.verdict.sentence


@pytest.mark.parametrize("count", [1, 2, 5, 60])
def test_the_failure_stands_while_the_start_is_tried_once_more(count: int) -> None:
    snapshot = _result_of(_starts(count))
    assert snapshot.run.state is Progress.STARTING
    assert "No available memory" in _failure(snapshot)
    assert "restarted since, and not ready yet" in _failure(snapshot)
    assert (f"{count} starts in a row failed" in _failure(snapshot)) == (count > 1)


def test_a_last_try_that_failed_tells_how_many_there_were() -> None:
    snapshot = _result_of([*_starts(2), _DEATH])
    assert snapshot.run.state is Progress.FAILED
    assert "3 starts in a row failed" in _failure(snapshot)
    assert "anew" not in _failure(snapshot)


@pytest.mark.parametrize(
    "behind",
    ["(APIServer pid=1) INFO:     Application startup complete.", "03-02 10:03:09 step=1 loss=2.5"],
    ids=["ready", "at work"],
)
def test_it_is_over_once_the_server_is_ready_or_work_goes_on(behind: str) -> None:
    assert not _failure(_result_of([*_starts(2), behind]))


def test_the_time_between_tries_is_downtime() -> None:
    ledger = {entry.cause: entry.lost_s for entry in _result_of(_starts(3)).ledger}
    assert ledger["downtime"] == pytest.approx(3 * 51.0, abs=1.0)


def test_who_starts_it_an_hour_later_starts_another_run() -> None:
    assert not _failure(_result_of(_starts(1, apart_s=3600.0)))


def test_a_failure_that_the_start_survives_is_none() -> None:
    """An optional part is missing, and the banner of another part comes behind that."""
    other = "[2026-03-02 10:00:20] server_args=ServerArgs(model_path='m', host='0.0.0.0', port=30000)"
    assert not _failure(_result_of([_banner(0), _DEATH, other]))
