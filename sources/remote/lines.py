"""What a command prints on another machine, line by line, and that nothing of it stays when nobody reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncssh

from ..polls.pieces import lines_of
from ..polls.poller import PollError
from .dialing import Connection
from .quoting import quoted

_CHUNK = 1 << 16
_SCRIPT = (
    'PATH="$PATH:/usr/local/bin:/usr/bin:/bin"; LC_ALL=C; export PATH LC_ALL; cd /; exec 2>/dev/null 3<&0; '
    "s=; command -v setsid >/dev/null && s=setsid; "
    "(exec 3<&-; exec $s sh -c %s) </dev/null & p=$!; "
    '(read -r l <&3; kill -- "-$p" || kill "$p") >/dev/null & exec 3<&- >/dev/null; wait "$p"'
)
"""The command ends with its channel: what waits for the end of the channel's input ends it, and what it began."""


async def remote_lines(connection: Connection, shown: str, command: str) -> AsyncIterator[bytes]:
    """The lines, without newlines, until the command or the connection ends. Raises PollError."""
    try:
        process = await connection.create_process(
            f"exec sh -c {quoted(_SCRIPT % quoted(command))}", encoding=None, stderr=asyncssh.DEVNULL
        )
    except asyncssh.ChannelOpenError as error:
        raise PollError(f"{shown}: no session: {error.reason} (MaxSessions of sshd?)") from None
    except (asyncssh.Error, OSError) as error:
        raise PollError(f"{shown}: the connection was lost: {error}") from None
    try:
        async for line in lines_of(_chunks(process, shown)):
            yield line
    finally:
        process.channel.abort()


async def _chunks(process: asyncssh.SSHClientProcess[bytes], shown: str) -> AsyncIterator[bytes]:
    try:
        while chunk := await process.stdout.read(_CHUNK):
            yield chunk
    except (asyncssh.Error, OSError) as error:
        raise PollError(f"{shown}: the connection was lost: {error}") from None
