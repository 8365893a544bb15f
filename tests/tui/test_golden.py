"""The screen of a fixed run at the four sizes that it is designed for, character by character.

After a change that is meant, `PERFMON_GOLDEN=write pytest tests/tui/test_golden.py` writes the files anew; look at what
git says has changed in them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hosts import SIZES, screen_text
from machines import LINKS, seen
from whole import played, running, settled, until

from perfmon.monitor.feeds import Feed
from perfmon.viewmodel import RunState

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.parametrize("feed", [played, None], ids=["monitor", "shared"])
@pytest.mark.parametrize("size", SIZES)
async def test_the_screen_is_as_it_was_approved(size: tuple[int, int], feed: Callable[[], Feed] | None) -> None:
    async with running(feed, size=size) as (app, pilot):
        _approve(f"{size[0]}x{size[1]}.txt", await settled(app, pilot))


@pytest.mark.parametrize("size", SIZES)
async def test_machines_around_the_run(size: tuple[int, int]) -> None:
    async with running(size=size) as (app, pilot):
        await settled(app, pilot)
        app.monitor.stop()
        await pilot.pause()
        picture = app.monitor.picture
        app.monitor.picture = replace(
            picture,
            number=picture.number + 1,
            seen=seen(picture.now),
            links=LINKS,
            state=RunState.LIVE,
            notices=(),
            lines_per_s=0.0,
        )
        app.sources.show(app.monitor.picture)
        app.show(app.monitor.picture)
        await until(pilot, lambda: size[0] < 72 or "HOSTS/GPUS" in "".join(screen_text(app)))
        _approve(f"machines-{size[0]}x{size[1]}.txt", await settled(app, pilot))


def _approve(name: str, lines: list[str]) -> None:
    file = GOLDEN / name
    shown = "\n".join(line.rstrip() for line in lines) + "\n"
    if os.environ.get("PERFMON_GOLDEN") == "write":
        file.write_text(shown, encoding="utf-8")
    assert shown.splitlines() == file.read_text(encoding="utf-8").splitlines()


def test_the_example_of_the_readme_is_this_screen() -> None:
    page = (Path(__file__).parents[2] / "README.md").read_text()
    example = page.partition("## What the screen means")[2].split("```")[1].splitlines()[1:]
    shown = (GOLDEN / "machines-80x24.txt").read_text().splitlines()
    assert len(example) == 5
    assert [row[:80].rstrip() for row in example if row[:80].rstrip() not in shown] == []
