"""One host: connected, followed, reconnected, its clock; and as pollers query it."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import datetime, tzinfo
from pathlib import Path

import asyncssh

from perfmon.core import Notice

from ..blocks import LineSplitter
from ..discovery import LogFile
from ..http_client import ForbiddenError, Opener, Reader, ReplyError, Url, Writer, get
from ..pollers.base import lines_of
from ..pollers.reading import PollError
from ..shell import RunnerError, Shell, quoted
from .connection import Cause, Connection, HostError, Login, dial, open_shell
from .files import Files
from .follow import Emit, HostLogs
from .model import Address, ClockOffset, HostState, Phase

# --- How far the clock of a machine is from this one's ---

_KEPT = 16
_ZONE = re.compile(r"[+-](0[0-9]|1[0-4])[0-5][0-9]")
_SECONDS = re.compile(r"([0-9]{9,11})(?:\.([0-9]{9}))?")


class ClockProbe:
    """Reads the time there; the quickest answer is the most exact."""

    def __init__(self) -> None:
        self.zone: tzinfo | None = None
        """That its user's clocks show; None while unknown."""
        self._samples: deque[ClockOffset] = deque(maxlen=_KEPT)

    @property
    def offset(self) -> ClockOffset | None:
        """The best of the last estimates."""
        return min(self._samples, key=lambda sample: sample.uncertainty_s, default=None)

    def now(self) -> datetime:
        """Time of its clock, as its logs print it."""
        offset = self.offset
        return datetime.fromtimestamp(time.time() + (0.0 if offset is None else offset.seconds), self.zone)

    async def ask(self, runner: Shell) -> None:
        """Take a sample. Raises RunnerError."""
        sent, before = time.time(), time.monotonic()
        text, _, zone = (await runner.run("date '+%s.%N %z'")).text.strip().partition(" ")
        trip = time.monotonic() - before
        if _ZONE.fullmatch(zone):
            self.zone = datetime.strptime(zone, "%z").tzinfo
        match = _SECONDS.match(text)
        if match is None:
            return
        exact = match[2] is not None
        there = int(match[1]) + (int(match[2]) / 1e9 if exact else 0.5)
        offset = there - (sent + trip / 2)
        if self._samples and abs(offset - self._samples[-1].seconds) > 1.0 + trip:
            self._samples.clear()  # one of the clocks was set
        self._samples.append(ClockOffset(offset, trip / 2 + (0.0 if exact else 0.5)))


# --- One host: connected, followed, and connected again when it was lost ---

POLL_S = 1.0
_STALE_S = 3.0
_CLOCK_S = 30.0
_FIRST_ECHOES = 3
_BACKOFF_S, _LONGEST_S = 0.5, 30.0
_LOGINS = 3
_LAST_S = 1.0


class Host:
    """A host and its logs."""

    def __init__(self, address: Address, login: Login, logs: HostLogs, emit: Emit) -> None:
        self.address, self.logs = address, logs
        self.clock = ClockProbe()
        self.connection: Connection | None = None
        """Shared by all streams; None while there is none."""
        self._login, self._emit = login, emit
        self._shell: Shell | None = None
        self.files: Files | None = None
        """Its files, while it is connected."""
        self._phase = Phase.CONNECTING
        self._error = ""
        self._answered_at: float | None = None
        self._lost_at: float | None = None
        self._reconnects = self._attempts = 0

    @property
    def state(self) -> HostState:
        """The state for display (from any thread)."""
        now = time.monotonic()
        age = None if self._answered_at is None else now - self._answered_at
        stale = self._phase is Phase.LIVE and age is not None and age > _STALE_S
        return HostState(
            self.address.shown, Phase.STALE if stale else self._phase, age, self._reconnects, self._attempts,
            self._error, len(self.logs.tails), self.clock.offset,
        )  # fmt: skip

    async def connect(self) -> None:
        """Connect and read the clock. Raises HostError."""
        shown = self.address.shown
        connection = await dial(self.address, self._login)
        try:
            shell = await open_shell(connection, shown)
            _, self.files = await asyncio.gather(self.clock.ask(shell), Files.open(shell))
        except RunnerError as error:
            connection.abort()
            raise HostError(str(error), Cause.SHELL) from None
        except BaseException:
            connection.abort()
            raise
        self.connection, self._shell = connection, shell
        self._phase, self._error = Phase.LIVE, ""
        self._answered_at = time.monotonic()

    async def run(self, poll_s: float = POLL_S) -> None:
        """Follows, and connects again whenever the connection is lost, until cancelled or refused for good."""
        try:
            while self._phase is not Phase.REFUSED:
                try:
                    if self.connection is None:
                        await self._again()
                    await self._follow(poll_s)
                except* (HostError, RunnerError) as group:
                    await self.lost(_first(group))
        finally:
            await self.close()

    async def close(self) -> None:
        """End the connection, and wait until it is gone."""
        connection = self.connection
        self.drop()
        if connection is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_S):
                    await connection.wait_closed()
            await asyncio.sleep(0)  # its socket is closed a turn of the loop later

    def drop(self) -> None:
        """End the connection at once."""
        connection, self.connection = self.connection, None
        self._shell = self.files = None
        if connection is not None:
            connection.abort()

    async def _again(self) -> None:
        if self._attempts:
            jitter = 0.75 + secrets.randbelow(500) / 1000
            await asyncio.sleep(jitter * min(_LONGEST_S, _BACKOFF_S * 2.0 ** min(self._attempts - 1, 10)))
        await self.connect()
        if self._lost_at is not None:
            self._reconnects += 1
            away = time.monotonic() - self._lost_at
            await self._notice(Notice(f"{self.address.shown}: reconnected after {away:.0f} s", "appeared"))
        self._lost_at, self._attempts = None, 0

    async def _follow(self, poll_s: float) -> None:
        shell, files = self._shell, self.files
        assert shell is not None  # noqa: S101 - there is a connection
        assert files is not None  # noqa: S101
        echoes, echo_at = _FIRST_ECHOES, 0.0
        while True:
            began = time.monotonic()
            more = await self.logs.round(files, self._emit)
            now = self._answered_at = time.monotonic()
            if now >= echo_at:
                await self.clock.ask(shell)
                echoes -= 1
                echo_at = 0.0 if echoes > 0 else now + _CLOCK_S
            if not more:
                await asyncio.sleep(max(0.0, poll_s - (time.monotonic() - began)))

    async def lost(self, error: HostError | RunnerError) -> None:
        """The connection was lost, or could not be made: what is to be done next follows from why."""
        self.drop()
        self._error = str(error)
        self._attempts += 1
        cause = error.cause if isinstance(error, HostError) else Cause.UNREACHABLE
        changed = cause in (Cause.KEY_CHANGED, Cause.KEY_UNKNOWN)
        if changed or (cause is Cause.LOGIN and self._attempts >= _LOGINS):
            self._phase = Phase.REFUSED
            await self._notice(Notice(f"{self._error}: giving up", "lost"))
            return
        self._phase = Phase.RECONNECTING
        if self._lost_at is None:
            self._lost_at = time.monotonic()
            await self._notice(Notice(f"{self._error}: reconnecting", "gone"))

    async def _notice(self, notice: Notice) -> None:
        """Emit a notice with the first log of the host, or the host itself if it has no log yet."""
        tail = next(iter(self.logs.tails.values()), None)
        shown = self.address.shown
        await self._emit([(tail.log if tail is not None else LogFile(shown, Path(f"ssh:/{shown}"), ""), notice)])


