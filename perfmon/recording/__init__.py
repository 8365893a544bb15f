"""Recordings: what sources handed over, with the moments at which they did, in a file that survives a crash."""

from __future__ import annotations

from .layout import MAGIC, SCHEMA, SUFFIX, Frame, Header
from .reader import Recording, open_recording
from .writer import MAX_BYTES, RecordingWriter

__all__ = [
    "MAGIC",
    "MAX_BYTES",
    "SCHEMA",
    "SUFFIX",
    "Frame",
    "Header",
    "Recording",
    "RecordingWriter",
    "open_recording",
]
