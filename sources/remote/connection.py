"""The connection to one host as `ssh` would make it: configuration, jumps, keys, prompts, failures."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import asyncssh

from perfmon.core import ConnectError, plain

from ..shell import BOOTSTRAP, NoAnswerError, RunnerError, Shell
from .model import Address
from .ssh_config import HostConfig, HostKeys, Trusted, algorithms, fingerprint, read_config

# --- What a login may request from its user. Answers stay in memory, so that a lost connection can be made again ---

Prompt = Callable[[str, bool], Awaitable[str | None]]
"""Shows a prompt and gives the answer (True: echoed); None without a terminal or an answer."""


async def no_prompt(_prompt: str, _echo: bool) -> str | None:
    """There is no terminal, or the screen is open."""
    return None


@dataclass(slots=True)
class Login:
    """Login options and answers of this user; shared by all hosts of a command."""

    ask: Prompt = no_prompt
    accept_new: bool = False
    """Keys of unknown hosts are accepted and remembered."""
    config: tuple[str, ...] | None = None
    """Configuration files of ssh; None: `~/.ssh/config`."""
    known_hosts: tuple[str, ...] | None = None
    """Files of host keys, the first of which learns new ones; None: as configured."""
    answers: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)
    """(host, or "" for all of them; prompt) → what was answered."""

    _prompts: dict[tuple[str, str], asyncio.Lock] = field(default_factory=dict, repr=False)

    async def answer(self, host: str, prompt: str, echo: bool = False, *, wrong: str | None = None) -> str | None:
        """Return the earlier answer unless it was `wrong`; else prompt, once for all callers that wait."""
        key = (host, prompt)
        async with self._prompts.setdefault(key, asyncio.Lock()):
            if wrong is not None and self.answers.get(key) == wrong:
                del self.answers[key]
            if key not in self.answers:
                answer = await self.ask(prompt, echo)
                if answer is None:
                    return None
                self.answers[key] = answer
            return self.answers[key]


# --- What a server requests during a login, and who answers ---

_TRIES = 3
_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")


class Client(asyncssh.SSHClient):
    """Answers for one attempt to connect."""

    def __init__(self, shown: str, login: Login, keys: HostKeys, identities: Sequence[Path]) -> None:
        self.keys = keys
        self.deadline: asyncio.Timeout | None = None
        """By when the host must have answered; people are given the time they need."""
        self._shown, self._login = shown, login
        self._locked: list[Path] | None = None
        self._identities = identities
        self._passwords = self._challenges = 0
        self._password: str | None = None
        self._answered: dict[str, str] = {}
        """The last answers, by question: wrong or not sufficient if the same question comes again."""

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """No key is trusted here: it is remembered, so that the user can be prompted."""
        self.keys.offered = key
        return False

    async def public_key_auth_requested(self) -> list[asyncssh.SSHKey] | None:
        """Keys that need a passphrase, once all others were refused."""
        if self._locked is None:
            self._locked = await asyncio.to_thread(_locked, self._identities)
        while self._locked:
            key = await self._unlock(self._locked.pop(0))
            if key is not None:
                return [key]
        return None

    async def _unlock(self, path: Path) -> asyncssh.SSHKey | None:
        """Unlock a key; the passphrase is prompted for once for all hosts, three times if it is wrong."""
        passphrase: str | None = None
        for _ in range(_TRIES):
            prompt = f"passphrase of {plain(str(path))} (Enter skips): "
            passphrase = await self._answer(prompt, False, host="", wrong=passphrase)
            if not passphrase:
                return None
            with suppress(OSError, ValueError, asyncssh.Error):
                return await asyncio.to_thread(asyncssh.read_private_key, path, passphrase)
        return None

    async def password_auth_requested(self) -> str | None:
        """Prompt for the password, at most three times."""
        self._passwords += 1
        if self._passwords > _TRIES:
            return None
        self._password = await self._answer(f"password of {self._shown}: ", False, wrong=self._password)
        return self._password

    def kbdint_auth_requested(self) -> str | None:
        """Questions are welcome."""
        self._challenges += 1
        return "" if self._challenges <= _TRIES else None

    async def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        """Answer the questions of the server."""
        answers = []
        for prompt, echo in prompts:
            question = f"{self._shown}: {plain(prompt, 200)}"
            answer = await self._answer(question, echo, wrong=self._answered.get(question))
            if answer is None:
                return None
            self._answered[question] = answer
            answers.append(answer)
        return answers

    async def _answer(
        self, prompt: str, echo: bool, *, host: str | None = None, wrong: str | None = None
    ) -> str | None:
        """Prompt; the time limit stops until the answer."""
        loop, deadline = asyncio.get_running_loop(), self.deadline
        when = deadline.when() if deadline is not None else None
        left = None if when is None else when - loop.time()
        if deadline is not None:
            deadline.reschedule(None)
        try:
            where = self._shown if host is None else host
            return await self._login.answer(where, prompt, echo, wrong=wrong)
        finally:
            if deadline is not None and left is not None:
                deadline.reschedule(loop.time() + max(left, 1.0))


def _locked(identities: Sequence[Path]) -> list[Path]:
    """Those keys, or of the usual ones, that need a passphrase (blocking)."""
    paths = identities or [Path("~/.ssh", name).expanduser() for name in _DEFAULT_KEYS]
    return [path for path in paths if _is_locked(path)]


def _is_locked(path: Path) -> bool:
    try:
        asyncssh.read_private_key(path)
    except asyncssh.KeyImportError as error:
        return str(error).startswith("Passphrase")
    except (OSError, ValueError):
        return False
    return False


# --- Why a host cannot be reached, in one line with the fix ---


class Cause(StrEnum):
    """Kinds of failure; retrying helps only for the first."""

    UNREACHABLE = "unreachable"
    KEY_UNKNOWN = "key unknown"
    KEY_CHANGED = "key changed"
    LOGIN = "login"
    SHELL = "shell"
    CONFIG = "config"

    @property
    def final(self) -> bool:
        """Trying again by itself is in vain, or wrong."""
        return self is not Cause.UNREACHABLE


class HostError(ConnectError):
    """A host cannot be reached, or not be used."""

    def __init__(self, text: str, cause: Cause = Cause.UNREACHABLE) -> None:
        super().__init__(text)
        self.cause = cause


_ERRNOS = {
    errno.ECONNREFUSED: "connection refused: is sshd running on this port?",
    errno.EHOSTUNREACH: "no route to this host: is the network or VPN up?",
    errno.ENETUNREACH: "no route to this host: is the network or VPN up?",
    errno.ETIMEDOUT: "no answer: is the host up, and does a firewall let port {port} through?",
    errno.ECONNRESET: "connection closed during setup: too many logins at once, or banned?",
    errno.EPIPE: "connection closed during setup: too many logins at once, or banned?",
}


def explained(error: BaseException, shown: str, port: int, user: str, *, by_command: bool = False) -> HostError:
    """The line for what was raised while a host was dialled, perhaps `by_command`: a ProxyCommand."""
    if isinstance(error, HostError):
        return error
    if by_command and isinstance(error, asyncssh.ConnectionLost | BrokenPipeError | ConnectionResetError):
        return HostError(f"{shown}: its ProxyCommand exited without a connection: run ssh to see its output")
    cause, text = _reason(error, port, user)
    return HostError(f"{shown}: {text}", cause)


def _reason(error: BaseException, port: int, user: str) -> tuple[Cause, str]:
    if isinstance(error, socket.gaierror):
        return Cause.UNREACHABLE, "unknown host: is the name right (see ~/.ssh/config), and does DNS work?"
    if isinstance(error, TimeoutError):
        return Cause.UNREACHABLE, _ERRNOS[errno.ETIMEDOUT].format(port=port)
    if isinstance(error, asyncssh.ConnectionLost):
        return Cause.UNREACHABLE, _ERRNOS[errno.ECONNRESET]
    if isinstance(error, asyncssh.PermissionDenied):
        return Cause.LOGIN, f"login failed as {user}: try ssh once, load the key with ssh-add, or name the user"
    if isinstance(error, asyncssh.DisconnectError) and "too many authentication failures" in str(error).lower():
        return Cause.LOGIN, "too many keys were tried before the right one: name it (IdentityFile, IdentitiesOnly yes)"
    if isinstance(error, asyncssh.KeyExchangeFailed | asyncssh.ProtocolNotSupported | asyncssh.ProtocolError):
        return Cause.UNREACHABLE, f"SSH negotiation failed: {_message(error)}"
    if isinstance(error, asyncssh.ChannelOpenError):
        return Cause.UNREACHABLE, f"the jump host cannot reach it: {_message(error)}"
    if isinstance(error, asyncssh.Error):
        return Cause.UNREACHABLE, f"the connection failed: {_message(error)}"
    if isinstance(error, OSError):
        known = _ERRNOS.get(error.errno or 0)
        return Cause.UNREACHABLE, known.format(port=port) if known else f"cannot be reached: {_message(error)}"
    return Cause.CONFIG, f"the ssh configuration cannot be used: {_message(error)}"


def _message(error: BaseException) -> str:
    """Message of a library or the server, as one line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return plain(" ".join(text.split()) or type(error).__name__, 200)


