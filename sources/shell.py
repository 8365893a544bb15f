"""One shell that stays open on a machine: scripts go in line by line, outputs come back between marks.

The marks hold a random number that nobody else knows, so neither a login banner nor a log line can be taken for one.
A shell that nothing is asked of waits in `read` and costs nothing; when the connection ends it reads the end of its
input, and ends as well.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable

from perfmon.text import plain

from .runner import NoAnswerError, Output, RunnerError

BOOTSTRAP = """exec sh -c 'n=;read -r n;eval "$(dd bs=1 count="$n" 2>/dev/null)"'"""
"""What the login shell is asked to run; bash, dash, zsh, fish and csh read it alike. The rest comes through stdin."""
_LOOP = """\
PATH="$PATH:/usr/local/bin:/usr/bin:/bin"; LC_ALL=C; export PATH LC_ALL; unset ENV BASH_ENV CDPATH; umask 077
cd / 2>/dev/null
exec 2>/dev/null
while IFS= read -r l; do printf '%s B\\n' "$T"; eval "$l" </dev/null; printf '\\n%s E %s\\n' "$T" "$?"; done
"""
_KEPT = 4000
_MOST = 64 << 20
"""An output that is larger is none that was asked for."""


class Shell:
    """A runner over any stream of bytes: the channel of a connection, or the pipes of a process here.

    The owner calls `start`, then `received`, `complained` and `lost` as things come.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._token = secrets.token_hex(16)
        self._begin = f"{self._token} B\n".encode()
        self._end = f"\n{self._token} E ".encode()
        self._waiting: deque[asyncio.Future[Output]] = deque()
        self._held = bytearray()
        self._within = False
        self._looked = 0
        self._errors = b""
        self._noise = b""
        self._lost: str | None = None
        self._write: Callable[[bytes], None] = lambda _: None
        self._end_it: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        """The machine, for display."""
        return self._name

    @property
    def closed(self) -> bool:
        """Nothing can be run any more."""
        return self._lost is not None

    @property
    def said(self) -> str:
        """The last line that was printed beside all outputs: what a shell that refuses says."""
        noise = self._noise if self._within else self._noise + self._held
        lines = (self._errors or noise).decode("utf-8", "replace").strip().splitlines()
        return plain(lines[-1], 200) if lines else ""

    def start(self, write: Callable[[bytes], None], end: Callable[[], None]) -> None:
        """The stream is open: sends the loop."""
        self._write, self._end_it = write, end
        script = f"T={self._token}\n{_LOOP}"
        write(f"{len(script)}\n{script}".encode())

    async def run(self, script: str, *, timeout_s: float = 20.0) -> Output:
        """See `Runner`."""
        if self._lost is not None:
            raise RunnerError(f"{self._name}: {self._lost}")
        future: asyncio.Future[Output] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._write(_line(script))
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            self.lost(f"no answer for {timeout_s:.0f} s")
            raise NoAnswerError(f"{self._name}: {self._lost}") from None

    async def close(self) -> None:
        """Ends the shell."""
        self.lost("closed")

    def lost(self, why: str) -> None:
        """The stream has ended: whoever waits is told."""
        if self._lost is not None:
            return
        self._lost = why
        self._end_it()
        waiting, self._waiting = self._waiting, deque()
        for future in waiting:
            if not future.done():
                future.set_exception(RunnerError(f"{self._name}: {why}"))

    def complained(self, data: bytes) -> None:
        """Something came on stderr."""
        self._errors = (self._errors + data)[-_KEPT:]

    def received(self, data: bytes) -> None:
        """Something came on stdout."""
        self._held += data
        while self._advance():
            pass
        if len(self._held) > _MOST:
            self.lost("an endless response")

    def _advance(self) -> bool:
        """Takes the next mark out of what came; whether there was one."""
        if not self._within:
            at = self._held.find(self._begin)
            keep = len(self._held) - len(self._begin) if at < 0 else at
            if keep > 0:
                self._noise = (self._noise + self._held[:keep])[-_KEPT:]
                del self._held[:keep]
            if at < 0:
                return False
            del self._held[: len(self._begin)]
            self._within, self._looked = True, 0
        at = self._held.find(self._end, self._looked)
        line = self._held.find(b"\n", at + len(self._end)) if at >= 0 else -1
        if line < 0:
            self._looked = max(0, len(self._held) - len(self._end)) if at < 0 else at
            return False
        code = bytes(self._held[at + len(self._end) : line])
        self._answer(Output(int(code) if code.isdigit() and len(code) < 4 else 255, bytes(memoryview(self._held)[:at])))
        del self._held[: line + 1]
        self._within = False
        return True

    def _answer(self, output: Output) -> None:
        future = self._waiting.popleft() if self._waiting else None
        if future is not None and not future.done():
            future.set_result(output)


def _line(script: str) -> bytes:
    """A script as one line."""
    if "\n" in script:
        escaped = script.replace("\\", "\\\\").replace("\n", "\\n").replace("'", "'\\''")
        script = f"eval \"$(printf '%b' '{escaped}')\""
    return script.encode("utf-8", "surrogateescape") + b"\n"
