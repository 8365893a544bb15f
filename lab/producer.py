"""The producer: receives items from a socket, parses them and puts them into the queue."""

from __future__ import annotations

import array
import logging
import socket
import time
import zlib
from contextlib import suppress

from .channel import Batch, connect
from .clocks import true_monotonic
from .journal import Journal
from .log_lines import speak_like_ray
from .plan import Plan
from .process import until_stopped
from .settings import MIB
from .streamer import HEADER

SAMPLES = 4
"""In a batch."""
_PATIENCE_S = 10.0
"""Seconds without data until it says so."""
_EVERY = 10
_LOAD = 0.7
"""Share of the parsing that is loading; the rest makes tensors."""


class Producer:
    """Handles one item after the other."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._journal = Journal(plan.folder / "journal", "producer", plan.started)
        self._log = logging.getLogger("producer")
        self._channel = connect(plan)
        self._bytes = 0

    def run(self) -> None:
        """Until it is stopped."""
        port = self._plan.port
        with socket.create_server((self._plan.link or "127.0.0.1", port)) as listening:
            self._log.info("Producer 0: Listening on tcp://0.0.0.0:%d (advertised as tcp://node-0:%d)", port, port)
            connection, _ = listening.accept()
        with connection:
            connection.settimeout(_PATIENCE_S)
            began, number = true_monotonic(), 0
            while True:
                item = self._receive(connection, number)
                self._handle(item, number)
                number, self._bytes = number + 1, self._bytes + len(item)
                if number % _EVERY == 0:
                    rate = self._bytes / MIB / (true_monotonic() - began)
                    self._log.info("Producer 0: %d batches (streaming), %.1f MB/s, %d packets", number, rate, number)

    def _receive(self, connection: socket.socket, number: int) -> bytearray:
        with self._journal.during("receive"):
            item = self._read(connection, HEADER.unpack(self._read(connection, HEADER.size))[0])
        if not number:
            self._log.info("Producer 0: First packet received! (%d bytes)", len(item))
        return item

    def _read(self, connection: socket.socket, size: int) -> bytearray:
        data, done = bytearray(size), 0
        while done < size:
            try:
                count = connection.recv_into(memoryview(data)[done:])
            except TimeoutError:
                address = f"tcp://node-0:{self._plan.port}"
                self._log.warning("Producer 0: Waiting for data on %s (no data after %.0fs)", address, _PATIENCE_S)
                continue
            if not count:
                raise ConnectionError("the streamer is gone")
            done += count
        return data

    def _handle(self, item: bytearray, number: int) -> None:
        knobs = self._plan.knobs()
        began = true_monotonic()
        with self._journal.during("parse"):
            zlib.crc32(item)
            loaded = _until(began + _LOAD * knobs.parse_s)
            values = array.array("f", bytes(item))
            parsed = _until(began + knobs.parse_s)
        self._log.info("Producer 0: np.load took %.2fs, keys=['data', 'run', 'timestamp']", loaded - began)
        shape = (1, 1, len(values) // SAMPLES // 1024, 1024)
        self._log.info(
            "Producer 0: tensor conversion took %.2fs -> %d tensors, each shape %s", parsed - loaded, SAMPLES, shape
        )
        with self._journal.during("store"):
            stored = self._channel.store(Batch(values.tobytes(), knobs.serialise_s))
        self._log.info("Producer 0: ray.put x1 took %.2fs", true_monotonic() - parsed)
        self._log.info("Producer 0: Pushing batch %d to Q1 (%d tensors)", number, SAMPLES)
        with self._journal.during("push"):
            self._channel.put(stored)
        self._log.info("Producer 0: Successfully pushed batch %d to Q1", number)


def _until(moment: float) -> float:
    """Waits for a moment; returns when it is now."""
    time.sleep(max(0.0, moment - true_monotonic()))
    return true_monotonic()


def produce(plan: Plan) -> None:
    """Plays the producer."""
    speak_like_ray("SocketProducer", plan.emit)
    with until_stopped(), suppress(ConnectionError, EOFError):
        Producer(plan).run()
