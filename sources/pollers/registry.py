"""Registry of pollers: which pollers a SPEC means."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence

from perfmon.core import PerfmonError, UsageError, plain

from .base import Machine, NotAvailableError, Places, Poller, nowhere
from .metrics_endpoint import Endpoint
from .reading import Reading
from .request import Asked

# --- Which pollers a SPEC means: one line for each kind, and nothing is loaded before it is asked for ---

_TABLE: dict[str, tuple[str, str]] = {
    "host": ("host.host", "host_pollers"),
    "gpu": ("gpu.poller", "gpu_pollers"),
    "net": ("network", "socket_pollers"),
    "vllm": ("registry", "queue_pollers"),
    "sglang": ("registry", "queue_pollers"),
    "trl": ("registry", "queue_pollers"),
    "prime-rl": ("registry", "queue_pollers"),
    "prometheus": ("registry", "queue_pollers"),
    "ray": ("registry", "queue_pollers"),
    "slurm": ("registry", "queue_pollers"),
    "command": ("registry", "queue_pollers"),
}
"""Kind → module of this package, and what makes its pollers there."""


def pollers_for(machine: Machine, asked: Asked, places: Places = nowhere) -> list[Poller]:
    """The pollers that a machine is asked by; where there can be none, one that says why."""
    try:
        make = maker_of(asked)
        if asked.kind == "gpu":
            made: Sequence[Poller] = make(machine)
        elif asked.kind == "host":
            made = make(machine, places)
        elif asked.kind == "net":
            made = make(machine, asked.argument)
        else:
            made = make(machine, asked.kind, asked.argument)
    except PerfmonError as error:
        return [Missing(asked.shown, str(error))]
    return list(made)


def maker_of(asked: Asked) -> Callable[..., Sequence[Poller]]:
    """What makes the pollers of a kind. Raises UsageError where this installation has none."""
    module, maker = _TABLE[asked.kind]
    try:
        found: Callable[..., Sequence[Poller]] = getattr(importlib.import_module(f"{__package__}.{module}"), maker)
    except ImportError as error:
        raise UsageError(f"{asked.shown}: cannot be polled by this installation ({error.name} is missing)") from None
    return found


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


# --- Which pollers ask engines, endpoints, clusters, schedulers and the user's own commands ---


def queue_pollers(machine: Machine, kind: str, argument: str) -> list[Poller]:
    """The pollers of `KIND=ARGUMENT` (`command:ARGUMENT`). Raises UsageError, one line, where it means nothing."""
    make = _MAKERS.get(kind)
    if make is None:
        raise UsageError(f"'{plain(kind, 40)}': expected one of {', '.join(_MAKERS)}")
    return make(machine, argument)


def _engines(kind: str) -> Callable[[Machine, str], list[Poller]]:
    def make(machine: Machine, argument: str) -> list[Poller]:
        from .engines import EnginePoller, load_dialect

        return [EnginePoller(machine, Endpoint.parse(kind, argument), load_dialect(kind))]

    return make


def _trl(machine: Machine, argument: str) -> list[Poller]:
    from .engines import TrlPoller

    return [TrlPoller(machine, Endpoint.parse("trl", argument))]


def _prime_rl(machine: Machine, argument: str) -> list[Poller]:
    from .engines import TrainerPoller

    return [TrainerPoller(machine, Endpoint.parse("prime-rl", argument))]


def _prometheus(machine: Machine, argument: str) -> list[Poller]:
    from .metrics_endpoint import PrometheusPoller, parse_prometheus

    endpoint, names = parse_prometheus(argument)
    return [PrometheusPoller(machine, endpoint, names)]


def _ray(machine: Machine, argument: str) -> list[Poller]:
    from .ray.attach import AttachedPoller, Queues
    from .ray.poller import Place, RayPoller

    where, attach, named = argument.partition("#")
    place = Place.parse(where)
    pollers: list[Poller] = [RayPoller(machine, place)]
    return [*pollers, AttachedPoller(machine, Queues.parse(named), place.folder)] if attach else pollers


def _slurm(machine: Machine, argument: str) -> list[Poller]:
    from .slurm import SlurmPoller

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
