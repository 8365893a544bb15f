"""Whoever seeks in a run that is played sees what a straight play shows there."""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import datetime

import pytest

from perfmon.core.config import Config
from perfmon.demo.output import demo_timeline
from perfmon.logbuffer.buffer import LogBuffer
from perfmon.monitor.feeds import PlayerFeed
from perfmon.monitor.worker import Watch
from perfmon.sources.replay import Player
from perfmon.viewmodel import MonitorState, TimeRange

pytestmark = pytest.mark.slow

BEGIN = datetime(2026, 8, 21, 10, 0)
_TICK_S = 0.02


def shown(scenario: str, *positions: float, straight: bool) -> list[MonitorState]:
    """What is shown at each position, in the order in which somebody goes there."""
    clock, pictures = [0.0], list[MonitorState]()

    async def sleep(seconds: float) -> None:
        clock[0] += min(seconds, _TICK_S)
        await asyncio.sleep(0)

    timeline = demo_timeline(scenario, 0, 60.0, BEGIN)
    player = Player(timeline, speed=100.0, clock=lambda: clock[0], sleep=sleep, linger=True)
    feed = PlayerFeed(player)
    watch = Watch(feed, Config(), 600.0, LogBuffer(), deque(), feed.clock)

    async def play() -> None:
        async for log, item in feed.items():
            watch.take(log, item)

    async def look() -> None:
        playing = asyncio.ensure_future(play())
        for number, position in enumerate(positions):
            if not straight:
                player.seek(position)
            while player.seeking or player.position_s < position:
                await asyncio.sleep(0)
                if not straight or int(player.position_s) % 20 == 0:
                    watch.picture(TimeRange(), number)  # pictures go on meanwhile
            player.pause()
            watch.judge_window(600.0)
            watch.judge_if_due(1000.0 * number)
            pictures.append(watch.picture(TimeRange(), number))
            player.resume()
        playing.cancel()

    asyncio.run(look())
    return pictures


@pytest.mark.parametrize("scenario", ["stall", "frontend-queue"])
def test_a_seek_shows_what_a_straight_play_shows(scenario: str) -> None:
    straight = dict(zip((900.0, 1500.0), shown(scenario, 900.0, 1500.0, straight=True), strict=True))
    for position, picture in zip(
        order := (1500.0, 900.0, 1500.0), shown(scenario, *order, straight=False), strict=True
    ):
        usual = straight[position]
        assert picture.now == pytest.approx(usual.now, abs=3.0)
        for one in (picture, usual):
            assert one.snapshot is not None
            assert one.snapshot.verdict is not None
            assert one.snapshot.verdict.signature == scenario
        assert [alert.state for alert in picture.alerts] == [alert.state for alert in usual.alerts]
        assert (picture.stale_s is None) == (usual.stale_s is None)
        assert [log.freshness for log in picture.sources] == [log.freshness for log in usual.sources]
