"""Waits for an event, but no longer than for a while."""

from __future__ import annotations

import asyncio


async def set_within(event: asyncio.Event, at_most_s: float) -> None:
    """Returns when `event` is set; after `at_most_s` it sets the event itself.

    A timeout costs several times as much, for it ends a wait by cancelling it: too much for what is done all the time.
    """
    timer = asyncio.get_running_loop().call_later(at_most_s, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()
