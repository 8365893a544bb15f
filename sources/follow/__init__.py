"""Logs followed as they grow: rotation, truncation, pipes, notifications of the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .file_reader import EMPTY, HEAD_SIZE, TAIL_SIZE, Fingerprint, Identity, PipeTail
    from .follower import BackgroundFollower, Follower
    from .rotation import CERTAIN_S, age_by_name, is_part_of
    from .wakeups import end, wait_for_event

__getattr__ = lazy_face(__name__)
