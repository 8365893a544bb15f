"""Keys that come faster than a screen opens are for that screen, in the order in which they were typed."""

from __future__ import annotations

import pytest
from textual.events import Key
from textual.widgets import Input
from whole import played, running, until

from perfmon.tui.app import PerfmonApp

_NAMES = {":": "colon", "/": "slash", " ": "space", "?": "question_mark"}


def burst(app: PerfmonApp, typed: str) -> None:
    """All of it at once."""
    for char in typed:
        app.post_message(Key(_NAMES.get(char, char), char))


@pytest.mark.parametrize("typed", [":q", ":theme paper", ":1m", ": "])
async def test_a_burst_that_opens_the_palette_is_typed_into_it(typed: str) -> None:
    async with running(played) as (app, pilot):
        burst(app, typed)
        await until(pilot, lambda: isinstance(app.focused, Input) and len(app.focused.value) >= len(typed) - 1)
        await pilot.pause(0.1)
        assert isinstance(app.focused, Input)
        assert app.focused.value == typed[1:]
        assert app.is_running


async def test_keys_after_it_still_come_one_by_one() -> None:
    async with running() as (app, pilot):
        burst(app, ":ab")
        await until(pilot, lambda: isinstance(app.focused, Input) and app.focused.value == "ab")
        await pilot.press("c", "escape")
        await pilot.pause()
        assert len(app.screen_stack) == 1
        burst(app, "?")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
