"""What the three processes share: they never outlive the lab, and end when they are told to."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PR_SET_PDEATHSIG = 1
_LOOK_S = 0.5


def go_first() -> None:
    """Comes before what else the machine does, where that is allowed: what is slow shall be the fault alone.

    Niceness weighs only among the processes of a session where the kernel groups by those (autogroup): what else runs
    is of others. Processes of the lab mostly sleep; as real-time ones they take no more than they need.
    """
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        return
    with suppress(OSError):
        os.nice(-20)


def die_with(parent: int) -> None:
    """Makes this process end when `parent` does, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_watch, args=(parent,), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    """Where the kernel does not tell, or it was too late to ask."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def until_stopped() -> Iterator[None]:
    """Everything within is broken off by SIGINT, without a word: the process is to end."""
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    with suppress(SystemExit):
        yield
