"""What opens over the panes, with the keys of the whole app."""

from __future__ import annotations

from pathlib import Path

import pytest
from hosts import page_of, screen_text
from whole import running, until

from perfmon.core import load_state
from perfmon.tui.screens.chart import ChartPage
from perfmon.tui.screens.pages import HelpPage, TracePage
from perfmon.tui.widgets.palette import Palette


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.parametrize("size", [(60, 10), (80, 24), (200, 50)])
async def test_from_the_palette_to_a_chart_and_back(size: tuple[int, int]) -> None:
    async with running(size=size) as (app, pilot):
        await pilot.press("colon")
        assert isinstance(app.screen, Palette)
        await pilot.press(*"queue", "underscore", *"ms", "enter")
        await until(pilot, lambda: isinstance(page_of(app), ChartPage))
        await pilot.pause()
        assert "chart ▸ queue_ms" in screen_text(app)[0]
        await pilot.press("right_square_bracket", "left", "left")
        assert "chart ▸ rpc_ms" in screen_text(app)[0]
        await pilot.press("escape")
        assert len(app.screen_stack) == 1


async def test_from_a_waterfall_into_the_log() -> None:
    async with running() as (app, pilot):
        await pilot.press("w")
        await pilot.press("comma")
        page = page_of(app)
        assert isinstance(page, TracePage)
        await until(pilot, lambda: len(page.found.lines) == 5)
        key = page.bar.key
        await pilot.press("w", "j", "enter")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.pause()
        line = app.log_pane.view.current
        assert line is not None
        assert f"[weights][{key}] client.send" in line.text
        assert app.focused is app.log_pane


async def test_the_help_is_about_the_pane_and_its_q_does_not_quit() -> None:
    async with running(keys={"help": "f1"}) as (app, pilot):
        await pilot.press("tab", "f1")
        assert isinstance(page_of(app), HelpPage)
        assert "ALERTS: this pane" in screen_text(app)[1]
        await pilot.press("q")
        assert len(app.screen_stack) == 1
        assert app.is_running


async def test_what_is_wrong_with_a_command_is_said() -> None:
    async with running() as (app, pilot):
        await pilot.press("ctrl+p", *"theme", "space", *"pink", "enter")
        await until(pilot, lambda: "no such theme: 'pink'" in "\n".join(screen_text(app)))


@pytest.mark.parametrize("theme", ["midnight", "mono", "ansi-16"])
async def test_what_is_asked_for_hides_nothing_but_the_last_row(theme: str) -> None:
    async with running() as (app, pilot):
        app.choose_theme(theme)
        await pilot.press("slash", "q", "u")
        await until(pilot, lambda: "qu" in screen_text(app)[-1])
        text = screen_text(app)
        assert "filter lanes" in text[-1]
        assert "FRONT-END QUEUE" in text[1]
        assert any("queue time" in row for row in text)


@pytest.mark.parametrize("size", [(120, 30), (80, 24)])
async def test_a_hint_goes_away_once_its_key_was_used(size: tuple[int, int]) -> None:
    async with running(size=size) as (app, pilot):
        app.opening.hints = ("open", "next_pane", "help")
        app.show_message("")
        await pilot.pause()
        assert screen_text(app)[-1].endswith("new here? enter explains what is selected ")
        await pilot.press("tab")
        assert list(app.opening.hints) == ["open", "help"]
        await pilot.press("enter", "escape")
        await pilot.pause()
        assert screen_text(app)[-1].endswith("new here? ? lists every key ")
    assert load_state("learned") == "verdict,open,next_pane", "what is no longer a hint counts as used"


async def test_a_message_leaves_the_title_of_a_page() -> None:
    async with running(size=(80, 24)) as (app, pilot):
        await pilot.press("question_mark")
        app.show_message("KV cache pressure: acknowledged")
        await until(pilot, lambda: "acknowledged" in screen_text(app)[0])
        assert screen_text(app)[0].split()[0] == "help"
