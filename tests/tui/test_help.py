"""The help: made from the tables, whole at every size, closed by any of its keys."""

from __future__ import annotations

import pytest
from hosts import SIZES, SKIN, Host, page_of, paged, screen_text

from perfmon.textgraphics.cells import ASCII
from perfmon.tui.actions import ACTIONS, by_key
from perfmon.tui.commands import COMMANDS
from perfmon.tui.screens.pages import HelpPage
from perfmon.tui.theme import ThemeStyles
from perfmon.tui.widgets.overlays import PageScreen


def host(pane: str = "board", skin: ThemeStyles = SKIN, **keys: str) -> Host:
    return Host(lambda: PageScreen(HelpPage(skin, pane, keys)))


@pytest.mark.parametrize("size", SIZES)
async def test_every_action_command_and_sign_is_told(size: tuple[int, int]) -> None:
    app = host()
    async with app.run_test(size=size) as pilot:
        text = " ".join("\n".join(await paged(app, pilot)).split())
    for first in [action.help.split()[0] for action in ACTIONS] + [command.usage for command in COMMANDS]:
        assert first in text
    for sign in (
        "○ leaves the client",
        "░ waits in",
        "▒ queue or",
        "█ the server",
        "● done",
        "◔ pending",
        "⊘ expl",
    ):
        assert sign in text


async def test_the_keys_of_the_pane_go_first() -> None:
    for pane, title, action in (
        ("log", "LOG: this pane", "Mark the line."),
        ("alerts", "ALERTS: this pane", "silence"),
    ):
        app = host(pane)
        async with app.run_test(size=(60, 30)):
            lines = screen_text(app)
        assert title in lines[1]
        assert any(action in line for line in lines)


async def test_chosen_keys_are_shown_as_they_were_chosen() -> None:
    app = host(help="f1", pause="ctrl+y,P")
    async with app.run_test(size=(200, 50)):
        lines = screen_text(app)
    assert any(" f1 Show every key and command." in line for line in lines)
    assert any(" ctrl+y P Pause" in line for line in lines)


@pytest.mark.parametrize("key", ["question_mark", "escape", "q"])
async def test_any_of_its_keys_closes_it(key: str) -> None:
    app = host()
    async with app.run_test(size=(80, 24)) as pilot:
        assert isinstance(page_of(app), HelpPage)
        await pilot.press(key)
        assert page_of(app) is None


async def test_without_utf8_it_is_ascii_but_for_the_names_of_keys() -> None:
    app = host(skin=ThemeStyles(SKIN.theme, glyphs=ASCII))
    async with app.run_test(size=(60, 10)) as pilot:
        text = "".join(await paged(app, pilot))
    assert set(text) - set("←→↑↓⇧") <= {chr(code) for code in range(32, 127)}


def test_a_key_means_the_same_in_every_pane() -> None:
    several = {key: [action.id for action in meant] for key, meant in by_key({}).items() if len(meant) > 1}
    # `/` finds in the focused pane, whatever that holds.
    assert several == {"slash": ["filter_lanes", "search"]}, "two actions have the same key: choose another one"


async def test_slash_finds_keys_commands_and_metrics_and_escape_shows_all_again() -> None:
    app = host()
    async with app.run_test(size=(100, 30)) as pilot:
        page = page_of(app)
        assert isinstance(page, HelpPage)
        page.do_search()
        await pilot.pause()
        await pilot.press(*"policy", "enter")
        text = "\n".join(screen_text(app))
        assert "staleness" in text  # its meaning has the word
        assert "Maximise or restore" not in text
        page.find("no such thing")
        await pilot.pause()
        assert "nothing has no such thing" in "\n".join(screen_text(app))
        await pilot.press("escape")
        assert "Focus the next pane." in " ".join("\n".join(await paged(app, pilot)).split())
        await pilot.press("escape")
        assert page_of(app) is None


async def test_the_metrics_of_the_run_are_explained() -> None:
    app = Host(lambda: PageScreen(HelpPage(SKIN, "board", {}, ["kv_usage", "of_its_own"])))
    async with app.run_test(size=(120, 30)) as pilot:
        text = " ".join("\n".join(await paged(app, pilot)).split())
    assert "kv_usage Use of the engine's KV cache" in text
    assert "of_its_own" not in text
