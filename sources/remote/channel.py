"""A shell on another machine, as one channel of the connection that all of its streams share."""

from __future__ import annotations

import asyncio

import asyncssh

from .dialing import Connection
from .failures import Cause, HostError
from .runner import NoAnswerError, RunnerError
from .shell import BOOTSTRAP, Shell

_READY_S = 15.0


async def open_shell(connection: Connection, shown: str) -> Shell:
    """A shell that has answered once. Raises HostError where there is none to be had."""
    shell = Shell(shown)
    try:
        channel, _ = await connection.create_session(
            lambda: _Session(shell),
            BOOTSTRAP,
            encoding=None,
            request_pty=False,
            window=4 << 20,
            max_pktsize=1 << 15,
        )
    except asyncssh.ChannelOpenError as error:
        raise HostError(f"{shown}: no session: {error.reason} (MaxSessions of sshd?)") from None
    except (asyncssh.Error, OSError) as error:
        raise HostError(f"{shown}: the connection was lost: {error}") from None
    shell.start(channel.write, channel.abort)
    try:
        await shell.run(":", timeout_s=_READY_S)
    except asyncio.CancelledError:
        shell.lost("closed")
        raise
    except NoAnswerError:
        raise HostError(
            f"{shown}: no response from its shell for {_READY_S:.0f} s: host overloaded, or home folder missing?"
        ) from None
    except RunnerError:
        said = f": '{shell.said}'" if shell.said else ""
        if connection.is_closed():
            raise HostError(f"{shown}: the connection was lost{said}") from None
        raise HostError(
            f"{shown}: no usable POSIX shell{said} (a restricted account, or no sh and dd?)", Cause.SHELL
        ) from None
    return shell


class _Session(asyncssh.SSHClientSession[bytes]):
    """Passes on what comes."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if datatype is None:
            self._shell.received(data)
        else:
            self._shell.complained(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._shell.lost("the connection was lost" if exc is not None else "the shell has ended")
