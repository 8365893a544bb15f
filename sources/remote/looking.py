"""Looks for what runs on several hosts at once: one that hangs, or is lost meanwhile, holds nobody up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from .discovery import Discovery, discover, named, with_metrics
from .failures import HostError
from .host import Host
from .runner import RunnerError
from .there import opener_of


@dataclass(frozen=True, slots=True)
class Found:
    """What was found on a host."""

    host: str
    what: Discovery | None
    """None where there was no answer."""
    problem: str = ""
    """Why not; one line."""


async def look_around(hosts: Sequence[Host], grace_s: float) -> list[Found]:
    """What runs on hosts that are connected; once the first has answered, the others have so long.

    Raises HostError when none answers.
    """
    tasks = {host: asyncio.create_task(_found(host)) for host in hosts if host.connection is not None}
    await _first(set(tasks.values()))
    left = {task for task in tasks.values() if not task.done()}
    if left:
        await asyncio.wait(left, timeout=grace_s)
    found = [await _outcome(host.address.shown, task, grace_s) for host, task in tasks.items()]
    if found and all(one.what is None for one in found):
        raise HostError(found[0].problem)
    return found


async def _first(left: set[asyncio.Task[Discovery]]) -> None:
    """Until one has answered, or all have failed."""
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        if any(task.exception() is None for task in done):
            return


async def _outcome(name: str, task: asyncio.Task[Discovery], grace_s: float) -> Found:
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    if task.cancelled():
        return Found(name, None, f"{name}: process discovery has not finished after {grace_s:.0f} s (hung disk?)")
    error = task.exception()
    return Found(name, None, str(error)) if error is not None else Found(name, task.result())


async def _found(host: Host) -> Discovery:
    """What runs there; of a host whose logs were named, also what these names stand for. Raises HostError."""
    files, connection = host.files, host.connection
    if files is None or connection is None:
        raise HostError(f"{host.address.shown}: not connected")
    try:
        found = await with_metrics(await discover(files), opener_of(connection))
        return await named(files, found, host.logs.paths) if host.logs.paths else found
    except RunnerError as error:
        raise HostError(str(error)) from None
