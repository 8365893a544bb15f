"""A recording that was made to stop its reader costs one line, and no more work than its frames."""

from __future__ import annotations

from pathlib import Path

import pytest
from crafted import CRAFTED, SOUND

from perfmon.cli import main


@pytest.mark.parametrize("kind", CRAFTED)
def test_a_crafted_recording_costs_one_line(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "crafted.pmrec"
    path.write_bytes(CRAFTED[kind])
    code = main(["analyze", str(path)])
    shown = capsys.readouterr().err.strip()
    assert code == 2
    assert shown.startswith("perfmon: ")
    assert "damaged" in shown
    assert "\n" not in shown


def test_a_recording_made_by_hand_like_these_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sound.pmrec"
    path.write_bytes(SOUND)
    assert main(["analyze", str(path)]) == 0
    assert capsys.readouterr().err == ""
