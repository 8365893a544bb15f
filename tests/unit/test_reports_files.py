"""The folder of an analysis: which files, which names, what they say."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path

import pytest
import snapshots

from perfmon.core.errors import InputError
from perfmon.reports.files import stats_files, write_analysis

NOW = datetime(2026, 11, 20, 9, 12, 22)  # noqa: DTZ001, RUF100 (a local time of day, as in the folder's name)
FILES = {
    "SUMMARY.md",
    "queue_ms_stats.txt",
    "rpc_ms_stats.txt",
    "ckpt_wait_stats.txt",
    "inflight_stats.txt",
    "slowest_updates.txt",
    "timeline.txt",
    "summary.json",
}


@pytest.fixture(autouse=True)
def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # what Python does where a module cannot be imported


def _written(tmp_path: Path) -> Path:
    return write_analysis(snapshots.snapshot(), tmp_path, NOW)


def test_all_files_are_written(tmp_path: Path) -> None:
    made = _written(tmp_path / "new" / "folder")
    assert made.name == "analysis_20261120_091222"
    assert {path.name for path in made.iterdir()} == FILES
    assert json.loads((made / "summary.json").read_text())["schema"] == 1


def test_statistics_name_value_and_bands(tmp_path: Path) -> None:
    made = _written(tmp_path)
    lines = (made / "queue_ms_stats.txt").read_text().splitlines()
    assert lines[0] == "queue_ms (ms)"
    assert lines[1].split() == ["count", "15"]
    assert lines[9].split() == ["max", "13300"]
    assert lines[-1].split() == ["critical", "93", "%", "of", "samples", ">", "1.0", "s"]
    assert (made / "rpc_ms_stats.txt").read_text() == "rpc_ms\ncount    0\nnot observed\n"


def test_the_timeline_is_in_order_and_marks_overlaps(tmp_path: Path) -> None:
    lines = (_written(tmp_path) / "timeline.txt").read_text().splitlines()
    starts = [float(line.split()[0]) for line in lines[1:] if "<->" not in line]
    assert starts == sorted(starts)
    batch = next(at for at, line in enumerate(lines) if "generation-batch 7" in line and "<->" not in line)
    assert lines[batch + 1].split() == ["<->", "weight-update", "ab01"]


def test_the_slowest_updates_have_a_breakdown(tmp_path: Path) -> None:
    lines = (_written(tmp_path) / "slowest_updates.txt").read_text().splitlines()
    assert lines[1].split() == ["1", "ab14", "560.000", "s", "14.5", "s", "13.3", "s", "1.2", "s", "92", "%"]


def test_a_second_analysis_of_the_same_second_gets_its_own_folder(tmp_path: Path) -> None:
    names = [_written(tmp_path).name for _ in range(3)]
    stem = "analysis_20261120_091222"
    assert names == [stem, f"{stem}_2", f"{stem}_3"]


def test_a_folder_that_is_a_file_gives_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("x")
    with pytest.raises(InputError, match=r"taken: cannot be written: .* \(choose another folder\)"):
        _written(tmp_path / "taken")


def test_metric_names_never_leave_the_folder() -> None:
    names = ["../../etc/passwd", "a/b", "a:b", "A b", "ckpt_wait", "日本語", "x" * 5000, "..", "a_b", "queue_ms"]
    files = stats_files(names)
    assert set(names) <= set(files.values())
    assert len({file.lower() for file in files}) == len(files) == len(names) + 2
    assert files["ckpt_wait_stats.txt"] == "wait_ms"
    assert all("/" not in file and not file.startswith(".") and len(file) < 120 for file in files)


@pytest.mark.parametrize("words", [snapshots.HOSTILE, snapshots.HUGE, "/", ""])
def test_hostile_text_is_written_as_text(tmp_path: Path, words: str) -> None:
    made = write_analysis(snapshots.hostile(words), tmp_path, NOW)
    for path in made.iterdir():
        content = path.read_text(encoding="utf-8")
        assert "\x1b" not in content
        assert "\x00" not in content
        assert len(content) < 500_000


def test_missing_plots_are_said_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = write_analysis(snapshots.snapshot(), tmp_path, NOW)
    assert capsys.readouterr().err.count("\n") == 1
    assert "perfmon-tui" in (made / "SUMMARY.md").read_text()
    assert "Plots were left out" in (made / "SUMMARY.md").read_text()
