"""Files read and written as slowly as storage of a given speed would."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from .clocks import true_monotonic
from .settings import MIB

_CHUNK = MIB // 8
Stopped = Callable[[], bool]


def write(path: Path, size: int, mib_s: Callable[[], float], stopped: Stopped) -> None:
    """Writes `size` bytes, each piece on the disk before the next; raises OSError."""
    piece = os.urandom(_CHUNK)
    began, done = true_monotonic(), 0
    with path.open("wb") as file:
        while done < size and not stopped():
            file.write(piece[: size - done])
            file.flush()
            os.fsync(file.fileno())
            done += len(piece)
            _keep_to(began, done, mib_s())


def read(path: Path, mib_s: Callable[[], float], stopped: Stopped) -> int:
    """Reads all of it, unless it is stopped; returns how much that was. Raises OSError."""
    began, done = true_monotonic(), 0
    with path.open("rb") as file:
        while not stopped() and (piece := file.read(_CHUNK)):
            done += len(piece)
            _keep_to(began, done, mib_s())
    return done


def _keep_to(began: float, done: int, mib_s: float) -> None:
    """Waits until the storage would have moved so many bytes."""
    ahead = began + done / (mib_s * MIB) - true_monotonic()
    if ahead > 0:
        time.sleep(ahead)
