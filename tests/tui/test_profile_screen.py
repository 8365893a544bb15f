"""The screen of `perfmon profile --tui`: every size, the keys of the monitor, hostile names."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hosts import SIZES, screen_text
from textual.pilot import Pilot
from traces import MS, event, kernel, starved, write

from perfmon.profile import Profile, read_profile
from perfmon.themes.loader import load_themes
from perfmon.tui import AppOptions, ProfileApp

HOSTILE = "\x1b[31m[red]evil[/red]\n\u202e"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """Two ranks, the host of one with a hostile name in its gaps."""
    folder = tmp_path_factory.mktemp("traces")
    for rank in range(2):
        events = [*starved(), event("cpu_op", HOSTILE, 35 * MS, 20 * MS)]
        events += kernel(900, 1, 40 * MS, 30 * MS, "ncclDevKernel_AllReduce_Sum", stream=9)
        write(folder / f"rank{rank}.json", events)
    return read_profile([folder], pictures=True)


def opened(found: Profile, title: str = "traces") -> ProfileApp:
    return ProfileApp(found, AppOptions(title, load_themes(), "midnight"))


def played(app: ProfileApp, size: tuple[int, int], *keys: str) -> str:
    """The text of the screen after these keys."""

    async def play() -> str:
        async with app.run_test(size=size) as pilot:
            await _press(pilot, keys)
            return "\n".join(screen_text(app))

    return asyncio.run(play())


async def _press(pilot: Pilot[Any], keys: tuple[str, ...]) -> None:
    await pilot.pause()
    for key in keys:
        await pilot.press(key)
        await pilot.pause()


@pytest.mark.parametrize("size", SIZES)
def test_every_size_shows_the_gpus(found: Profile, size: tuple[int, int]) -> None:
    text = played(opened(found), size)
    lines = text.splitlines()
    assert len(lines) == size[1]
    assert "rank 0 GPU 0" in text
    assert "compute" in text
    assert lines[-1].lstrip().startswith("? help")
    if size[1] >= 24:
        assert "Data starvation" in text
        assert "3 gaps" in text


def test_zoom_and_cursor_show_the_moment(found: Profile) -> None:
    app = opened(found)
    text = played(app, (120, 30), "right_square_bracket", "plus", "plus")
    whole, view = app.board.port.whole, app.board.port
    assert view.span < whole
    assert view.cursor is not None
    assert "gap of" in text
    assert "gap of 1.00 ms: aten::linear 1.00 ms" in text
    text = played(opened(found), (120, 30), "plus", "minus", "plus", "0")
    assert "in view of" in text


def test_a_chosen_gap_is_shown_in_the_timeline(found: Profile) -> None:
    app = opened(found)
    text = played(app, (120, 30), "tab", "tab", "down", "enter")
    assert app.board.port.cursor is not None
    assert "gap of" in text


def test_a_pane_may_have_all_the_room_and_panes_can_be_hidden(found: Profile) -> None:
    text = played(opened(found), (120, 30), "tab", "z")
    assert "1 timeline" not in text
    assert "2 findings" in text
    text = played(opened(found), (120, 30), "2", "2", "3")
    assert "2 findings" not in text
    assert "3 gaps" not in text
    text = played(opened(found), (120, 30), "2", "2", "3", "1")
    assert "the last pane cannot be closed" in text
    text = played(opened(found), (60, 10), "tab")
    assert "2 findings" in text


def test_help_lists_the_keys_and_closes(found: Profile) -> None:
    text = played(opened(found), (120, 50), "question_mark")
    assert "Go to the next long gap." in text
    assert "data loading" in text
    assert "1 timeline" in played(opened(found), (120, 50), "question_mark", "escape")


def test_the_lanes_of_a_gpu_are_hidden_and_shown(found: Profile) -> None:
    assert played(opened(found), (120, 50), "enter").count("data loading") == 1
    assert played(opened(found), (120, 50)).count("data loading") == 2


def test_a_snapshot_is_the_report(found: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = played(opened(found), (120, 30), "s")
    (page,) = tmp_path.glob("perfmon_*.md")
    assert page.name in text
    assert "Data starvation" in page.read_text()


def test_hostile_names_and_themes(found: Profile) -> None:
    text = played(opened(found, HOSTILE), (120, 30), "right_square_bracket", "T", "T")
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[red]evil[/red]" in text  # shown as it is