def _first(group: BaseExceptionGroup[HostError | RunnerError]) -> HostError | RunnerError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, HostError | RunnerError)  # noqa: S101 - the group holds nothing else
    return error


# --- A machine that a connection leads to, as pollers query it: the same one also after a reconnect ---


class RemoteMachine:
    """A host that is followed."""

    def __init__(self, host: Host) -> None:
        self.name = host.address.shown
        self.here = False
        self._host = host

    def now(self) -> datetime:
        """Time of its clock."""
        return self._host.clock.now()

    async def runner(self) -> Shell:
        """A shell of its own on the connection. Raises HostError."""
        return await open_shell(self._connection(), self.name)

    @property
    def opener(self) -> Opener:
        """Streams through the connection that there is then."""
        return self._open

    async def lines(self, command: str) -> AsyncIterator[bytes]:
        """Yield the output of a command. Raises HostError and PollError."""

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


# --- What a command prints on another machine, line by line, and that nothing of it stays when no one reads it ---

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


# --- Whether servers answer: checked periodically, and reported as the lines of a log ---

EVERY_S = 5.0
_TIMEOUT_S = 4.0


class HealthCheck:
    """One URL, requested through an opener.

    Its lines are `[check] url=... failed=0 status=200 check_ms=12.3`, or the reason of the failure: so a check is
    shown, evaluated, recorded and replayed like every other log.
    """

    def __init__(self, url: Url, seen_from: str, emit: Emit, now: Callable[[], datetime] = datetime.now) -> None:
        """`seen_from` is the host that requests it, "" for this one; `now` is the time there."""
        self.url = url
        where = f"{seen_from}:" if seen_from else ""
        self.log = LogFile(f"{where}{url.shown}", Path("check:/", seen_from), url.shown)
        self._emit, self._now = emit, now
        self._cutter = LineSplitter()
        self._reported = False

    async def ask(self, opener: Opener) -> bool:
        """Check once and report; True if the server is well."""
        began = time.monotonic()
        status = 0
        try:
            reply = await get(opener, self.url, timeout_s=_TIMEOUT_S)
            status = reply.status
            well = status == 0 or 200 <= status < 400
            why = f"status={status}" if status else "status=open"
        except ForbiddenError as error:
            await self._forbidden(str(error))
            return False
        except ReplyError as error:
            well, why = False, "why=" + "-".join(str(error).split())
        took_ms = 1e3 * (time.monotonic() - began)
        stamp = self._now().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        line = f"{stamp} [check] url={self.url.shown} failed={int(not well)} {why} check_ms={took_ms:.1f}\n"
        await self._emit([(self.log, block) for block in self._cutter.feed(line.encode())])
        self._reported = False
        return well

    async def _forbidden(self, why: str) -> None:
        """Nothing is known of the server then: that is no bad answer of it."""
        if not self._reported:
            self._reported = True
            await self._emit([(self.log, Notice(f"{self.log.name}: cannot be checked from there: {why}", "lost"))])
