"""Whoever ends a task is ended as well when somebody asks for that meanwhile."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import aclosing
from pathlib import Path

import pytest

from perfmon.sources.follow.follower import Follower
from perfmon.sources.follow.wakeups import Waker, end


async def _slow_to_end() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.01)


async def _fails_at_its_end() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.01)
        raise OSError("gone")


async def test_a_task_has_ended() -> None:
    task = asyncio.create_task(_slow_to_end())
    await asyncio.sleep(0)
    await end(task)
    assert task.cancelled()


async def test_what_it_ends_with_is_raised() -> None:
    task = asyncio.create_task(_fails_at_its_end())
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="gone"):
        await end(task)


async def test_whoever_waits_for_the_end_can_be_cancelled() -> None:
    task = asyncio.create_task(_slow_to_end())
    await asyncio.sleep(0)
    ending = asyncio.create_task(end(task))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    await asyncio.wait([task])
    assert task.cancelled()


async def test_nothing_is_said_of_what_ends_too_late(caplog: pytest.LogCaptureFixture) -> None:
    task = asyncio.create_task(_fails_at_its_end())
    await asyncio.sleep(0)
    await end(task, 0.0)
    assert not task.done()
    await asyncio.wait([task])
    with caplog.at_level(logging.ERROR, "asyncio"):
        del task
        await asyncio.sleep(0)
    assert not caplog.records


async def test_who_is_cancelled_while_nothing_more_is_watched_has_been_cancelled(tmp_path: Path) -> None:
    waker = Waker(0.25, polling=False)
    await waker.watch([str(tmp_path)])
    assert not waker.polling
    napping = asyncio.create_task(waker.nap())
    await asyncio.sleep(0)  # it waits for what listens
    napping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await napping
    await waker.close()


async def test_a_follower_that_is_cancelled_while_it_closes_lets_go_of_its_logs(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("step 1\n")
    follower = Follower([str(tmp_path)], True, 0.25, False, time.monotonic)
    async with aclosing(follower.items()) as items:  # type: ignore[type-var]  # it is a generator
        async for _ in items:
            break
    assert _open_below(tmp_path) == 1
    closing = asyncio.create_task(follower.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert _open_below(tmp_path) == 0


def _open_below(folder: Path) -> int:
    """Files in a folder that this process holds open."""
    held = [os.readlink(name) for name in Path("/proc/self/fd").iterdir() if name.exists()]
    return sum(name.startswith(str(folder)) for name in held)
