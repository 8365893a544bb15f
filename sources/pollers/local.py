"""This machine, as pollers ask it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime

from perfmon.core import plain

from ..http_client import Opener, open_here
from ..shell import LocalRunner, Runner
from .base import PollError, lines_of

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

    async def runner(self) -> Runner:
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
    assert process.stdout is not None  # noqa: S101 - it was asked for
    while chunk := await process.stdout.read(_CHUNK):
        yield chunk


async def _ended(process: Process) -> None:
    """Ends all that is left of a command, and lets go of what it printed and nobody read."""
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
