"""A command that prints a row for each GPU again and again; it is started anew when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing

from perfmon.errors import PerfmonError
from perfmon.text import plain, without_secrets

from ...ending import end
from ..poller import Machine, PollError
from ..reading import Reading

_LONGEST_S = 30.0
_SAID = 120


class Stream:
    """The newest rows of all GPUs."""

    def __init__(
        self, machine: Machine, tool: str, command: str, read: Callable[[str], Reading | None], gpus: int
    ) -> None:
        """`gpus` is how many rows make up a round; `read` gives None for lines that are no rows."""
        self._machine, self._tool, self._command, self._read, self._gpus = machine, tool, command, read, gpus
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._rows: dict[str, Reading] = {}
        self._round: Sequence[Reading] | None = None
        self._said = self._trouble = ""

    async def newest(self) -> Sequence[Reading]:
        """The last whole round that was not given yet; waits for one. Raises PollError when the command has ended."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        while self._round is None:
            if self._trouble:
                why, self._trouble = self._trouble, ""
                raise PollError(why)
            self._news.clear()
            await self._news.wait()
        found, self._round = self._round, None
        return found

    async def close(self) -> None:
        """Ends the command."""
        task, self._task = self._task, None
        if task is not None:
            await end(task)

    async def _run(self) -> None:
        wait_s = 1.0
        while True:
            self._rows, self._said, rounds = {}, "", 0
            why = f"{self._tool} ended"
            try:
                async with aclosing(self._machine.lines(self._command)) as lines:  # type: ignore[type-var]
                    async for line in lines:
                        rounds += self._take(line.decode("utf-8", "replace"))
            except PerfmonError as error:
                why = str(error)
            wait_s = 1.0 if rounds else wait_s
            said = f" ({self._said})" if self._said else ""
            self._trouble = f"{why}{said}; restarting in {wait_s:.0f} s"
            self._news.set()
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_S)

    def _take(self, line: str) -> bool:
        """Whether a round is complete: all have a row, or one has its second."""
        reading = self._read(line)
        if reading is None:
            if line.strip():
                self._said = plain(without_secrets(line.strip()), _SAID)
            return False
        whole = reading.name in self._rows
        if whole:
            self._give()
        self._rows[reading.name] = reading
        if len(self._rows) >= self._gpus:
            self._give()
            whole = True
        return whole

    def _give(self) -> None:
        self._round, self._rows = list(self._rows.values()), {}
        self._trouble = ""
        self._news.set()
