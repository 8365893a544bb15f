"""Pollers of the pipeline: perfmon's own for its port, its host and its Ray cluster, and one for the simulated GPU."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from perfmon.core import Block, Notice
from perfmon.sources.discovery import LogFile
from perfmon.sources.pollers.base import LocalMachine
from perfmon.sources.pollers.host.host import HostPoller
from perfmon.sources.pollers.reading import Area, Poller, Reading
from perfmon.sources.pollers.request import PollRequest
from perfmon.sources.pollers.scheduler import PollScheduler, make_pollers

from .channel import NAME, NAMESPACE, ray_folder
from .clocks import true_monotonic
from .consumer import gpu_file
from .gpu import BusyTime
from .plan import Plan
from .process import until_stopped

_NODE, _STREAMER = "node-0", "streamer-0"
_MEMORY_MB = {"mem_used_mb": 52600.0, "mem_total_mb": 81050.0}


class _GpuPoller:
    """Looks at the simulated GPU as perfmon's poller looks at a real one."""

    name, every_s = "gpu", 1.0

    def __init__(self, plan: Plan) -> None:
        self._busy = BusyTime(gpu_file(plan))
        self._last = (true_monotonic(), self._busy.total_s())

    async def poll(self) -> Sequence[Reading]:
        """The share of the time since the last poll that it was busy."""
        now, total_s = true_monotonic(), self._busy.total_s()
        (since, before_s), self._last = self._last, (now, total_s)
        share = min(1.0, (total_s - before_s) / max(1e-3, now - since))
        values = {"util_pct": round(100.0 * share), **_MEMORY_MB}
        return [Reading(Area.GPU, "0", values, {"state": "ok", "mine": "yes"})]

    async def close(self) -> None:
        """Nothing is held."""


def poll(plan: Plan) -> None:
    """Polls the host of producer and consumer."""
    machine = _machine(_NODE)
    pollers: list[Poller] = [_GpuPoller(plan), HostPoller(machine), *_ports(machine, plan)]
    if plan.knobs().ray_queue:
        request = PollRequest("ray", f"{ray_folder(plan)}#{NAMESPACE}/{NAME}")
        pollers += make_pollers(machine, request)
    _run(machine, pollers)


def poll_streamer(plan: Plan) -> None:
    """Polls the host of the streamer; to run in its namespace."""
    machine = _machine(_STREAMER)
    _run(machine, _ports(machine, plan))


def _machine(name: str) -> LocalMachine:
    machine = LocalMachine()
    machine.name = name
    return machine


def _ports(machine: LocalMachine, plan: Plan) -> list[Poller]:
    return make_pollers(machine, PollRequest("net", str(plan.port)))


def _run(machine: LocalMachine, pollers: Sequence[Poller]) -> None:
    with until_stopped():
        asyncio.run(PollScheduler(machine, pollers, _write).run())


async def _write(items: list[tuple[LogFile, Block | Notice]]) -> None:
    for _, item in items:
        if isinstance(item, Block):
            sys.stdout.buffer.write(item.data)
    sys.stdout.buffer.flush()
