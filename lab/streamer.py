"""The streamer: makes items and sends them over a socket, as fast as it, or the link, can."""

from __future__ import annotations

import os
import random
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress

from .clocks import true_monotonic
from .journal import Journal
from .network import throttle
from .plan import Plan
from .process import until_stopped
from .settings import MIB

HEADER = struct.Struct("!Q")
"""Bytes of the item that follows."""
_RETRY_S = 0.1
_SPREAD = 0.1


class Streamer:
    """Sends item after item."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._journal = Journal(plan.folder / "journal", "streamer", plan.started)
        self._random = random.Random(plan.seed + 3)  # noqa: S311 - no secret hangs on it
        self._mib_s = 0.0
        self._clock = {"count": 0, "size": 0, "wait": 0.0, "time": time.time()}
        self._next_at = true_monotonic()

    def run(self) -> None:
        """Until it is stopped."""
        print("[Rank 0] Initializing event source....", flush=True)
        time.sleep(self._plan.knobs().starts_after_s)
        print("[Rank 0] Initializing event source: Done!", flush=True)
        with self._connected() as connection:
            self._next_at = true_monotonic()
            for item in self._items():
                self._throttle(connection)
                with self._journal.during("send"):
                    connection.sendall(HEADER.pack(len(item)))
                    connection.sendall(item)
                self._report(len(item))

    def _connected(self) -> socket.socket:
        """A connection to the producer, which may take a while to listen."""
        while True:
            with suppress(OSError):
                return socket.create_connection((self._plan.link or "127.0.0.1", self._plan.port))
            time.sleep(_RETRY_S)

    def _items(self) -> Iterator[bytes]:
        """One after the other, or many at once that were held back."""
        held: list[bytes] = []
        while True:
            knobs = self._plan.knobs()
            self._wait(knobs.produce_s * self._random.uniform(1.0 - _SPREAD, 1.0 + _SPREAD))
            held.append(os.urandom(int(knobs.item_mib * MIB)))
            if len(held) >= knobs.burst:
                yield from held
                held.clear()

    def _wait(self, seconds: float) -> None:
        """Until an item is made: the next one is begun when the last one was, or is sent."""
        self._next_at = max(self._next_at, true_monotonic() - seconds) + seconds
        time.sleep(max(0.0, self._next_at - true_monotonic()))

    def _throttle(self, connection: socket.socket) -> None:
        mib_s = self._plan.knobs().link_mib_s
        if mib_s != self._mib_s:
            self._mib_s = mib_s
            throttle(connection, int(mib_s * MIB), own_link=bool(self._plan.link))

    def _report(self, size: int) -> None:
        """Everything is counted from the start."""
        now, last = time.time(), self._clock
        self._clock = {
            "count": last["count"] + 1,
            "size": last["size"] + size,
            "wait": last["wait"] + now - last["time"],
            "time": now,
        }
        print(f"[Rank 0] {self._clock}]", flush=True)


def stream(plan: Plan) -> None:
    """Plays the streamer."""
    with until_stopped(), suppress(ConnectionError, subprocess.CalledProcessError):
        Streamer(plan).run()
