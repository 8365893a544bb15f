"""Which pollers ask engines, endpoints, clusters, schedulers and the user's own commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perfmon.errors import UsageError
from perfmon.text import plain

from .pages.endpoint import Endpoint
from .poller import Machine, Poller


def queue_pollers(machine: Machine, kind: str, argument: str) -> list[Poller]:
    """The pollers of `KIND=ARGUMENT` (`command:ARGUMENT`). Raises UsageError, one line, where it means nothing."""
    make = _MAKERS.get(kind)
    if make is None:
        raise UsageError(f"'{plain(kind, 40)}': expected one of {', '.join(_MAKERS)}")
    return make(machine, argument)


def _engines(kind: str) -> Callable[[Machine, str], list[Poller]]:
    def make(machine: Machine, argument: str) -> list[Poller]:
        from .engines.dialects import load_dialect
        from .engines.server import EnginePoller

        return [EnginePoller(machine, Endpoint.parse(kind, argument), load_dialect(kind))]

    return make


def _trl(machine: Machine, argument: str) -> list[Poller]:
    from .engines.trl import TrlPoller

    return [TrlPoller(machine, Endpoint.parse("trl", argument))]


def _prime_rl(machine: Machine, argument: str) -> list[Poller]:
    from .engines.primerl import TrainerPoller

    return [TrainerPoller(machine, Endpoint.parse("prime-rl", argument))]


def _prometheus(machine: Machine, argument: str) -> list[Poller]:
    from .pages.prometheus import PrometheusPoller, parse_prometheus

    endpoint, names = parse_prometheus(argument)
    return [PrometheusPoller(machine, endpoint, names)]


def _ray(machine: Machine, argument: str) -> list[Poller]:
    from .ray.attach import AttachedPoller, Queues
    from .ray.discovery import Place
    from .ray.poller import RayPoller

    where, attach, named = argument.partition("#")
    place = Place.parse(where)
    pollers: list[Poller] = [RayPoller(machine, place)]
    return [*pollers, AttachedPoller(machine, Queues.parse(named), place.folder)] if attach else pollers


def _slurm(machine: Machine, argument: str) -> list[Poller]:
    from .slurm.poller import SlurmPoller

    if argument:
        raise UsageError("slurm: takes no value; it reports the jobs of the user")
    return [SlurmPoller(machine)]


def _command(machine: Machine, argument: str) -> list[Poller]:
    from .command import CommandPoller

    return [CommandPoller(machine, argument)]


_MAKERS: Mapping[str, Callable[[Machine, str], list[Poller]]] = {
    "vllm": _engines("vllm"),
    "sglang": _engines("sglang"),
    "trl": _trl,
    "prime-rl": _prime_rl,
    "prometheus": _prometheus,
    "ray": _ray,
    "slurm": _slurm,
    "command": _command,
}
