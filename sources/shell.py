"""Shells on this machine or another: scripts in, outputs back, words quoted."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from perfmon.core import PerfmonError, plain


class RunnerError(PerfmonError):
    """The shell is gone, or did not answer: every script that waits fails, and none can be run any more."""


class NoAnswerError(RunnerError):
    """The shell did not answer in time."""


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a script."""

    code: int
    """Its exit status."""
    data: bytes
    """Its stdout, byte for byte; stderr is not kept."""

    @property
    def text(self) -> str:
        """As text; what is no UTF-8 survives as surrogates."""
        return self.data.decode("utf-8", "surrogateescape")


# --- One shell that stays open on a machine: scripts go in line by line, outputs come back between marks ---
#
# The marks hold a random number known here alone, so neither a login banner nor a log line can be taken for one.
# An idle shell waits in `read` and costs nothing; when the connection ends it reads the end of its
# input, and ends as well.

BOOTSTRAP = """exec sh -c 'n=;read -r n;eval "$(dd bs=1 count="$n" 2>/dev/null)"'"""
"""The command for the login shell; bash, dash, zsh, fish and csh read it alike. The rest comes through stdin."""
_LOOP = """\
PATH="$PATH:/usr/local/bin:/usr/bin:/bin"; LC_ALL=C; export PATH LC_ALL; unset ENV BASH_ENV CDPATH; umask 077
cd / 2>/dev/null
exec 2>/dev/null
while IFS= read -r l; do printf '%s B\\n' "$T"; eval "$l" </dev/null; printf '\\n%s E %s\\n' "$T" "$?"; done
"""
_KEPT = 4000
_MOST = 64 << 20
"""No script has a larger output."""


class Shell:
    """Runs scripts of POSIX sh in one long-lived shell, over the channel of a connection or the pipes of a process.

    Scripts run sequentially, in the order in which they were given; several may be given at once. Variables,
    functions and open descriptors stay; stdin is empty. The output of the user's login scripts is in no output. A
    script that hangs cannot be ended: use one shell for what has to answer and another for what may hang.

    The owner calls `start`, then `received`, `complained` and `lost` as data comes.
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
    def last_line(self) -> str:
        """The last line printed outside of outputs: the message of a shell that refuses."""
        noise = self._noise if self._within else self._noise + self._held
        lines = (self._errors or noise).decode("utf-8", "replace").strip().splitlines()
        return plain(lines[-1], 200) if lines else ""

    def start(self, write: Callable[[bytes], None], end: Callable[[], None]) -> None:
        """The stream is open: sends the loop."""
        self._write, self._end_it = write, end
        script = f"T={self._token}\n{_LOOP}"
        write(f"{len(script)}\n{script}".encode())

    async def run(self, script: str, *, timeout_s: float = 20.0) -> Output:
        """Run a script that a shell can parse, without `exit`. Raises RunnerError."""
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
        """End the shell."""
        self.lost("closed")

    def lost(self, why: str) -> None:
        """The stream has ended: all waiting scripts fail."""
        if self._lost is not None:
            return
        self._lost = why
        self._end_it()
        waiting, self._waiting = self._waiting, deque()
        for future in waiting:
            if not future.done():
                future.set_exception(RunnerError(f"{self._name}: {why}"))

    def complained(self, data: bytes) -> None:
        """Handle data from stderr."""
        self._errors = (self._errors + data)[-_KEPT:]

    def received(self, data: bytes) -> None:
        """Handle data from stdout."""
        self._held += data
        while self._advance():
            pass
        if len(self._held) > _MOST:
            self.lost("an endless response")

    def _advance(self) -> bool:
        """Take the next mark out of the data; False if there is none."""
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
    if "\n" in script:
        escaped = script.replace("\\", "\\\\").replace("\n", "\\n").replace("'", "'\\''")
        script = f"eval \"$(printf '%b' '{escaped}')\""
    return script.encode("utf-8", "surrogateescape") + b"\n"


# --- A shell on this machine ---


class LocalRunner(Shell):
    """A shell that is a child of this process."""

    @classmethod
    async def open(cls, name: str = "localhost", command: Sequence[str] = ("/bin/sh", "-c", BOOTSTRAP)) -> LocalRunner:
        """Start the shell; raises OSError where there is none."""
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
        """End the shell."""
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


# --- Paths and patterns as words of a POSIX shell: no name can run a command ---

_BRACKETS = re.compile(r"\[([!^]?)([A-Za-z0-9_.-]+)\]")
_TILDE = re.compile(r"~([A-Za-z0-9_][A-Za-z0-9_.-]*)?(?=/|$)")
MAGIC = re.compile(r"[*?]|\[[!^]?[A-Za-z0-9_.-]+\]")
"""Characters that make a path a pattern."""


def quoted(path: str) -> str:
    """One word that is exactly `path`. Raises ValueError where a line cannot hold it."""
    if any(sign in path for sign in "\0\n"):
        raise ValueError("a line break or NUL cannot stand in a command")
    return "'" + path.replace("'", "'\\''") + "'"


def pattern(path: str) -> str:
    """A word that the shell expands: a leading `~` or `~user`, `*`, `?` and simple `[...]`; all else is literal."""
    tilde = _TILDE.match(path)
    words, at = ([tilde[0]], tilde.end()) if tilde else ([], 0)
    for magic in MAGIC.finditer(path, at):
        words += [quoted(path[at : magic.start()])] if magic.start() > at else []
        words.append(_bracket(magic[0]))
        at = magic.end()
    words += [quoted(path[at:])] if at < len(path) else []
    return "".join(words)


def regex(path: str) -> re.Pattern[str]:
    """Translate a pattern with `**`: any folders, none included; hidden names only if it names them."""
    parts = [_part(part) for part in path.split("/")]
    text = "/".join(parts).replace("\0/", "(?:(?!\\.)[^/]+/)*").replace("\0", "(?:(?!\\.)[^/]+/)*(?!\\.)[^/]+")
    return re.compile(text, re.DOTALL)


def literal_base(path: str) -> str:
    """The part of a pattern before the first `**`."""
    parts = path.split("/")
    return "/".join(parts[: parts.index("**")]) or "/"


def _part(part: str) -> str:
    if part == "**":
        return "\0"
    out, at = "" if part.startswith(".") or not MAGIC.match(part) else r"(?!\.)", 0
    for magic in MAGIC.finditer(part):
        out += re.escape(part[at : magic.start()])
        out += {"*": "[^/]*", "?": "[^/]"}.get(magic[0]) or _bracket(magic[0]).replace("[!", "[^")
        at = magic.end()
    return out + re.escape(part[at:])


def _bracket(text: str) -> str:
    match = _BRACKETS.fullmatch(text)
    return text if match is None else f"[{'!' if match[1] else ''}{match[2]}]"