# --- Makes the connection to one host as `ssh` would: its configuration, jumps, keys and questions ---

Connection = asyncssh.SSHClientConnection
_JUMPS = 8
_ALIVE_S, _ALIVE_COUNT = 5, 3
"""A network that forwards nothing any more is found out after so many unanswered questions."""

# Errors of the library become lines of HostError; on the screen nothing else may be written.
logging.getLogger("asyncssh").addHandler(logging.NullHandler())
logging.getLogger("asyncssh").propagate = False
# The end of a ProxyCommand may be noticed by the start of the next process, before asyncio notices it: harmless.
logging.getLogger("asyncio").addFilter(lambda record: not str(record.msg).startswith("Unknown child process"))


async def dial(address: Address, login: Login, via: Connection | None = None, depth: int = 0) -> Connection:
    """An open connection, to be closed by the caller. Raises HostError, one line.

    Prompts, through `login`, for what is missing: whether an unknown host key is right, passwords, passphrases.
    """
    try:
        config = await asyncio.to_thread(read_config, address, login.config)
    except (ValueError, OSError) as error:
        raise explained(error, address.shown, address.port or 22, address.user or "") from None
    tunnel = via or await _jump(config, login, address, depth)
    try:
        return await _dial(address, login, config, tunnel)
    except BaseException:
        if tunnel is not None and tunnel is not via:
            tunnel.close()
        raise


