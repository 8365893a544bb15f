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
        self._runner: Runner | None = None
        self._opening = asyncio.Lock()

    async def run(self, script: str) -> Output:
        """Runs a script. Raises PollError, and what the machine raises where it has no shell."""
        async with self._opening:
            if self._runner is None or self._runner.closed:
                self._runner = await self._machine.runner()
            runner = self._runner
        try:
            return await runner.run(script, timeout_s=TIMEOUT_S)
        except RunnerError as error:
            await self.close()
            raise PollError(str(error)) from None

    async def close(self) -> None:
        """Ends the shell."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.close()
