"""A runner on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from .shell import BOOTSTRAP, Shell


class LocalRunner(Shell):
    """A shell that is a child of this process."""

    @classmethod
    async def open(cls, name: str = "localhost", command: Sequence[str] = ("/bin/sh", "-c", BOOTSTRAP)) -> LocalRunner:
        """Starts the shell; raises OSError where there is none."""
        runner = cls(name)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.subprocess_exec(lambda: _Pipes(runner), *command, start_new_session=True)
        stdin = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
        runner._transport = transport
        runner.start(stdin.write, transport.close)
        return runner

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._transport: asyncio.SubprocessTransport | None = None
        self._exited = asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        """Ends the shell."""
        await super().close()
        await asyncio.shield(self._exited)  # several may wait for it, and any of them be cancelled

    def exited(self) -> None:
        """The process has ended."""
        self.lost("the shell has ended")
        if not self._exited.done():
            self._exited.set_result(None)


class _Pipes(asyncio.SubprocessProtocol):
    def __init__(self, runner: LocalRunner) -> None:
        self._runner = runner

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._runner.received(data)
        else:
            self._runner.complained(data)

    def process_exited(self) -> None:
        self._runner.exited()
