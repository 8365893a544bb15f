"""An event that is waited for, but not for ever."""

from __future__ import annotations

import asyncio

from perfmon.sources.follow.wakeups import wait_for_event


async def test_it_ends_with_the_event_and_leaves_no_timer() -> None:
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    loop.call_soon(event.set)
    await wait_for_event(event, 3600.0)
    assert event.is_set()
    assert all(timer.cancelled() for timer in loop._scheduled)  # type: ignore[attr-defined]


async def test_it_ends_without_one() -> None:
    event = asyncio.Event()
    await wait_for_event(event, 0.0)
    assert event.is_set()


async def test_who_is_cancelled_leaves_no_timer() -> None:
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    task = asyncio.create_task(wait_for_event(event, 3600.0))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert not event.is_set()
    assert all(timer.cancelled() for timer in loop._scheduled)  # type: ignore[attr-defined]
