"""Whatever size the terminal is given, the screen is that of a terminal that always had it."""

from __future__ import annotations

import random
from itertools import count

import pytest
from whole import played, running, settled, until

SIZES = [(80, 24), (60, 10), (40, 4), (80, 24), (200, 50), (199, 50), (20, 5), (120, 30)]


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
    dice = random.Random(1)
    async with running(played, size=(120, 30)) as (app, pilot):
        before = await settled(app, pilot)
        for _ in range(50):
            await pilot.resize_terminal(dice.randrange(1, 220), dice.randrange(1, 60))
        await pilot.resize_terminal(120, 30)
        assert (await settled(app, pilot))[1:] == before[1:]  # the first row tells what perfmon costs by now


async def test_a_timer_that_is_late_at_once_goes_off_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count()
    gone_off = []
    async with running() as (app, pilot):
        monkeypatch.setattr("textual._time.get_time", lambda: float(next(seconds)))
        for target in (app, app.log_pane):
            target.set_timer(0.01, lambda: gone_off.append(1))
        await until(pilot, lambda: len(gone_off) == 2)


async def test_a_strip_comes_and_goes_under_what_is_open() -> None:
    async with running() as (app, pilot):
        await pilot.press("question_mark")
        await pilot.pause()
        assert app.covered
        for size in ((80, 9), (120, 30), (60, 10)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        await pilot.press("escape")
        await pilot.pause()
        assert not app.covered
        assert app.strip
        assert app.header.region.y > app.board.region.y
