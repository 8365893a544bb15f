"""The screen of a fixed run at the four sizes that it is designed for, character by character.

After a change that is meant, `PERFMON_GOLDEN=write pytest tests/tui/test_golden.py` writes the files anew; look at what
git says has changed in them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hosts import SIZES
from whole import running, settled

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("size", SIZES)
async def test_the_screen_is_as_it_was_approved(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = GOLDEN / f"{size[0]}x{size[1]}.txt"
    async with running(size=size) as (app, pilot):
        shown = "\n".join(line.rstrip() for line in await settled(app, pilot)) + "\n"
    if os.environ.get("PERFMON_GOLDEN") == "write":
        file.write_text(shown, encoding="utf-8")
    assert shown.splitlines() == file.read_text(encoding="utf-8").splitlines()
