"""Several logs in one view: what one run does is no proof against another, and each figure is of one thing."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from perfmon.cli import main
from perfmon.core.errors import ExitCode

Output = pytest.CaptureFixture[str]
_BEGIN = datetime(2026, 3, 2, 8, 0)


def _clock(seconds: float) -> str:
    return f"{_BEGIN + timedelta(seconds=seconds):%H:%M:%S}"


def _write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def _trainer(path: Path, times: list[float]) -> None:
    _write(
        path,
        [
            f"{_clock(time)}    INFO Step {n} | Time: 5.00s | Loss: 0.0012 | Entropy: 0.3 | LR: 1.00e-06"
            for n, time in enumerate(times)
        ],
    )


def _orchestrator(path: Path, times: list[float], server: Path | None = None) -> None:
    """Updates of the weights, and the server's line of each, some seconds before they are over."""
    _write(
        path,
        [
            line
            for n, time in enumerate(times)
            for line in (
                f"{_clock(time - 12)}   DEBUG Got new policy with step {n}. Updating weights.",
                f"{_clock(time)}   DEBUG Updated weights to step {n} in 12.00s",
            )
        ],
    )
    if server is not None:
        _write(
            server,
            [
                line
                for time in times
                for line in (
                    f"INFO 03-02 {_clock(time - 9)} [loggers.py:127] Engine 000: Avg prompt throughput: 90.0 tokens/s, "
                    "Avg generation throughput: 900.0 tokens/s, Running: 9 reqs, Waiting: 0 reqs, "
                    "GPU KV cache usage: 9.0%, Prefix cache hit rate: 20.0%",
                    'INFO:     10.0.0.2:41022 - "POST /update_weights HTTP/1.1" 200 OK',
                )
            ],
        )


def _found(folder: Path, capsys: Output) -> set[str]:
    assert main(["analyze", "--json", str(folder)]) == ExitCode.DONE
    return {finding["signature"] for finding in json.loads(capsys.readouterr().out)["findings"]}


_UPDATES = [30.0 * n for n in range(1, 12)]
_PAUSED = [*_UPDATES, *(time + 500 for time in _UPDATES)]


def test_steps_of_another_run_do_not_miss_an_update(tmp_path: Path, capsys: Output) -> None:
    _orchestrator(tmp_path / "rl" / "orchestrator.log", _PAUSED)
    _trainer(tmp_path / "rl" / "trainer.log", [time - 15 for time in _PAUSED])
    _trainer(tmp_path / "other" / "trainer.log", [5.0 * n for n in range(1, 160)])
    assert "no-weight-updates" not in _found(tmp_path, capsys)


def test_its_own_steps_do(tmp_path: Path, capsys: Output) -> None:
    _orchestrator(tmp_path / "rl" / "orchestrator.log", _PAUSED)
    _trainer(tmp_path / "rl" / "trainer.log", [15.0 * n for n in range(1, 55)])
    _trainer(tmp_path / "other" / "trainer.log", [5.0 * n for n in range(1, 160)])
    assert "no-weight-updates" in _found(tmp_path, capsys)


def test_the_trainer_of_a_run_may_log_elsewhere(tmp_path: Path, capsys: Output) -> None:
    _orchestrator(tmp_path / "inference" / "orchestrator.log", _PAUSED)
    _trainer(tmp_path / "trainer" / "trainer.log", [15.0 * n for n in range(1, 55)])
    assert "no-weight-updates" in _found(tmp_path, capsys)


def test_lines_of_client_and_server_are_one_update(tmp_path: Path, capsys: Output) -> None:
    times = [100.0 * n for n in range(1, 12)]
    _orchestrator(tmp_path / "orchestrator.log", times, tmp_path / "inference.log")
    _trainer(tmp_path / "trainer.log", [10.0 * n for n in range(1, 110)])
    assert "no-weight-updates" not in _found(tmp_path, capsys)


def test_the_rate_of_an_asynchronous_run_is_that_of_its_orchestrator(tmp_path: Path, capsys: Output) -> None:
    orchestrator = [
        f"{_clock(100 * n)} SUCCESS Step {n} | Time: 100.0s | Reward: 0 | Throughput: 2000.0 tokens/s | Async Level: 1"
        for n in range(1, 9)
    ]
    trainer = [
        f"{_clock(100 * n + 50)}    INFO Step {n} | Time: 25.0s | Loss: 0.0012 | LR: 1.e-06 | Throughput: 8000 tokens/s"
        for n in range(1, 9)
    ]
    for logs, rate in (({"orchestrator": orchestrator, "trainer": trainer}, 2000.0), ({"trainer": trainer}, 8000.0)):
        folder = tmp_path / str(len(logs))
        for name, lines in logs.items():
            _write(folder / f"{name}.log", lines)
        assert main(["analyze", "--json", str(folder)]) == ExitCode.DONE
        assert json.loads(capsys.readouterr().out)["metrics"]["throughput_tps"]["last"] == rate
