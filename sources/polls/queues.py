"""Which pollers ask engines, endpoints, clusters, schedulers and the user's own commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perfmon.errors import UsageError
from perfmon.text import plain

from .poller import Machine, Poller
from .prometheus_page import Endpoint


def queue_pollers(machine: Machine, kind: str, argument: str) -> list[Poller]:
    """The pollers of `KIND=ARGUMENT` (`command:ARGUMENT`). Raises UsageError, one line, where it means nothing."""
    make = _MAKERS.get(kind)
    if make is None:
        raise UsageError(f"'{plain(kind, 40)}': expected one of {', '.join(_MAKERS)}")
    return make(machine, argument)


def _vllm(machine: Machine, argument: str) -> list[Poller]:
    from .queues_server import EnginePoller
    from .vllm import VLLM

    return [EnginePoller(machine, Endpoint.parse("vllm", argument), VLLM)]


def _sglang(machine: Machine, argument: str) -> list[Poller]:
    from .queues_server import EnginePoller
    from .sglang import SGLANG

    return [EnginePoller(machine, Endpoint.parse("sglang", argument), SGLANG)]


def _trl(machine: Machine, argument: str) -> list[Poller]:
    from .trl import TrlPoller

    return [TrlPoller(machine, Endpoint.parse("trl", argument))]


def _prime_rl(machine: Machine, argument: str) -> list[Poller]:
    from .primerl import TrainerPoller

    return [TrainerPoller(machine, Endpoint.parse("prime-rl", argument))]


def _prometheus(machine: Machine, argument: str) -> list[Poller]:
    from .prometheus import PrometheusPoller, parse_prometheus

    endpoint, names = parse_prometheus(argument)
    return [PrometheusPoller(machine, endpoint, names)]


def _ray(machine: Machine, argument: str) -> list[Poller]:
    from .ray import RayPoller
    from .ray_attach import AttachedPoller, Queues
    from .ray_discovery import Place

    where, attach, named = argument.partition("#")
    place = Place.parse(where)
    pollers: list[Poller] = [RayPoller(machine, place)]
    return [*pollers, AttachedPoller(machine, Queues.parse(named), place.folder)] if attach else pollers


def _slurm(machine: Machine, argument: str) -> list[Poller]:
    from .slurm import SlurmPoller

    if argument:
        raise UsageError("slurm: expected nothing behind it: the jobs of the user are told")
    return [SlurmPoller(machine)]


def _command(machine: Machine, argument: str) -> list[Poller]:
    from .command import CommandPoller

    return [CommandPoller(machine, argument)]


_MAKERS: Mapping[str, Callable[[Machine, str], list[Poller]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "trl": _trl,
    "prime-rl": _prime_rl,
    "prometheus": _prometheus,
    "ray": _ray,
    "slurm": _slurm,
    "command": _command,
}
