"""The live worker thread: feeds in, states of the run out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .composite_feeds import MarkedFeed, PolledFeed, RecordedFeed, RemoteFeed
    from .feeds import Anew, Feed, FollowFeed, PlayerFeed
    from .headless import TAIL, Observed, glance, observe
    from .monitor import Monitor
    from .scheduling import Aside
    from .worker import Watch

__all__ = [
    "TAIL",
    "Anew",
    "Aside",
    "Feed",
    "FollowFeed",
    "MarkedFeed",
    "Monitor",
    "Observed",
    "PlayerFeed",
    "PolledFeed",
    "RecordedFeed",
    "RemoteFeed",
    "Watch",
    "glance",
    "observe",
]

__getattr__ = lazy_face(
    __name__,
    {
        "composite_feeds": "MarkedFeed,PolledFeed,RecordedFeed,RemoteFeed",
        "feeds": "Anew,Feed,FollowFeed,PlayerFeed",
        "headless": "Observed,TAIL,glance,observe",
        "monitor": "Monitor",
        "scheduling": "Aside",
        "worker": "Watch",
    },
)
