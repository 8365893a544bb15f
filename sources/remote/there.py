"""A machine that a connection leads to, as pollers ask it: the same one also when the connection was made anew."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

from .dialing import Connection
from .failures import HostError
from .host import Host
from .http import Opener, Reader, Writer
from .runner import Runner


class ThereMachine:
    """A host that is followed."""

    def __init__(self, host: Host) -> None:
        self.name = host.address.shown
        self.here = False
        self._host = host

    def now(self) -> datetime:
        """What its clock shows."""
        return self._host.clock.now()

    async def runner(self) -> Runner:
        """A shell of its own on the connection. Raises HostError."""
        return await self._host.runner()

    @property
    def opener(self) -> Opener:
        """Streams through the connection that there is then."""
        return self._open

    async def lines(self, command: str) -> AsyncIterator[bytes]:
        """What a command prints there. Raises HostError and PollError."""
        from .lines import remote_lines

        async for line in remote_lines(self._connection(), self.name, command):
            yield line

    async def _open(self, host: str, port: int) -> tuple[Reader, Writer]:
        return await opener_of(self._connection())(host, port)

    def _connection(self) -> Connection:
        connection = self._host.connection
        if connection is None:
            raise HostError(f"{self.name}: not connected")
        return connection


def opener_of(connection: Connection) -> Opener:
    """Streams through a connection: no port is opened on this machine."""

    async def opened(host: str, port: int) -> tuple[Reader, Writer]:
        reader, writer = await connection.open_connection(host, port, encoding=None)
        return reader, writer

    return opened
