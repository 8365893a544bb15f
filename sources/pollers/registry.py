"""Registry of pollers: the pollers of a SOURCE. A kind is imported when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import DiskPaths, Machine, Poller, no_disk_paths
from .metrics_page import Endpoint, PrometheusPoller, parse_prometheus
from .request import PollRequest

if TYPE_CHECKING:
    from ..remote.discovery import Discovery


def make_pollers(machine: Machine, request: PollRequest, places: DiskPaths = no_disk_paths) -> list[Poller]:
    """Return the pollers of a request, whose argument `parse_request` has checked."""
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
            from .ray.attach import AttachedPoller, parse_ray
            from .ray.poller import RayPoller

            place, queues = parse_ray(argument)
            attached = [AttachedPoller(machine, queues, place.folder)] if queues else []
            return [RayPoller(machine, place), *attached]
        case "slurm":
            from .slurm import SlurmPoller

            return [SlurmPoller(machine)]
        case "command":
            from .command import CommandPoller

            return [CommandPoller(machine, argument)]
        case kind:
            raise AssertionError(f"no pollers for {kind}")


# --- What to poll, of what was found to run on a machine ---

_KINDS = {"vLLM": "vllm", "SGLang": "sglang", "prime-rl": "prime-rl"}


def requests_for(found: Discovery) -> list[PollRequest]:
    """The metrics pages of its processes, each once."""
    kinds: dict[int, str] = {}
    for process in found.processes:
        for port in process.metrics:
            kinds.setdefault(port, _KINDS.get(process.kind, "prometheus"))
    return [PollRequest(kind, f"http://127.0.0.1:{port}") for port, kind in sorted(kinds.items())]
