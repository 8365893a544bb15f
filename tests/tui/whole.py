"""The whole app on the built-in run, which has been played already.

Most tests only need what there is to see at the end of it: `running()` shows that from a watch that all tests of a
process share, and which answers what the screen looks at. What a monitor does (play, judge, record, silence) needs a
real one: `running(played)`, or any other feed.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache
from threading import Thread

from hosts import screen_text
from textual.pilot import Pilot

from perfmon.core.config import Config
from perfmon.demo.output import demo_timeline
from perfmon.logbuffer.buffer import LogBuffer
from perfmon.monitor.feeds import Feed, PlayerFeed
from perfmon.monitor.monitor import Monitor
from perfmon.monitor.worker import Watch
from perfmon.sources.replay import Player, Timeline
from perfmon.themes.loader import load_themes
from perfmon.tui.app import PerfmonApp
from perfmon.tui.plain_app import AppOptions
from perfmon.viewmodel import RunState, TimeRange

BEGIN = datetime(2026, 8, 21, 10, 0)
MINUTES = 12.0
_COST = re.compile(r"cpu +\S+ +\S+ [MG]iB")


def played(*, linger: bool = True) -> Feed:
    """The front-end queue: twelve minutes, all at once."""
    player = Player(_run(), speed=math.inf, linger=linger)
    player.seek(player.duration_s)  # a past, for which no clock goes on meanwhile
    return PlayerFeed(player)


@cache
def _run() -> Timeline:
    """With its true length, for some lines come later: a seek to its end leaves nothing to come after it."""
    timeline = demo_timeline("frontend-queue", 0, MINUTES, BEGIN)
    return replace(timeline, duration_s=max(at_s for at_s, _, _ in timeline.items()))


@cache
def _watched() -> tuple[Watch, LogBuffer]:
    """The run at its end, judged; nothing that tests do may change it."""
    feed, logbook = played(linger=False), LogBuffer()
    watch = Watch(feed, Config(), Monitor(played, Config()).window_s, logbook, deque(), clock=lambda: 0.0)

    def watch_it() -> None:
        async def take() -> None:
            async for log, item in feed.items():
                watch.take(log, item)

        asyncio.run(take())

    thread = Thread(target=watch_it)  # the loop of this one belongs to the test
    thread.start()
    thread.join()
    watch.ended = True
    assert watch.judge_if_due(0.0)
    return watch, logbook


class EndedRun(Monitor):
    """The run at its end, without a thread: a picture for every look."""

    def __init__(self) -> None:
        super().__init__(played, Config())
        self._of_all, self.logbook = _watched()
        self._wanted = TimeRange()

    def start(self, wake: Callable[[], None] | None = None) -> None:
        """Shows it."""
        self._tell = wake
        self._show()

    def look(
        self, end: float | None, span_s: float | None, columns: int, charted: tuple[str, ...] = (), points: int = 0
    ) -> None:
        """Shows that part of the axis."""
        wanted = TimeRange(end, None if span_s is None else max(1.0, span_s), max(1, columns), charted, points)
        if wanted != self._wanted:
            self._wanted = wanted
            self._show()

    def ask(self, what: Callable[[Watch], object]) -> None:
        """Other tests see the same watch: nobody may change it."""
        raise AssertionError("what is asked of a monitor needs a real one: running(played)")

    _tell: Callable[[], None] | None = None

    def _show(self) -> None:
        self.picture = self._of_all.picture(self._wanted, self.picture.number + 1)
        if self._tell is not None:
            self._tell()


@asynccontextmanager
async def running(
    feed: Callable[[], Feed] | None = None, size: tuple[int, int] = (120, 30), keys: dict[str, str] | None = None
) -> AsyncIterator[tuple[PerfmonApp, Pilot[int]]]:
    """The app with a picture that has an alert, if the feed gives one; without a feed, the shared run at its end."""
    monitor = EndedRun() if feed is None else Monitor(feed, Config())
    app = PerfmonApp(monitor, AppOptions("run", load_themes(), "midnight", keys=keys or {}))
    async with app.run_test(size=size) as pilot:
        if feed is None:
            await until(pilot, lambda: bool(app.picture.board.metrics))
            await _fits(app, pilot)
        elif feed is played:
            await until(pilot, lambda: _over(app.monitor.feed))
            app.monitor.judge_window(app.monitor.window_s)  # at once: nobody waits for the next period
            await until(pilot, lambda: app.picture.state is RunState.ENDED and bool(app.picture.alerts))
            await until(pilot, lambda: bool(app.picture.board.metrics))
            await _fits(app, pilot)
        else:
            await until(pilot, lambda: app.monitor.picture.number > 1)
        yield app, pilot


def _over(feed: Feed | None) -> bool:
    return feed is not None and feed.player is not None and feed.player.ended


async def until(pilot: Pilot[int], true: Callable[[], bool]) -> None:
    """Waits until that is so."""
    for _ in range(1000):
        if true():
            return
        failed = getattr(getattr(pilot.app, "monitor", None), "failed", None)
        if failed is not None:
            raise failed
        await pilot.pause(0.02)
    raise AssertionError("it never came")


async def _fits(app: PerfmonApp, pilot: Pilot[int]) -> None:
    """Until the board has the picture of its size, and shows it."""
    await until(pilot, lambda: not app.board.size.width or app.picture.board.viewport.columns == app.board.columns)
    await pilot.pause()


async def settled(app: PerfmonApp, pilot: Pilot[int]) -> list[str]:
    """The screen, once the board has the picture of its size."""
    await pilot.pause()
    await _fits(app, pilot)
    return [_COST.sub(lambda found: " " * len(found[0]), line) for line in screen_text(app)]
