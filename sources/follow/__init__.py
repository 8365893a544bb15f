"""Logs followed as they grow: rotation, truncation, pipes, notifications of the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .file_reader import PipeTail
    from .follower import BackgroundFollower, Follower
    from .wakeups import end, wait_for_event

__getattr__ = lazy_face(__name__)
