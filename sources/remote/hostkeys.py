"""The keys by which hosts are known: looked up and learned as OpenSSH does, never believed silently."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh
from asyncssh.public_key import get_default_certificate_algs, get_default_public_key_algs

_DEFAULT = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_GLOBAL = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")

Trusted = tuple[Sequence[asyncssh.SSHKey], ...]
"""Host keys, keys of authorities, revoked keys, and what X.509 has of these."""


@dataclass(slots=True)
class HostKeys:
    """What is known of one host."""

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
        """Appends the offered key to the first file. Raises OSError."""
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
    """Kinds of host keys to ask for: those that are known first, then all others, for a changed key must be seen."""
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
