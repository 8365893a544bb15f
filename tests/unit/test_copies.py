"""A log that a folder or an archive holds twice counts once, and that is said."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest

from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.offline import Options, examine

_WAIT = "[ckpt] wait.start target_step={0}\n[ckpt] wait.done target_step={0} wait_ms=5432.1\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose `latest` is a link to its last attempt."""
    attempt = tmp_path / "run" / "logs" / "attempt_1"
    attempt.mkdir(parents=True)
    (attempt / "orchestrator.log").write_text(_WAIT.format(43))
    (attempt / "trainer.log").write_text("[ckpt] write.done step=43 write_ms=8234.5\n")
    (attempt.parent / "latest").symlink_to("attempt_1")
    return tmp_path / "run"


def _notes(snapshot: Diagnosis) -> list[str]:
    return [note for source in snapshot.run.sources for note in source.notes]


def _counts(snapshot: Diagnosis) -> tuple[int, int]:
    return len(snapshot.run.sources), snapshot.metrics["wait_ms"].summary.count


def test_a_copy_that_followed_links_says_no_more_than_the_run(run: Path) -> None:
    shutil.copytree(run, run.parent / "copied", symlinks=False)
    copied = examine(Options((str(run.parent / "copied"),)))[0]
    assert _counts(copied) == _counts(examine(Options((str(run),)))[0]) == (2, 1)
    (note,) = _notes(copied)
    assert note.endswith("copied/logs/latest/orchestrator.log has the same content, likewise 1 more log: read once")


def test_a_zip_archive_that_followed_links_says_no_more_than_the_run(run: Path) -> None:
    bundle = run.parent / "run.zip"
    with zipfile.ZipFile(bundle, "w") as archive:
        for folder, _, names in os.walk(run, followlinks=True):
            for name in names:
                archive.write(Path(folder, name), str(Path(folder, name).relative_to(run)))
        assert len(archive.namelist()) == 4
    packed = examine(Options((str(bundle),)))[0]
    assert _counts(packed) == (2, 1)
    assert len(_notes(packed)) == 1


def test_logs_of_one_name_and_size_that_differ_are_all_read(run: Path) -> None:
    other = run / "logs" / "attempt_2"
    other.mkdir()
    (other / "orchestrator.log").write_text(_WAIT.format(44))
    (other / "renamed.log").write_text(_WAIT.format(43))
    snapshot = examine(Options((str(run),)))[0]
    assert _counts(snapshot) == (4, 3)
    assert _notes(snapshot) == []


def test_empty_logs_are_no_copies(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "out.log").touch()
    snapshot = examine(Options((str(tmp_path),)))[0]
    assert len(snapshot.run.sources) == 2
