"""Stops a regular expression that would run for hours.

A match holds Python's lock for as long as it takes, in whatever thread it runs; only a signal ends it, and those reach
the main thread alone. So searches run there, in slices, each with an alarm that counts processor time.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


class TooSlowError(Exception):
    """It took longer than it may."""


def at_most(seconds: float, work: Callable[[], T]) -> T:
    """What `work` returns. Raises TooSlowError after about so many seconds of processor time.

    In other threads than the main one, and where somebody else uses the timer, nothing stops it.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getitimer(signal.ITIMER_VIRTUAL)[0]:
        return work()
    armed = True

    def late(_signal: int, _frame: FrameType | None) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise TooSlowError

    before = signal.signal(signal.SIGVTALRM, late)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        result = work()
        armed = False
        return result
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
