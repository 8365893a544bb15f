"""What `~/.ssh/config` says of a host."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from asyncssh.config import SSHClientConfig

from .address import Address, parse_host
from .hostkeys import entry_name, key_files
from .openssh import flat_config, written

_CONNECT_S = 15.0


@dataclass(frozen=True, slots=True)
class HostConfig:
    """How a host is reached."""

    files: tuple[str, ...]
    """The configuration files that were read, unless there is `text`."""
    text: str | None
    """What `ssh` made of them."""
    host: str
    """As it was named: the library looks it up in the files again."""
    port: int
    user: str
    jumps: tuple[Address, ...]
    proxy: tuple[str, ...] | None
    """The command line that stands for the network."""
    identities: tuple[Path, ...]
    """Files of private keys that exist; empty: the usual ones."""
    key_name: str
    """The name of its host key in the files of host keys."""
    key_files: tuple[Path, ...]
    connect_s: float
    alive_s: int | None
    alive_count: int | None

    @contextmanager
    def opened(self) -> Iterator[list[str]]:
        """The files that the library is to read."""
        if self.text is None:
            yield list(self.files)
            return
        with written(self.text) as name:
            yield [name]


def read_config(address: Address, files: Sequence[str] | None = None) -> HostConfig:
    """Reads the files, by default those that `ssh` reads (blocking). Raises ValueError and OSError for wrong ones.

    Without an `ssh` to ask the library reads `~/.ssh/config` by itself, as well as it can.
    """
    flat = flat_config(address, files)
    if flat is not None:
        with written(flat) as name:
            return replace(_read(address, [name]), files=(), text=flat)
    default = Path("~/.ssh/config").expanduser()
    if files is None:
        files = [str(default)] if os.access(default, os.R_OK) else []
    return _read(address, files)


def _read(address: Address, files: Sequence[str]) -> HostConfig:
    user, port = address.user or (), address.port or ()
    config = SSHClientConfig.load(
        None,
        list(files),
        False,
        False,
        False,
        getpass.getuser(),
        user,
        address.host,
        port,
    )

    def text(option: str) -> str | None:
        value = config.get(option)
        return str(value) if value is not None else None

    def number(option: str) -> int | None:
        value = config.get(option)
        return value if isinstance(value, int) and value > 0 else None

    def listed(option: str) -> list[str] | None:
        value = config.get(option)
        return [str(item) for item in value] if isinstance(value, list | tuple) else None

    host, its_port = text("Hostname") or address.host, number("Port") or 22
    jump, proxy = text("ProxyJump"), text("ProxyCommand")
    identities = [Path(name).expanduser() for name in listed("IdentityFile") or ()]
    return HostConfig(
        files=tuple(files),
        text=None,
        host=address.host,
        port=its_port,
        user=text("User") or getpass.getuser(),
        jumps=tuple(parse_host(hop.strip()) for hop in jump.split(",")) if jump else (),
        proxy=_by_shell(proxy) if proxy and not jump else None,
        identities=tuple(path for path in identities if path.is_file()),
        key_name=entry_name(host, its_port, text("HostKeyAlias")),
        key_files=key_files(listed("UserKnownHostsFile"), listed("GlobalKnownHostsFile")),
        connect_s=float(number("ConnectTimeout") or _CONNECT_S),
        alive_s=number("ServerAliveInterval"),
        alive_count=number("ServerAliveCountMax"),
    )


def _by_shell(command: str) -> tuple[str, ...]:
    """ProxyCommand is run by a shell, as ssh does; what it prints on stderr is neither data nor for the screen.

    The library takes the end of any of the command's pipes for the end of the connection, and what the command would
    inherit, it may close (ssh does): so a shell beside it holds stderr's pipe open for as long as the command lives.
    """
    beside = "(exec <&- >&-; while kill -0 $$ 2>/dev/null; do sleep 2; done) &"
    return ("/bin/sh", "-c", f"{beside} exec 2>/dev/null; exec {command}")
