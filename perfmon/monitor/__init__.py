"""The live worker thread: feeds in, states of the run out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .composite_feeds import HistoryTaggedFeed, PollingFeed, RecordingFeed, RemoteFeed
    from .feeds import Feed, FollowFeed, PlayerFeed, ResetMarker
    from .headless import TAIL, Observed, glance, observe
    from .monitor import Monitor
    from .scheduling import Aside
    from .worker import Watch

__getattr__ = lazy_face(
    __name__,
    {
        "composite_feeds": "HistoryTaggedFeed,PollingFeed,RecordingFeed,RemoteFeed",
        "feeds": "ResetMarker,Feed,FollowFeed,PlayerFeed",
        "headless": "Observed,TAIL,glance,observe",
        "monitor": "Monitor",
        "scheduling": "Aside",
        "worker": "Watch",
    },
)
