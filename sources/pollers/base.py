"""Interfaces of polling: a poller, and the machine that it asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from perfmon.core import Notice, PerfmonError

from ..blocks import LineSplitter
from ..http_client import Opener
from ..shell import Output, Runner, RunnerError
from .reading import Reading

# --- The seams of polling: what is asked, and the machine that it is asked of ---

DiskPaths = Callable[[], Mapping[str, str]]
"""Paths on the machine → what lies there (`logs`, `checkpoints`): their disks matter to the run."""


def no_disk_paths() -> Mapping[str, str]:
    """No path is known."""
    return {}


class PollError(PerfmonError):
    """A poller could not find out what it asks for: one line that says what, where and the mend."""


class NotAvailableError(PollError):
    """The device or program does not exist (no driver, no such command): reported once, and queried again rarely."""


class Machine(Protocol):
    """A machine that pollers ask: this one, or one that a connection leads to."""

    @property
    def name(self) -> str:
        """For display; that of this machine is its host name."""

    @property
    def here(self) -> bool:
        """It is this machine: libraries can be asked instead of commands."""

    def now(self) -> datetime:
        """Time of its clock."""

    async def runner(self) -> Runner:
        """A shell of its own for one poller; the poller closes it. Raises PerfmonError where there is none."""

    @property
    def opener(self) -> Opener:
        """Opens streams to ports as seen from there; raises OSError or PerfmonError when used."""

    def lines(self, command: str) -> AsyncIterator[bytes]:
        """Yield the output of a command of its shell, line by line, without newlines.

        The command is ended when the iterator is closed. Raises PollError where it cannot be run.
        """


class Poller(Protocol):
    """Asks for one kind of thing, again and again.

    It is called from the event loop of the polls: what may block has to go to a thread. It may take long or hang:
    whoever paces it sets a deadline, says how old the last answer is, and asks nothing else of it meanwhile.
    """

    @property
    def name(self) -> str:
        """Name for display: `gpu`, `host`, `vllm http://127.0.0.1:8000`."""

    @property
    def every_s(self) -> float:
        """Seconds from one question to the next."""

    async def poll(self) -> Sequence[Reading]:
        """Asks once. Raises PollError; may be cancelled at any await."""

    async def close(self) -> None:
        """Lets go of everything."""


# --- Lines out of the chunks that a command prints ---

MAX_LINE = 1 << 20
"""Bytes of a line that are kept; what a longer one holds beyond that is left out."""


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines, without newlines; the last one also where it has none."""
    cutter = LineSplitter(MAX_LINE, counted=False)
    async for chunk in chunks:
        for item in cutter.feed(chunk):
            if not isinstance(item, Notice):
                for line in item.data.splitlines():
                    yield line
    for item in cutter.finish():
        if not isinstance(item, Notice):
            yield item.data


# --- One shell on a machine that several pollers run their scripts in, opened anew when it was lost ---

TIMEOUT_S = 50.0
"""Less than a poll may take as a whole: a shell that hangs is noticed, and another one is opened."""


class Script:
    """Runs scripts one after the other. A script that may hang (a disk that is gone) needs a shell of its own."""

    def __init__(self, machine: Machine, prefix: str = "", timeout_s: float = TIMEOUT_S) -> None:
        """`prefix` is put before the errors."""
        self._machine, self._prefix, self._timeout_s = machine, prefix, timeout_s
        self._opening: asyncio.Task[Runner] | None = None

    async def run(self, script: str) -> Output:
        """Run a script. Raises PollError, and the machine's error where it has no shell."""
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._machine.runner())
        opening = self._opening
        try:
            # A caller that is cancelled leaves it to others: a half-open shell could not be closed.
            runner = await asyncio.shield(opening)
            return await runner.run(script, timeout_s=self._timeout_s)
        except RunnerError as error:
            await self._drop(opening)
            raise PollError(f"{self._prefix}{error}") from None
        except Exception:
            await self._drop(opening)
            raise

    async def close(self) -> None:
        """End the shell."""
        if self._opening is not None:
            await self._drop(self._opening)

    async def _drop(self, opening: asyncio.Task[Runner]) -> None:
        """Close a shell; the next script opens another one."""
        if self._opening is opening:
            self._opening = None
        if not opening.done():
            opening.cancel()
            await asyncio.wait({opening})
        if not opening.cancelled() and opening.exception() is None:
            await opening.result().close()


class ScriptPoller:
    """A poller that runs scripts in a shell, its own or one that it shares."""

    def __init__(self, machine: Machine, shell: Script | None = None) -> None:
        self._machine, self._shell = machine, shell or Script(machine)

    async def close(self) -> None:
        """End the shell."""
        await self._shell.close()
