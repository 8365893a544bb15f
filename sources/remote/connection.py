"""Makes the connection to one host as `ssh` would: its configuration, jumps, keys and questions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import asyncssh

from .address import Address
from .asking import Client
from .failures import Cause, HostError, explained
from .hostkeys import HostKeys, Trusted, algorithms, fingerprint
from .login import Login
from .sshconfig import HostConfig, read_config

Connection = asyncssh.SSHClientConnection
_JUMPS = 8
_ALIVE_S, _ALIVE_COUNT = 5, 3
"""A network that forwards nothing any more is found out after so many unanswered questions."""

# What the library has to say is told by the lines of HostError; on the screen nothing else may be written.
logging.getLogger("asyncssh").addHandler(logging.NullHandler())
logging.getLogger("asyncssh").propagate = False
# The end of a ProxyCommand may be seen by who starts the next process, before asyncio sees it: that is no trouble.
logging.getLogger("asyncio").addFilter(lambda record: not str(record.msg).startswith("Unknown child process"))


async def dial(address: Address, login: Login, via: Connection | None = None, depth: int = 0) -> Connection:
    """An open connection; whoever gets it closes it. Raises HostError, one line.

    Asks, through `login`, for what is missing: whether an unknown host key is right, passwords, passphrases.
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
    keys = HostKeys(config.key_name, config.key_files if login.known_hosts is None else _paths(login.known_hosts))
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


def _paths(names: Sequence[str]) -> tuple[Path, ...]:
    return tuple(Path(name) for name in names)


async def _judge(address: Address, login: Login, keys: HostKeys, known: Sequence[asyncssh.SSHKey]) -> None:
    """What to do about a key that is not known: returns when it is now. Raises HostError."""
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
