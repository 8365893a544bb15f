"""Shells that scripts of pollers run in, shared by several of them; and this machine, as pollers query it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime

from perfmon.core import Notice, plain

from ..blocks import LineSplitter
from ..http_client import Opener, open_here
from ..shell import LocalRunner, Output, RunnerError, Shell
from .reading import Machine, PollError

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


# --- One shell on a machine that several pollers run their scripts in, opened again when it was lost ---

TIMEOUT_S = 50.0
"""Less than a poll may take as a whole: a shell that hangs is noticed, and another one is opened."""


class Script:
    """Runs scripts sequentially. A script that may hang (a disk that is gone) needs a shell of its own."""

    def __init__(self, machine: Machine, prefix: str = "", timeout_s: float = TIMEOUT_S) -> None:
        """`prefix` is put before the errors."""
        self._machine, self._prefix, self._timeout_s = machine, prefix, timeout_s
        self._opening: asyncio.Task[Shell] | None = None

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

    async def _drop(self, opening: asyncio.Task[Shell]) -> None:
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


# --- This machine, as pollers query it ---

_CHUNK = 1 << 16
_END_S = 1.0


class LocalMachine:
    """This one."""

    def __init__(self) -> None:
        self.name = plain(socket.gethostname(), 60) or "here"
        self.here = True
        self.opener: Opener = open_here

    def now(self) -> datetime:
        """Local time."""
        return datetime.now()

    async def runner(self) -> Shell:
        """A shell of its own. Raises PollError."""
        try:
            return await LocalRunner.open(self.name)
        except OSError as error:
            raise PollError(f"{self.name}: no shell can be started: {error.strerror}") from None

    async def lines(self, command: str) -> AsyncIterator[bytes]:
        """Yield the output of a command; its processes end with the iterator. Raises PollError."""
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh", "-c", command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, start_new_session=True,
                env={**os.environ, "LC_ALL": "C"},
            )  # fmt: skip
        except OSError as error:
            raise PollError(f"{self.name}: no command can be started: {error.strerror}") from None
        try:
            async for line in lines_of(_chunks(process)):
                yield line
        finally:
            await _ended(process)


async def _chunks(process: Process) -> AsyncIterator[bytes]:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    while chunk := await process.stdout.read(_CHUNK):
        yield chunk


async def _ended(process: Process) -> None:
    """End all processes of a command, and drop its unread output."""
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_S):
                    await process.wait()
                return
    finally:
        process._transport.close()  # type: ignore[attr-defined]  # its pipe stays open until it was read to its end
