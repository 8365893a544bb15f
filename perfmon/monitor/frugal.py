"""Asks the allocator of the C library to give memory back: blocks of logs are large, and short-lived."""

from __future__ import annotations

import sys
from contextlib import suppress

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
"""Numbers of `mallopt(3)`."""
_LARGE = 1 << 17


def spare_memory() -> None:
    """What is free goes back to the system now, and what is large from now on as soon as it is freed.

    Left alone, glibc raises its idea of large to the largest block that was ever freed, and keeps all below it.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    with suppress(OSError, AttributeError):  # another C library
        library = ctypes.CDLL(None)
        for option in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            library.mallopt(option, _LARGE)
        library.malloc_trim(0)
