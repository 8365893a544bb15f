"""One host: connected, followed, and connected again when it was lost."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress
from pathlib import Path

from ..blocks import Notice
from ..files import LogFile
from .address import Address
from .channel import open_shell
from .clocks import ClockEcho
from .dialing import Connection, dial
from .failures import Cause, HostError
from .files import Files
from .following import Emit, HostLogs
from .login import Login
from .runner import Runner, RunnerError
from .shell import Shell
from .states import HostState, Phase

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
        self.clock = ClockEcho()
        self.connection: Connection | None = None
        """Shared by all streams; None while there is none."""
        self._login, self._emit = login, emit
        self._shell: Shell | None = None
        self.files: Files | None = None
        """Its files, while it is connected."""
        self._phase = Phase.CONNECTING
        self._error = ""
        self._heard_at: float | None = None
        self._lost_at: float | None = None
        self._retry_at: float | None = None
        self._reconnects = self._attempts = 0

    @property
    def state(self) -> HostState:
        """What there is to show (from any thread)."""
        now = time.monotonic()
        age = None if self._heard_at is None else now - self._heard_at
        stale = self._phase is Phase.LIVE and age is not None and age > _STALE_S
        retry = None if self._retry_at is None else max(0.0, self._retry_at - now)
        return HostState(
            self.address.shown, Phase.STALE if stale else self._phase, age, self._reconnects, self._attempts, retry,
            self._error, len(self.logs.tails), self.clock.offset,
        )  # fmt: skip

    async def connect(self) -> None:
        """Makes the connection and looks at the clock. Raises HostError."""
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
        self._phase, self._error, self._retry_at = Phase.LIVE, "", None
        self._heard_at = time.monotonic()

    async def runner(self) -> Runner:
        """One more shell on the connection, for what may hang or take long. Raises HostError."""
        if self.connection is None:
            raise HostError(f"{self.address.shown}: not connected")
        return await open_shell(self.connection, self.address.shown)

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
        """Ends the connection, and sees it gone."""
        connection = self.connection
        self.drop()
        if connection is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_S):
                    await connection.wait_closed()
            await asyncio.sleep(0)  # its socket is closed a turn of the loop later

    def drop(self) -> None:
        """Ends the connection at once."""
        connection, self.connection = self.connection, None
        self._shell = self.files = None
        if connection is not None:
            connection.abort()

    async def _again(self) -> None:
        if self._attempts:
            jitter = 0.75 + secrets.randbelow(500) / 1000
            delay = jitter * min(_LONGEST_S, _BACKOFF_S * 2.0 ** min(self._attempts - 1, 10))
            self._retry_at = time.monotonic() + delay
            await asyncio.sleep(delay)
            self._retry_at = None
        await self.connect()
        if self._lost_at is not None:
            self._reconnects += 1
            away = time.monotonic() - self._lost_at
            await self._tell(Notice(f"{self.address.shown}: reconnected after {away:.0f} s", "appeared"))
        self._lost_at, self._attempts = None, 0

    async def _follow(self, poll_s: float) -> None:
        shell, files = self._shell, self.files
        assert shell is not None  # noqa: S101 - there is a connection
        assert files is not None  # noqa: S101
        echoes, echo_at = _FIRST_ECHOES, 0.0
        while True:
            began = time.monotonic()
            more = await self.logs.round(files, self._emit)
            now = self._heard_at = time.monotonic()
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
            await self._tell(Notice(f"{self._error}: giving up", "lost"))
            return
        self._phase = Phase.RECONNECTING
        if self._lost_at is None:
            self._lost_at = time.monotonic()
            await self._tell(Notice(f"{self._error}: reconnecting", "gone"))

    async def _tell(self, notice: Notice) -> None:
        """Beside the first log of the host; where it has none yet the host stands for it."""
        tail = next(iter(self.logs.tails.values()), None)
        shown = self.address.shown
        await self._emit([(tail.log if tail is not None else LogFile(shown, Path(f"ssh:/{shown}"), ""), notice)])


def _first(group: BaseExceptionGroup[HostError | RunnerError]) -> HostError | RunnerError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, HostError | RunnerError)  # noqa: S101 - the group holds nothing else
    return error
