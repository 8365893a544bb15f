"""The consumer: takes batches out of the queue, computes on its GPU and stores the results."""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from .channel import Batch, connect
from .clocks import true_monotonic
from .gpu import BusyTime
from .journal import Journal
from .log_lines import speak_like_ray
from .plan import Plan
from .process import until_stopped
from .producer import SAMPLES

_POLL_S = 1.0
_EVERY = 10
_POLLS, _REPORTED = 200, 5
"""Polls in a second, and how many seconds of them are reported at once."""


def gpu_file(plan: Plan) -> Path:
    """How long the GPU has been busy."""
    return plan.folder / "gpu"


class Consumer:
    """Handles one batch after the other."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._journal = Journal(plan.folder / "journal", "consumer", plan.started)
        self._log = logging.getLogger("consumer")
        self._channel = connect(plan)
        self._gpu = BusyTime(gpu_file(plan))

    def run(self) -> None:
        """Until it is stopped, hangs or dies."""
        self._log.info("Actor 0: Starting streaming from queue")
        first, done = self._first(), 0
        began = true_monotonic()
        self._compute(first, self._plan.knobs().first_batch_s)
        while True:
            done += 1
            if done % _EVERY == 0:
                rate = SAMPLES * done / (true_monotonic() - began)
                self._log.info("Actor 0: Processed %d batches, %.1f samples/s", done, rate)
            self._fail()
            with self._journal.during("get"):
                batch = self._channel.get(_POLL_S)
                while batch is None:
                    batch = self._channel.get(_POLL_S)
            self._compute(batch)

    def _first(self) -> Batch:
        """The first batch, which may take its time."""
        polls = 0
        with self._journal.during("first"):
            while (batch := self._channel.get(_POLL_S)) is None:
                polls += 1
                if polls % _REPORTED == 0:
                    self._log.info("Actor 0: Still polling Q1 (empty_polls=%d)", polls * _POLLS)
        self._log.info("Actor 0: First batch received! type=PipelineInput")
        return batch

    def _compute(self, batch: Batch, compile_s: float = 0.0) -> None:
        knobs = self._plan.knobs()
        with self._journal.during("batch"):
            time.sleep(compile_s)
            with self._gpu.busy():
                bytearray(batch.data)  # the copy to the device
                time.sleep(knobs.consume_s)
            time.sleep(knobs.store_s)

    def _fail(self) -> None:
        knobs = self._plan.knobs()
        if knobs.consumer_dies:
            self._journal.stretch("died", self._journal.now(), self._journal.now())
            os._exit(1)
        if knobs.consumer_hangs:
            with self._journal.during("hang"):
                threading.Event().wait()


def consume(plan: Plan) -> None:
    """Plays the consumer."""
    speak_like_ray("PipelineActor", plan.emit)
    with until_stopped(), suppress(ConnectionError, EOFError):
        Consumer(plan).run()
