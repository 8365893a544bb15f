"""Ends tasks that somebody started, so that whoever ends them can still be ended itself."""

from __future__ import annotations

import asyncio
from typing import Any


async def end(task: asyncio.Future[Any], at_most_s: float | None = None) -> None:
    """Cancels `task` and waits for its end; raises what it ended with, unless it was cancelled.

    A plain `await task` cannot tell the end of the task from that of whoever waits, which would be lost then.
    """
    task.add_done_callback(_heard)
    task.cancel()
    await asyncio.wait([task], timeout=at_most_s)
    if task.done() and not task.cancelled():
        task.result()


def _heard(task: asyncio.Future[Any]) -> None:
    """Nobody waits any more for what ends too late, and nothing is to be said of it."""
    if not task.cancelled():
        task.exception()
