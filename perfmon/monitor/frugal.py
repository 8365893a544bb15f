"""Asks the allocator of the C library to give memory back: blocks of logs are large, and short-lived."""

from __future__ import annotations

import sys
from contextlib import suppress

_MMAP_THRESHOLD, _TRIM_THRESHOLD, _ARENA_MAX = -3, -1, -8
"""Numbers of `mallopt(3)`."""
_LARGE = 1 << 17


def spare_memory() -> None:
    """From now on what is large goes back to the system once it is freed, and threads share what is small.

    Left alone, glibc raises its idea of large to the largest block that was ever freed, and keeps all below it.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    with suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in ((_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, _LARGE), (_ARENA_MAX, 1)):
            mallopt(option, value)
