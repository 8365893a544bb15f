"""What is asked of hosts beside their logs, for as long as they are followed: checks of servers, and pollers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath

from ..polls.asked import Asked
from .following import Emit
from .health import EVERY_S, HealthCheck
from .host import Host
from .http import Url
from .there import ThereMachine, opener_of

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LOGS_FIRST_S, _LOOK_S = 2.0, 0.1
"""What logs hold already is read before pollers ask: so long at most is waited for it."""


def checks_of(hosts: Sequence[Host], urls: Sequence[Url]) -> list[tuple[Host, Url]]:
    """Every host asks itself where a URL is about the host that asks; else the first one asks for all."""
    return [(host, url) for url in urls for host in (hosts if url.host in _LOOPBACK else hosts[:1])]


async def check(host: Host, url: Url, emit: Emit) -> None:
    """Asks for a URL from a host, again and again."""
    asking = HealthCheck(url, host.address.shown, emit, host.clock.now)
    while True:
        connection = host.connection  # without one nobody knows: nothing is told
        if connection is not None:
            await asking.ask(opener_of(connection))
        await asyncio.sleep(EVERY_S)


async def poll(host: Host, asked: Sequence[Asked], emit: Emit) -> None:
    """Asks a host's pollers at their pace, once its logs were read."""
    if not asked:
        return
    from ..polls.pacing import Pacing
    from ..polls.registry import pollers_for

    began = time.monotonic()
    while not host.logs.caught_up and time.monotonic() - began < _LOGS_FIRST_S:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(_LOOK_S)
    machine, places = ThereMachine(host), partial(_places, host)
    pollers = [poller for one in dict.fromkeys(asked) for poller in pollers_for(machine, one, places)]
    await Pacing(machine, pollers, emit).run()


def _places(host: Host) -> Mapping[str, str]:
    """The folders of the logs that are followed."""
    return {str(PurePosixPath(path).parent): "logs" for path in host.logs.tails}
