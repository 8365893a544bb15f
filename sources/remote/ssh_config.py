"""The configuration of `ssh` for a host, and its known host keys."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import asyncssh
from asyncssh.config import SSHClientConfig
from asyncssh.public_key import get_default_certificate_algs, get_default_public_key_algs

from perfmon.core import plain

from .model import Address, parse_host

# --- What `ssh` itself makes of its configuration, read with `ssh -G`: Match, Include and all hold as there ---

_TIMEOUT_S = 10.0
_ALWAYS = ("hostname", "port", "user")
_ONE = (
    "identityfile", "identityagent", "hostkeyalias", "bindaddress", "addressfamily", "preferredauthentications",
    "connecttimeout", "serveraliveinterval", "serveralivecountmax", "ciphers", "kexalgorithms", "macs", "compression",
    "identitiesonly", "pubkeyauthentication", "passwordauthentication", "kbdinteractiveauthentication",
    "gssapiauthentication", "tcpkeepalive", "certificatefile",
)  # fmt: skip
"""Options of one word."""
_LINES = ("proxyjump", "proxycommand", "userknownhostsfile", "globalknownhostsfile")
_TRUTH = {"unbound": "yes", "host-bound": "yes"}

_Options = dict[str, list[str]]


def flat_config(address: Address, files: Sequence[str] | None) -> str | None:
    """The options that hold for a host, one a line, where they are not the usual ones (blocking).

    `files` of None are those that `ssh` reads by itself. None where there is no `ssh`. Raises ValueError for a
    configuration that cannot be used.
    """
    program = shutil.which("ssh")
    if program is None or (files is not None and len(files) != 1):
        return None
    login = [*(["-l", address.user] if address.user else []), *(["-p", str(address.port)] if address.port else [])]
    options = _ssh_g(program, *([] if files is None else ["-F", files[0]]), *login, "--", address.host)
    usual = _usual(program)
    lines = []
    for name, values in options.items():
        if name in _ALWAYS:
            lines.append(f"{name} {shlex.quote(values[0].replace('%', '%%') if name == 'hostname' else values[0])}")
        elif values != usual.get(name):
            lines += _lines(name, values)
    return "\n".join(lines) + "\n"


def _lines(name: str, values: list[str]) -> list[str]:
    if name in _LINES:
        return [f"{name} {value}" for value in values]
    if name == "certificatefile":  # ssh does without one that is not there
        values = [value for value in values if os.path.isfile(os.path.expanduser(value))]
    return [f"{name} {shlex.quote(_TRUTH.get(value, value))}" for value in values if name in _ONE]


@contextmanager
def written(text: str) -> Iterator[str]:
    """A file that holds a configuration, for as long as it is needed: the library reads nothing else (blocking)."""
    with NamedTemporaryFile("w", prefix="perfmon-ssh-", suffix=".conf") as file:
        file.write(text)
        file.flush()
        yield file.name


@lru_cache(maxsize=1)
def _usual(program: str) -> _Options:
    return _ssh_g(program, "-F", "/dev/null", "--", "perfmon.invalid")


def _ssh_g(program: str, *arguments: str) -> _Options:
    try:
        done = subprocess.run(
            [program, "-G", *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"ssh -G does not answer for {_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"ssh -G ends with {done.returncode}"]
        raise ValueError(plain(lines[0], 200).strip())
    found: _Options = {}
    for line in done.stdout.decode(errors="surrogateescape").splitlines():
        name, _, value = line.partition(" ")
        found.setdefault(name.lower(), []).append(value)
    return found


# --- The keys by which hosts are known: looked up and learned as OpenSSH does, never believed silently ---

_DEFAULT = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_GLOBAL = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")

Trusted = tuple[Sequence[asyncssh.SSHKey], ...]
"""Host keys, keys of authorities, revoked keys, and what X.509 has of these."""


@dataclass(slots=True)
class HostKeys:
    """The known keys of one host."""

    name: str
    """As in the files: a name or alias; with its port, where that is not 22."""
    files: tuple[Path, ...]
    offered: asyncssh.SSHKey | None = None
    """The key that the host showed and that is not known."""

    def trusted(self) -> Trusted:
        """The keys of this host, of authorities and those revoked, read now."""
        found: list[list[Any]] = [[], [], [], [], [], [], []]
        for line in self._lines():
            try:
                matched = asyncssh.import_known_hosts(line).match(self.name, "", None)
            except ValueError:
                continue  # ssh skips what it cannot read, too
            for at, keys in enumerate(matched):
                found[at] += keys
        return tuple(found)

    def known(self) -> list[asyncssh.SSHKey]:
        """The keys that this host had so far."""
        return list(self.trusted()[0])

    def learn(self) -> Path:
        """Append the offered key to the first file. Raises OSError."""
        assert self.offered is not None  # noqa: S101 - nothing is learned before something was offered
        path = self.files[0]
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = self.offered.export_public_key().decode().split()
        line = f"{self.name} {key[0]} {key[1]}\n"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            whole = not size or os.pread(descriptor, 1, size - 1) == b"\n"
            os.write(descriptor, (line if whole else "\n" + line).encode())
        finally:
            os.close(descriptor)
        self.offered = None
        return path

    def _lines(self) -> Iterable[str]:
        for path in self.files:
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            yield from (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))


def entry_name(host: str, port: int, alias: str | None) -> str:
    """The name under which a host stands in the files."""
    return alias or (host.lower() if port == 22 else f"[{host.lower()}]:{port}")


def algorithms(trusted: Trusted) -> list[str]:
    """Kinds of host keys to request: those that are known first, then all others, for a changed key must be seen."""
    known = [name for key in trusted[0] for name in key.sig_algorithms]
    certified, plain = get_default_certificate_algs(), get_default_public_key_algs()
    names = [*(certified if trusted[1] else ()), *known, *plain, *(() if trusted[1] else certified)]
    return [name.decode() for name in dict.fromkeys(names)]


def key_files(user: Sequence[str] | None, shared: Sequence[str] | None) -> tuple[Path, ...]:
    """The files to look into; a configuration that names none gets the usual ones: not to check is no choice."""
    names = [*(user or _DEFAULT), *(_GLOBAL if shared is None else shared)]
    return tuple(Path(name).expanduser() for name in names if name.lower() != "none")


def fingerprint(key: asyncssh.SSHKey) -> str:
    """`ED25519 SHA256:...`, as ssh shows it."""
    kind = key.get_algorithm().removeprefix("ssh-").partition("-")[0].upper()
    return f"{kind} {key.get_fingerprint('sha256')}"


# --- A host in `~/.ssh/config` ---

_CONNECT_S = 15.0


@dataclass(frozen=True, slots=True)
class HostConfig:
    """The configuration of the connection to a host."""

    files: tuple[str, ...]
    """The configuration files that were read, unless there is `text`."""
    text: str | None
    """The configuration of the host as `ssh` resolved it from them."""
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
    """Read the files, by default those that `ssh` reads (blocking). Raises ValueError and OSError for wrong ones.

    Without an `ssh` program the library reads `~/.ssh/config` by itself, as well as it can.
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
    inherit, it may close (ssh does): so another shell holds stderr's pipe open for as long as the command lives.
    """
    keeper = "(exec <&- >&-; while kill -0 $$ 2>/dev/null; do sleep 2; done) &"
    return ("/bin/sh", "-c", f"{keeper} exec 2>/dev/null; exec {command}")
