"""A follower that is closed with the iteration over its items."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from perfmon.core import Block, Notice
from perfmon.sources.discovery import LogFile
from perfmon.sources.follow.follower import Follower


async def follow(
    specs: Sequence[str], *, history: bool = True, poll_s: float = 0.25, polling: bool | None = None
) -> AsyncIterator[tuple[LogFile, Block | Notice]]:
    """The items of all logs, until cancelled or closed."""
    follower = Follower(specs, history, poll_s, polling)
    try:
        async for item in follower.items():
            yield item
    finally:
        follower.close()
