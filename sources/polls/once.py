"""One answer of each poller, for whoever looks once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ..blocks import Block, Notice
from ..ending import end
from ..files import LogFile
from .asked import Asked
from .machines import HereMachine
from .pacing import Pacing
from .poller import Places, nowhere
from .registry import pollers_for

PATIENCE_S = 5.0
_LOOK_S = 0.05


def asked_once(asked: Sequence[Asked], places: Places = nowhere) -> list[tuple[LogFile, Block]]:
    """What pollers of this machine say within some seconds."""
    return asyncio.run(_asked_once(asked, places))


async def _asked_once(asked: Sequence[Asked], places: Places) -> list[tuple[LogFile, Block]]:
    machine = HereMachine()
    told: list[tuple[LogFile, Block]] = []

    async def take(items: list[tuple[LogFile, Block | Notice]]) -> None:
        told.extend((log, item) for log, item in items if isinstance(item, Block))

    pacing = Pacing(machine, [poller for one in asked for poller in pollers_for(machine, one, places)], take)
    running = asyncio.ensure_future(pacing.run())
    try:
        async with asyncio.timeout(PATIENCE_S):
            while {log for log, _ in told} != {paced.log for paced in pacing.paced}:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        pass
    finally:
        await end(running)
    return told
