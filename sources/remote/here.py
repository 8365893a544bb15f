"""What runs on this machine, found in the same way as on others."""

from __future__ import annotations

import asyncio

from .discovery import Discovery, discover, with_metrics
from .files import Files
from .http import open_here
from .local import LocalRunner
from .runner import RunnerError


def discover_here() -> Discovery:
    """Processes of a run and their logs; nothing where this machine has no `/proc` or no shell."""
    return asyncio.run(_discover())


async def _discover() -> Discovery:
    try:
        runner = await LocalRunner.open()
    except OSError:
        return Discovery()
    try:
        return await with_metrics(await discover(await Files.open(runner)), open_here)
    except RunnerError:
        return Discovery()
    finally:
        await runner.close()
