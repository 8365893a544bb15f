"""The built-in runs as the monitor sees them while they are played: the verdict is the right one all the time."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from dataclasses import replace
from datetime import datetime
from functools import cache
from threading import Event

import pytest

from perfmon.core.config import Config
from perfmon.demo.output import demo_timeline
from perfmon.demo.scenarios import SCENARIOS
from perfmon.logbuffer.buffer import LogBuffer
from perfmon.monitor.feeds import PlayerFeed
from perfmon.monitor.monitor import Monitor
from perfmon.monitor.worker import Watch
from perfmon.sources.replay import Player
from perfmon.viewmodel import AlertState, MonitorState, RunState, TimeRange

pytestmark = pytest.mark.slow

BEGIN = datetime(2026, 8, 21, 10, 0)
AHEAD_S, UNTIL_S, STEP_S = 600.0, 1800.0, 20.0
LATER = {"stall": 200.0, "no-weight-updates": 200.0}
"""What goes wrong only then, and how long after the screen has opened the verdict may come."""
FAULTY = sorted(set(SCENARIOS) - {"healthy"})
_TICK_S = 0.02
"""Of the player, by its own clock."""


@cache
def watched(scenario: str, seed: int = 0, until_s: float = UNTIL_S) -> tuple[MonitorState, ...]:
    """What is published of a run that is opened after ten minutes, a picture every 20 s of it."""
    clock, pictures = [0.0], list[MonitorState]()

    async def sleep(seconds: float) -> None:
        clock[0] += min(seconds, _TICK_S)
        if watch.judge_if_due(player.position_s):
            picture = watch.picture(TimeRange(), len(pictures))
            assert picture.snapshot is not None
            # Hundreds of these are kept: without the series that nobody asks for here.
            bare = replace(picture.snapshot, seen=(), metrics={}, timeline=())
            pictures.append(replace(picture, seen=(), snapshot=bare, board=replace(picture.board, metrics=())))
        await asyncio.sleep(0)

    player = Player(
        demo_timeline(scenario, seed, 60.0, BEGIN), speed=STEP_S / _TICK_S, clock=lambda: clock[0], sleep=sleep
    )
    player.seek(AHEAD_S)
    feed = PlayerFeed(player)
    watch = Watch(feed, Config(), 600.0, LogBuffer(), deque(), clock=lambda: 0.0)

    async def play() -> None:
        async for log, item in feed.items():
            watch.take(log, item)
            if player.position_s > until_s:
                return

    asyncio.run(play())
    assert len(pictures) > 0.8 * (until_s - AHEAD_S) / STEP_S
    return tuple(pictures)


def verdict(picture: MonitorState) -> str | None:
    """Its signature."""
    assert picture.snapshot is not None
    return picture.snapshot.verdict.signature if picture.snapshot.verdict else None


def after(pictures: tuple[MonitorState, ...], seconds: float) -> list[MonitorState]:
    """Those from that long after the screen has opened."""
    return [picture for picture in pictures if (picture.position_s or 0.0) >= AHEAD_S + seconds]


@pytest.mark.parametrize("scenario", FAULTY)
def test_the_verdict_stays_what_the_run_is_named_for(scenario: str) -> None:
    verdicts = [verdict(picture) for picture in after(watched(scenario), LATER.get(scenario, 0.0))]
    assert verdicts[0] == scenario
    assert verdicts[-1] == scenario
    assert verdicts.count(scenario) >= 0.9 * len(verdicts), Counter(verdicts)


@pytest.mark.parametrize("scenario", sorted(LATER))
def test_what_goes_wrong_later_is_seen_to_begin(scenario: str) -> None:
    first = watched(scenario)[0]
    assert (verdict(first), first.alerts) == (None, ())


@pytest.mark.parametrize("scenario", FAULTY)
def test_an_alert_tells_of_it(scenario: str) -> None:
    last = watched(scenario)[-1]
    result = [alert for alert in last.alerts if alert.key[0] == scenario]
    assert len(result) == 1
    assert result[0].state in (AlertState.FIRING, AlertState.RESOLVING)


def test_a_weight_update_in_flight_grows_up_to_now() -> None:
    pictures = watched("frontend-queue")
    newest = [(picture.now, lane.bars[-1]) for picture in pictures for lane in picture.board.spans[:1]]
    in_flight = [(now, bar) for now, bar in newest if bar.open]
    assert len(in_flight) > 0.2 * len(pictures)
    for now, bar in in_flight:
        assert bar.kind == "weight-update"
        assert bar.end == now > bar.start


@pytest.mark.parametrize("seed", range(3))
def test_a_healthy_run_is_healthy_all_the_time(seed: int) -> None:
    for picture in watched("healthy", seed, 3600.0):
        assert (verdict(picture), picture.alerts) == (None, ())


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_nothing_comes_after_the_end(scenario: str) -> None:
    """A run that is over says so within a minute or two: nobody waits for the rest of it."""
    last_s = max(at_s for at_s, _, _ in demo_timeline(scenario, 0, 60.0, BEGIN).items())
    assert last_s < 3600.0 + 200.0


def test_the_thread_that_watches_says_the_same() -> None:
    player = Player(demo_timeline("slow-weight-load", 0, 12.0, BEGIN), speed=math.inf)
    monitor = Monitor(lambda: PlayerFeed(player), Config())
    ended, last = Event(), deque[MonitorState](maxlen=1)

    def hear(picture: MonitorState) -> None:
        last.append(picture)
        if picture.state is RunState.ENDED:
            ended.set()

    monitor.listeners.append(hear)
    monitor.start()
    assert ended.wait(60.0)
    monitor.stop()
    assert verdict(last[0]) == "slow-weight-load"
