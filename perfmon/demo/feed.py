"""A simulated run as a timeline: each line when it is printed, so that it can be watched as if it happened now."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from heapq import merge
from operator import itemgetter
from pathlib import Path

from perfmon.items import Block
from perfmon.sources.adjoining import TimedItem
from perfmon.sources.replay import Timeline

from .polled import Polls
from .simulation import Simulation
from .writer import simulated

MINUTES = 60.0
"""How long a run lasts, unless another length is wished."""


def demo_timeline(
    scenario: str = "frontend-queue", seed: int = 0, minutes: float = MINUTES, begin: datetime | None = None
) -> Timeline:
    """The lines of a run that begins at `begin`, local time: now when None. The same arguments give the same lines.

    It is simulated step by step as it is played. Raises UsageError for an unknown scenario or a length out of range.
    """
    clock = datetime.now() if begin is None else begin
    simulated(scenario, seed, minutes)

    def items() -> Iterator[TimedItem]:
        simulation = simulated(scenario, seed, minutes, clock)
        return _lines(simulation, Polls(simulation, seed, clock))

    return Timeline(Path(f"demo-{scenario}"), clock.timestamp(), 60.0 * minutes, items)


def _lines(simulation: Simulation, polls: Polls) -> Iterator[TimedItem]:
    """Every line as a block, and between them what pollers say."""
    ends: dict[str, tuple[int, int]] = {}
    for told in simulation.steps():
        printed = list(simulation.journal.take(told))
        polled = polls.take(told if told < math.inf else printed[-1][0] if printed else 0.0)
        for at_s, log, text in merge(printed, polled, key=itemgetter(0)):
            offset, line = ends.get(log, (0, 1))
            data = f"{text}\n".encode()
            ends[log] = offset + len(data), line + 1
            yield at_s, log, Block(data, offset, line)
