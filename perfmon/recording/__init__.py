"""Recordings: the blocks that sources delivered, with their times, in a file that survives a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .format import MAGIC, SUFFIX, Recording, open_recording
    from .writer import MAX_BYTES, RecordingWriter

__getattr__ = lazy_face(__name__)
