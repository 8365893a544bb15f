"""The clocks of a host: the machine's own, or, where the lab plays another host, clocks that are ahead."""

from __future__ import annotations

import time

true_monotonic = time.monotonic
"""The machine's monotonic clock, whatever a process takes for it."""


def live_ahead(seconds: float) -> None:
    """From now on all of this process sees clocks that are ahead, as a process on another host does."""
    if not seconds:
        return
    monotonic, wall = time.monotonic, time.time
    time.monotonic = lambda: monotonic() + seconds
    time.time = lambda: wall() + seconds
