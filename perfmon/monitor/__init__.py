"""A run under watch: its own thread reads, judges and publishes pictures; whoever shows them never waits for it."""

from __future__ import annotations

from .aside import Aside
from .feeds import Feed, FollowFeed, PlayerFeed
from .monitor import Monitor

__all__ = ["Aside", "Feed", "FollowFeed", "Monitor", "PlayerFeed"]
