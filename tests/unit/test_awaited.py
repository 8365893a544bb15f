"""A log that has been silent for long when the monitor is opened: what is due of it, and what is of the past."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from perfmon.core.config import Config
from perfmon.monitor import glance
from perfmon.monitor.source_health import files_open_to_write

SILENT_S = 1500.0


def log(folder: Path, total: int | None, silent_s: float = SILENT_S) -> Path:
    """The log of 200 steps, each of 5 seconds, of which the last one was printed so long ago."""
    end = time.time() - silent_s
    lines = []
    for step in range(1, 201):
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(end - 5.0 * (200 - step)))
        lines.append(f"{clock} step {step}{'' if total is None else f'/{total}'} loss {2.0 - step / 500:.3f}\n")
    path = folder / "train.log"
    path.write_text("".join(lines), "utf-8")
    os.utime(path, (end, end))
    return path


def state_of(path: Path) -> str:
    snapshot = glance((str(path),), Config(), "600s").picture.snapshot
    assert snapshot is not None
    return snapshot.run.state.value


@pytest.mark.parametrize(("total", "state"), [(1000, "stalled"), (200, "finished"), (None, "running")])
def test_a_run_that_has_not_done_its_work_stands_still(tmp_path: Path, total: int | None, state: str) -> None:
    assert state_of(log(tmp_path, total)) == state


def test_after_more_than_an_hour_it_is_of_the_past(tmp_path: Path) -> None:
    assert state_of(log(tmp_path, 1000, 5000.0)) == "running"


def test_a_log_that_a_process_has_open_is_awaited(tmp_path: Path) -> None:
    path = log(tmp_path, None)
    with path.open("rb"):
        assert os.path.realpath(path) not in files_open_to_write()
    with path.open("ab"):
        assert os.path.realpath(path) in files_open_to_write()
        assert state_of(path) == "stalled"
    assert os.path.realpath(path) not in files_open_to_write()
