"""Logs that tell the time of day alone: the day is that on which the file was written, where it was written then."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import pytest

from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.offline import Options, examine

_DAY = 86400.0
_STEP = "[ckpt] write.done step={0} write_ms=80.0"
_ROLLOUT = "[rollout] trunc_pct=2.0 current_step={0} ckpt_step={0} staleness=0"
_NOON = datetime(2026, 3, 3, 12).timestamp()
_DATED = "%Y-%m-%d %H:%M:%S"


def _log(
    path: Path, text: str, first_s: int, until_s: int, written_s: float | None = None, header: str = "%H:%M:%S"
) -> None:
    """A line every ten seconds, by the clock of this machine; the file was written last `written_s` after noon."""
    lines = [
        f"{datetime.fromtimestamp(_NOON + s):{header}} INFO {text.format(s // 10)}\n"
        for s in range(first_s, until_s, 10)
    ]
    path.write_text("".join(lines))
    written = _NOON + (until_s - 8 if written_s is None else written_s)
    os.utime(path, (written, written))


def _spans(folder: Path) -> tuple[Diagnosis, list[tuple[float, float]]]:
    snapshot = examine(Options((str(folder),)))[0]
    first = min(source.first_s or 0.0 for source in snapshot.run.sources)
    spans = [((source.first_s or 0.0) - first, (source.last_s or 0.0) - first) for source in snapshot.run.sources]
    return snapshot, spans


@pytest.mark.parametrize("header", ["%H:%M:%S", _DATED])
def test_yesterdays_run_lies_a_day_before_todays(tmp_path: Path, header: str) -> None:
    _log(tmp_path / "a.log", _ROLLOUT, 0, 1200, header=header)
    _log(tmp_path / "b.log", _STEP, 5, 1200, header=header)
    _log(tmp_path / "c.log", _STEP, 100 - int(_DAY), 1000 - int(_DAY))
    snapshot, (a, b, c) = _spans(tmp_path)
    assert not snapshot.findings
    assert a[0] - c[0] == pytest.approx(_DAY - 100.0, abs=1.0)
    assert b[0] - a[0] == pytest.approx(5.0, abs=1.0)
    assert any("before the others start" in note for note in snapshot.run.sources[2].notes)


def test_files_that_were_copied_lie_over_each_other(tmp_path: Path) -> None:
    for copied_s in (1210.0, 3 * _DAY, 3 * _DAY + 1205.0):
        _log(tmp_path / "a.log", _ROLLOUT, 0, 1200, copied_s)
        _log(tmp_path / "b.log", _STEP, 100, 1100, copied_s + 0.1)
        _, (a, b) = _spans(tmp_path)
        assert b[0] - a[0] == pytest.approx(100.0, abs=1.0)


def test_one_file_that_was_copied_tells_no_day_for_any(tmp_path: Path) -> None:
    _log(tmp_path / "a.log", _ROLLOUT, 0, 1200)
    _log(tmp_path / "b.log", _STEP, 100, 1100, 5 * _DAY + 40_000.0)
    _, (a, b) = _spans(tmp_path)
    assert b[0] - a[0] == pytest.approx(100.0, abs=1.0)


def test_a_file_that_was_written_past_midnight_goes_on_with_the_others(tmp_path: Path) -> None:
    night = 12 * 3600
    _log(tmp_path / "a.log", _ROLLOUT, night - 600, night + 600)
    _log(tmp_path / "b.log", _STEP, night + 100, night + 600)
    _, (a, b) = _spans(tmp_path)
    assert b[0] - a[0] == pytest.approx(700.0, abs=1.0)
