"""Whoever ends a task is ended as well when somebody asks for that meanwhile."""

from __future__ import annotations

import asyncio
import logging

import pytest

from perfmon.sources.follow.wakeups import end


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
