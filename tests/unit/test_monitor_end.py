"""Who ends a monitor while much is being read ends all that reads, and nothing is said of it."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
from pictures import source

from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.monitor.composite_feeds import MergedStream, PollingFeed
from perfmon.monitor.feeds import FollowFeed, Item
from perfmon.monitor.ingest import ended_where_silent
from perfmon.monitor.monitor import Monitor
from perfmon.sources.discovery import LogFile
from perfmon.sources.pollers.request import PollRequest
from perfmon.viewmodel import Freshness

_PATIENCE_S = 30.0


def test_merged_streams_end_when_nobody_takes_more() -> None:
    ended = []

    async def endless() -> AsyncIterator[Item]:
        try:
            while True:
                yield LogFile("a.log", Path("a.log")), Block(b"x\n", 0, 1)
                await asyncio.sleep(0)
        finally:
            ended.append("stream")

    async def companion() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("beside")

    async def take_one() -> None:
        async with aclosing(MergedStream().items([endless()], companion())) as items:
            async for _ in items:
                await asyncio.sleep(0)
                break

    asyncio.run(take_one())
    assert sorted(ended) == ["beside", "stream"]


@pytest.mark.slow
@pytest.mark.parametrize("polled", [False, True])
def test_a_long_history_need_not_be_read_to_its_end(
    polled: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "orchestrator.log"
    path.write_bytes(b"2026-03-01 08:00:00 INFO step 1 finished, and nothing came of it\n" * 1_500_000)
    monkeypatch.setattr("perfmon.monitor.composite_feeds._PATIENCE_S", 0.0)

    def feed() -> FollowFeed | PollingFeed:
        logs = FollowFeed([str(path)])
        return PollingFeed(logs, [PollRequest("host")]) if polled else logs

    with caplog.at_level(logging.ERROR, "asyncio"):
        for _ in range(3):
            monitor = Monitor(feed, Config())
            monitor.start()
            until = time.monotonic() + _PATIENCE_S
            while monitor.picture.lines < 200_000 and time.monotonic() < until:
                time.sleep(0.005)
            monitor.give_way()  # as a key does
            time.sleep(0.02)
            monitor.stop(_PATIENCE_S)
            assert not monitor.running
            assert monitor.failed is None
            del monitor
            gc.collect()  # a task that failed unheard says so when nobody has it any more
    assert not caplog.records


def test_the_logs_of_a_run_that_is_over_have_ended_unless_they_go_on() -> None:
    states = (Freshness.FRESH, Freshness.LAGGING, Freshness.IDLE, Freshness.STALE)
    quiet = tuple(source(index=at, freshness=one, lines_per_s=0.0) for at, one in enumerate(states))
    going = source(index=9, freshness=Freshness.FRESH, lines_per_s=0.5)
    assert [one.freshness for one in ended_where_silent((*quiet, going))] == [Freshness.ENDED] * 4 + [Freshness.FRESH]
