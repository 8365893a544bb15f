"""Registry of pollers: the pollers of a SOURCE. A kind is imported when it is needed."""

from __future__ import annotations

from collections.abc import Sequence

from perfmon.core import PerfmonError

from .base import DiskPaths, Machine, NotAvailableError, Poller, Reading, no_disk_paths
from .metrics_page import Endpoint, PrometheusPoller, parse_prometheus
from .request import PollRequest


def pollers_for(machine: Machine, request: PollRequest, places: DiskPaths = no_disk_paths) -> list[Poller]:
    """Return the pollers of a machine; where there can be none, one that reports why."""
    try:
        return make_pollers(machine, request, places)
    except PerfmonError as error:
        return [Missing(request.shown, str(error))]


class Missing:
    """Stands for pollers that cannot be made."""

    every_s = 60.0

    def __init__(self, name: str, why: str) -> None:
        self.name, self._why = name, why

    async def poll(self) -> Sequence[Reading]:
        """Raises NotAvailableError."""
        raise NotAvailableError(self._why)

    async def close(self) -> None:
        """Nothing is held."""


def make_pollers(machine: Machine, request: PollRequest, places: DiskPaths = no_disk_paths) -> list[Poller]:
    """Return the pollers of a request. Raises UsageError, one line, for an argument that means nothing."""
    argument = request.argument
    match request.kind:
        case "host":
            from .host.host import host_pollers

            return host_pollers(machine, places)
        case "gpu":
            from .gpu.gpu import GpuPoller

            return [GpuPoller(machine)]
        case "net":
            from .network import SocketPoller

            return [SocketPoller(machine, int(argument))]
        case "vllm" | "sglang" as kind:
            from .engines import EnginePoller, load_mapping

            return [EnginePoller(machine, Endpoint.parse(kind, argument), load_mapping(kind))]
        case "trl":
            from .engines import TrlPoller

            return [TrlPoller(machine, Endpoint.parse("trl", argument))]
        case "prime-rl":
            from .engines import TrainerPoller

            return [TrainerPoller(machine, Endpoint.parse("prime-rl", argument))]
        case "prometheus":
            return [PrometheusPoller(machine, *parse_prometheus(argument))]
        case "ray":
            from .ray.attach import AttachedPoller, Queues
            from .ray.poller import Place, RayPoller

            where, attach, queues = argument.partition("#")
            place = Place.parse(where)
            attached = [AttachedPoller(machine, Queues.parse(queues), place.folder)] if attach else []
            return [RayPoller(machine, place), *attached]
        case "slurm":
            from .slurm import SlurmPoller

            return [SlurmPoller(machine)]
        case "command":
            from .command import CommandPoller

            return [CommandPoller(machine, argument)]
        case kind:
            raise AssertionError(f"no pollers for {kind}")
