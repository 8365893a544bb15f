"""A run under watch: its own thread reads, judges and publishes pictures; whoever shows them never waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .aside import Aside
from .monitor import Monitor

if TYPE_CHECKING:
    from .feeds import Feed, FollowFeed, PlayerFeed


def __getattr__(name: str) -> object:
    """Feeds bring along all that reads logs: nobody waits for that before the first frame is on the screen."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import feeds

    return getattr(feeds, name)


__all__ = ["Aside", "Feed", "FollowFeed", "Monitor", "PlayerFeed"]
