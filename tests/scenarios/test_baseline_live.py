"""`--baseline auto` in the monitor: what is learned while a run is watched is what is learned of it afterwards."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from datetime import datetime

import pytest

from perfmon.core.config import AUTO, Config
from perfmon.demo.output import demo_timeline
from perfmon.logbuffer.buffer import LogBuffer
from perfmon.monitor.feeds import PlayerFeed
from perfmon.monitor.worker import Watch
from perfmon.sources.replay import Player
from perfmon.viewmodel import MonitorState, TimeRange

pytestmark = pytest.mark.slow

BEGIN = datetime(2026, 8, 21, 10, 0)


def watched(scenario: str, until_s: float) -> tuple[list[MonitorState], deque[str]]:
    """A picture every 20 s of a built-in run, and what the monitor said."""
    clock, pictures, notices = [0.0], list[MonitorState](), deque[str]()

    async def sleep(seconds: float) -> None:
        clock[0] += min(seconds, 0.02)
        if watch.judge_if_due(player.position_s):
            pictures.append(watch.picture(TimeRange(), len(pictures)))
        await asyncio.sleep(0)

    whole = demo_timeline(scenario, 0, 60.0, BEGIN)
    timeline = replace(whole, items=lambda: (item for item in whole.items() if item[1] == "orchestrator.log"))
    player = Player(timeline, speed=1000.0, clock=lambda: clock[0], sleep=sleep)
    feed = PlayerFeed(player)
    watch = Watch(feed, Config(baseline=AUTO), 600.0, LogBuffer(), notices, feed.clock)

    async def play() -> None:
        async for log, item in feed.items():
            watch.take(log, item)
            if player.position_s > until_s:
                return

    asyncio.run(play())
    return pictures, notices


def test_limits_are_learned_while_it_is_watched_and_say_so_everywhere() -> None:
    pictures, notices = watched("healthy", 900.0)
    first, last = pictures[5].snapshot, pictures[-1].snapshot
    assert first is not None
    assert last is not None
    assert "learned" not in first.metrics["rpc_ms"].bands_from
    assert last.metrics["rpc_ms"].bands_from.startswith("learned from the first 10m 00s of this run")
    lanes = {lane.name: lane for lane in pictures[-1].board.metrics}
    assert (lanes["rpc_ms"].good, lanes["rpc_ms"].critical) == (
        last.metrics["rpc_ms"].good,
        last.metrics["rpc_ms"].critical,
    )
    assert [note for note in notices if "learned from the first 10m 00s" in note]
    assert not pictures[-1].alerts


def test_a_run_that_is_bad_from_its_first_step_stays_bad() -> None:
    pictures, notices = watched("slow-weight-load", 900.0)
    last = pictures[-1].snapshot
    assert last is not None
    assert last.verdict is not None
    assert last.verdict.signature == "slow-weight-load"
    assert not any("learned" in metric.bands_from for metric in last.metrics.values())
    assert [note for note in notices if "does not start healthy" in note]
