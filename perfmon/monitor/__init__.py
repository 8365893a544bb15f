"""The live worker thread: feeds in, states of the run out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .composite_feeds import (
        INSPECTOR_HISTORY,
        HistoryTaggedFeed,
        InspectorFeed,
        PollingFeed,
        RemoteFeed,
        absent_folders,
        history_of,
    )
    from .feeds import Feed, FollowFeed, PlayerFeed, RecordingFeed, ResetMarker
    from .hang_watch import HangSources
    from .headless import TAIL, Observed, glance, observe
    from .monitor import Monitor
    from .scheduling import BackgroundListener
    from .worker import Watch

__getattr__ = lazy_face(__name__)
