"""Which pollers a SPEC means: one line for each kind, and nothing is loaded before it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

from perfmon.errors import PerfmonError, UsageError

from .asked import Asked
from .poller import AbsentError, Machine, Places, Poller, nowhere
from .reading import Reading

_TABLE: dict[str, tuple[str, str]] = {
    "host": ("hosts.host", "host_pollers"),
    "gpu": ("gpu.poller", "gpu_pollers"),
    "net": ("network.sockets", "socket_pollers"),
    "vllm": ("queues", "queue_pollers"),
    "sglang": ("queues", "queue_pollers"),
    "trl": ("queues", "queue_pollers"),
    "prime-rl": ("queues", "queue_pollers"),
    "prometheus": ("queues", "queue_pollers"),
    "ray": ("queues", "queue_pollers"),
    "slurm": ("queues", "queue_pollers"),
    "command": ("queues", "queue_pollers"),
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
        """Raises AbsentError."""
        raise AbsentError(self._why)

    async def close(self) -> None:
        """Nothing is held."""