async def _dial(address: Address, login: Login, config: HostConfig, tunnel: Connection | None) -> Connection:
    files = config.key_files if login.known_hosts is None else tuple(map(Path, login.known_hosts))
    keys = HostKeys(config.key_name, files)
    while True:
        client = Client(address.shown, login, keys, config.identities)
        try:
            return await _connect(config, tunnel, client)
        except (OSError, asyncssh.Error, ValueError, TypeError) as error:
            if keys.offered is None:
                by_command = config.proxy is not None and tunnel is None
                raise explained(error, address.shown, config.port, config.user, by_command=by_command) from None
            await _judge(address, login, keys, await asyncio.to_thread(keys.known))


async def _connect(config: HostConfig, tunnel: Connection | None, client: Client) -> Connection:
    trusted = await asyncio.to_thread(client.keys.trusted)

    def known_hosts(_host: str, _addr: str, _port: int | None) -> Trusted:
        return trusted

    with config.opened() as files:
        async with asyncio.timeout(config.connect_s) as client.deadline:
            connection = await asyncssh.connect(
                config.host,
                config.port,
                username=config.user,
                config=files,
                tunnel=tunnel,
                proxy_command=None if tunnel is not None else config.proxy,
                known_hosts=known_hosts,
                server_host_key_algs=algorithms(trusted),
                client_factory=lambda: client,
                client_keys=[str(path) for path in config.identities] or (),
                ignore_encrypted=True,
                keepalive_interval=config.alive_s or _ALIVE_S,
                keepalive_count_max=config.alive_count or _ALIVE_COUNT,
                connect_timeout=None,
                login_timeout=0,
                agent_forwarding=False,
                x11_forwarding=False,
                request_pty=False,
                command=None,
                env=None,
                send_env=None,
            )
    if tunnel is not None:
        connection.set_tunnel(tunnel)  # closed with it
    return connection


async def _jump(config: HostConfig, login: Login, address: Address, depth: int) -> Connection | None:
    """The connection to the last host on the way; None where there is no ProxyJump."""
    if not config.jumps:
        return None
    if depth >= _JUMPS:
        raise HostError(f"{address.shown}: ProxyJump loop (see ~/.ssh/config)", Cause.CONFIG)
    tunnel: Connection | None = None
    try:
        for hop in config.jumps:
            tunnel = await dial(hop, login, tunnel, depth + 1)
    except BaseException:
        if tunnel is not None:
            tunnel.close()
        raise
    return tunnel


async def _judge(address: Address, login: Login, keys: HostKeys, known: Sequence[asyncssh.SSHKey]) -> None:
    """Decide about an unknown key: returns once it is known. Raises HostError."""
    assert keys.offered is not None  # noqa: S101 - else there is nothing to judge
    print_ = fingerprint(keys.offered)
    if known:
        raise HostError(
            f"{address.shown}: its host key has changed (now {print_}), possible "
            f"man-in-the-middle; if the host was reinstalled: ssh-keygen -R '{keys.name}'",
            Cause.KEY_CHANGED,
        )
    if not login.accept_new:
        answer = await login.ask(f"{address.shown} is an unknown host. Its key is {print_}. Trust it? (yes/no) ", True)
        if answer is None:
            raise HostError(
                f"{address.shown}: unknown host key ({print_}) and no terminal to confirm it: connect once with "
                "ssh, or use --accept-new",
                Cause.KEY_UNKNOWN,
            )
        if answer.strip().lower() not in ("yes", keys.offered.get_fingerprint("sha256").lower()):
            raise HostError(f"{address.shown}: host key rejected", Cause.KEY_UNKNOWN)
    try:
        await asyncio.to_thread(keys.learn)
    except OSError as error:
        raise HostError(
            f"{address.shown}: host key cannot be saved in {keys.files[0]}: {error.strerror}", Cause.KEY_UNKNOWN
        ) from None


# --- A shell on another machine, as one channel of the connection that all of its streams share ---

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
        last = f": '{shell.last_line}'" if shell.last_line else ""
        if connection.is_closed():
            raise HostError(f"{shown}: the connection was lost{last}") from None
        raise HostError(
            f"{shown}: no usable POSIX shell{last} (a restricted account, or no sh and dd?)", Cause.SHELL
        ) from None
    return shell


class _Session(asyncssh.SSHClientSession[bytes]):
    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if datatype is None:
            self._shell.received(data)
        else:
            self._shell.complained(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._shell.lost("the connection was lost" if exc is not None else "the shell has ended")
