"""Whatever size the terminal is given, the screen is that of a terminal that always had it."""

from __future__ import annotations

import random
import re

from hosts import screen_text
from textual.pilot import Pilot
from whole import running, until

from perfmon.tui.app import PerfmonApp

SIZES = [(80, 24), (60, 10), (40, 4), (80, 24), (200, 50), (199, 50), (20, 5), (120, 30)]

_COST = re.compile(r"cpu +\S+  \S+ MiB")


async def settled(app: PerfmonApp, pilot: Pilot[int]) -> list[str]:
    """The screen, once the board has the picture of its size."""
    await pilot.pause()
    await until(pilot, lambda: not app.board.size.width or app.picture.board.viewport.columns == app.board.columns)
    await pilot.pause()
    return [_COST.sub(lambda found: " " * len(found[0]), line) for line in screen_text(app)]


async def test_each_size_is_drawn_as_if_it_had_been_the_first() -> None:
    fresh = {}
    for size in set(SIZES):
        async with running(size=size) as (app, pilot):
            fresh[size] = await settled(app, pilot)
    async with running(size=(100, 20)) as (app, pilot):
        for size in SIZES:
            await pilot.resize_terminal(*size)
            assert await settled(app, pilot) == fresh[size], size


async def test_a_storm_of_sizes_ends_in_the_last_one() -> None:
    dice = random.Random(1)  # noqa: S311 - sizes are no secret
    async with running(size=(120, 30)) as (app, pilot):
        before = await settled(app, pilot)
        for _ in range(50):
            await pilot.resize_terminal(dice.randrange(1, 220), dice.randrange(1, 60))
        await pilot.resize_terminal(120, 30)
        assert await settled(app, pilot) == before
