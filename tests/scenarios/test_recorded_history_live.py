"""A recording that begins with what the logs held already shows the findings that were shown when it was made."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from contextlib import aclosing
from pathlib import Path

import pytest

from perfmon.core.config import Config
from perfmon.core.model import Notice
from perfmon.core.text import plain
from perfmon.demo.output import write_demo
from perfmon.logbuffer.buffer import LogBuffer
from perfmon.monitor.composite_feeds import HistoryTaggedFeed
from perfmon.monitor.feeds import Feed, FollowFeed, RecordingFeed
from perfmon.monitor.worker import Watch
from perfmon.pipeline.session import Session
from perfmon.recording.format import open_recording
from perfmon.sources.batch import read_blocks
from perfmon.sources.discovery import discover
from perfmon.sources.replay import Player, timeline_of
from perfmon.viewmodel import MonitorState, TimeRange

pytestmark = pytest.mark.slow


def of(feed: Feed) -> Watch:
    return Watch(feed, Config(), 600.0, LogBuffer(), deque(), feed.clock)


def judged(watch: Watch) -> MonitorState:
    for _ in range(2):  # the first time the silence at the end of the history is not known yet
        watch.judge_window(600.0)
        watch.judge_if_due(1e9)
    return watch.picture(TimeRange(), 1)


async def watched(logs: Path, file: Path, record_at: int) -> MonitorState:
    """What is shown once all was read; the recording begins before the item of that number, below 0 behind them."""
    feed = HistoryTaggedFeed(FollowFeed([str(logs)]))
    watch, number = of(feed), 0
    if not record_at:
        watch.record(str(file))
    async with aclosing(feed.items()) as items:  # type: ignore[type-var]  # all are generators
        async for log, item in items:
            watch.take(log, item)
            number += 1
            if number == record_at:
                watch.record(str(file))
            if isinstance(item, Notice) and item.kind == "present":
                break
    picture = judged(watch)
    if record_at < 0:
        watch.record(str(file), toggle=True)
    await feed.close()
    watch.close()
    return picture


async def played(file: Path) -> tuple[MonitorState, bool]:
    """What is shown at the end, and whether it was caught up at the start; it is judged all the time."""
    player = Player(timeline_of(open_recording(file)), speed=1000.0)
    watch, number, early = of(feed := RecordingFeed(player)), 0, feed.caught_up
    async for log, item in feed.items():
        watch.take(log, item)
        number += 1
        watch.judge_if_due(1000.0 * number)
        watch.picture(TimeRange(), number)
    return judged(watch), early


def result_of(picture: MonitorState) -> list[tuple[object, ...]]:
    """How often each was found in the window, and its alert; and whether that is about the past.

    An alert also counts what left the window while a replay judged it all the time.
    """
    assert picture.snapshot is not None
    found = [(one.signature, one.count, round(one.lost_s, -1)) for one in picture.snapshot.findings]
    alerts = [(one.finding.signature, one.state) for one in picture.alerts]
    stale_s = None if picture.stale_s is None else round(picture.stale_s, -2)
    return [*found, *alerts, (stale_s,)]


@pytest.mark.parametrize("record_at", [0, 2, -1])
@pytest.mark.parametrize("age_s", [1.0, 120.0, 10_000.0])
@pytest.mark.parametrize("scenario", ["frontend-queue", "stall"])
def test_a_replay_tells_of_the_history_what_was_told(
    scenario: str, age_s: float, record_at: int, tmp_path: Path
) -> None:
    logs, file = tmp_path / "logs", tmp_path / "run.pmrec"
    write_demo(logs, scenario, minutes=60.0)
    if record_at > 0:  # nothing of a log is recorded that was read before
        (logs / "a.log").write_text("nothing that anybody knows\n")
    for log in logs.rglob("*.*"):
        os.utime(log, (written := time.time() - age_s, written))
    live = asyncio.run(watched(logs, file, record_at))
    picture, early = asyncio.run(played(file))
    assert not early
    assert result_of(picture) == result_of(live)
    assert picture.now == pytest.approx(live.now, abs=5.0)


def test_the_marks_are_nothing_that_is_told_of_a_recording(tmp_path: Path) -> None:
    logs, file = tmp_path / "logs", tmp_path / "run.pmrec"
    write_demo(logs, minutes=2.0)
    asyncio.run(watched(logs, file, 0))
    session = Session(Config())
    for log in discover([str(file)]):
        items = list(read_blocks(log))
        assert not [item for item in items if isinstance(item, Notice)], plain(log.name)
        state = session.add_source(log.name)
        for kind in ("history", "written", "present"):
            session.notice(state, Notice("1.5", kind))
        assert not state.notes
