"""Resource usage of perfmon itself, shown because a monitor must not slow the run down."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STATM = Path("/proc/self/statm")
_LEAST_S = 1.5


class OwnCost:
    """Processor time and memory of this process."""

    def __init__(self) -> None:
        self._at, self._used = time.monotonic(), _cpu_s()
        self.cpu_percent: float | None = None
        """Of one core, since the last look; None before the second one."""
        self.rss_bytes: int | None = None

    def look(self) -> None:
        """Measures again, but not over less than some seconds: processor time is counted in ticks."""
        now = time.monotonic()
        if now - self._at < _LEAST_S and self.cpu_percent is not None:
            return
        used = _cpu_s()
        if now > self._at:
            self.cpu_percent = 100.0 * (used - self._used) / (now - self._at)
        self._at, self._used = now, used
        self.rss_bytes = _rss()


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system


def _rss() -> int | None:
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import psutil  # elsewhere than on Linux

        return int(psutil.Process().memory_info().rss)
