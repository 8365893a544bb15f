"""Whether this installation and this processor have the compiled search (`_scanning.c`).

PERFMON_NATIVE=0 does without it, and so does an installation without a compiler: all is then the same, but slower.
"""

from __future__ import annotations

import os
import re

try:
    from . import _scanning as scanning
except ImportError:  # no compiler when this was installed, or a processor without AVX2
    scanning = None  # type: ignore[assignment]

__all__ = ["in_use", "newlines", "scanning", "tells_time"]
_TIME = re.compile(r"\d:\d\d:|\d{9}")


def in_use() -> bool:
    """Whether scanners that are made from now on use it."""
    return scanning is not None and os.environ.get("PERFMON_NATIVE") != "0"


def newlines(data: bytes) -> int:
    """How many there are; a log's lines are short, so that looking for one after the other takes six times as long."""
    return data.count(b"\n") if scanning is None else scanning.newlines(data)


def tells_time(text: str, start: int) -> bool:
    """Whether a time may stand behind `start`: `0:00:` or nine digits do. True for text that is not ASCII."""
    if scanning is None:
        return not text.isascii() or _TIME.search(text, start) is not None
    return scanning.tells_time(text, start)
