"""One shell on a machine that several pollers run their scripts in, opened anew when it was lost."""

from __future__ import annotations

import asyncio

from ..remote.runner import Output, Runner, RunnerError
from .poller import Machine, PollError

TIMEOUT_S = 50.0
"""Less than what a question may take as a whole: so a shell that hangs is known to, and another one is opened."""


class Script:
    """Runs scripts one after the other. What may hang (a disk that is gone) needs one of its own."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._opening: asyncio.Task[Runner] | None = None

    async def run(self, script: str) -> Output:
        """Runs a script. Raises PollError, and what the machine raises where it has no shell."""
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._machine.runner())
        opening = self._opening
        try:
            # Who is cancelled meanwhile leaves it to others: what is half open could not be closed.
            runner = await asyncio.shield(opening)
            return await runner.run(script, timeout_s=TIMEOUT_S)
        except RunnerError as error:
            await self._drop(opening)
            raise PollError(str(error)) from None
        except Exception:
            await self._drop(opening)
            raise

    async def close(self) -> None:
        """Ends the shell."""
        if self._opening is not None:
            await self._drop(self._opening)

    async def _drop(self, opening: asyncio.Task[Runner]) -> None:
        """The next script has another shell."""
        if self._opening is opening:
            self._opening = None
        if not opening.done():
            opening.cancel()
            await asyncio.wait({opening})
        if not opening.cancelled() and opening.exception() is None:
            await opening.result().close()
