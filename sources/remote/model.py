"""Addresses of remote machines, and the state of the connection to one."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import StrEnum

from perfmon.core import UsageError, evidence_text

# --- Which machine, and which logs there: what stands on the command line ---

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.$+\\-]{0,127}")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?")
_SCHEME = "ssh://"
_SCP = re.compile(r"([^/:@\s]+@(?:\[[^\]]+\]|[^/:@\s]+)):([/~].*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Address:
    """A machine, as it was named; `~/.ssh/config` may know more of it."""

    host: str
    user: str | None = None
    port: int | None = None

    @property
    def shown(self) -> str:
        """For display; unique."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user + '@' if self.user else ''}{host}{f':{self.port}' if self.port else ''}"


@dataclass(frozen=True, slots=True)
class RemoteSpec:
    """Logs on a machine."""

    text: str
    """As it was given."""
    address: Address
    path: str
    """A path or pattern there, absolute or from the home folder on; "" for whatever runs there."""
    inspector: int | None = None
    """The most bytes to read of what is there, of each log of NCCL Inspector; None for other logs."""


def parse_host(text: str) -> Address:
    """Read `[USER@]HOST[:PORT]` or `ssh://[USER@]HOST[:PORT]`. Raises UsageError."""
    bare = text[len(_SCHEME) :].rstrip("/") if text.lower().startswith(_SCHEME) else text
    login, _, where = bare.rpartition("@")
    if ":" in login:
        hidden = f"{login.partition(':')[0]}:***@{where}"
        raise UsageError(f"{_shown(hidden)}: no passwords in addresses: you will be prompted, or use a key")
    host, port = _split_port(where, text)
    if login and not _USER.fullmatch(login):
        raise UsageError(f"{_shown(text)}: not a valid user: expected USER@HOST")
    if not (_HOST.fullmatch(host) or (":" in host and _IPV6.fullmatch(host))):
        raise UsageError(f"{_shown(text)}: not a valid host: expected [USER@]HOST[:PORT]")
    return Address(host, login or None, port)


def parse_remote(text: str) -> RemoteSpec | None:
    """Read a SOURCE that names logs on a machine; None when it names none.

    `ssh://[USER@]HOST[:PORT]/PATH`, where `/~/` begins at the home folder, or `USER@HOST:PATH` with a path that is
    absolute or begins with `~`. What exists here under that very name is no machine. Raises UsageError.
    """
    if text.lower().startswith(_SCHEME):
        host, slash, path = text[len(_SCHEME) :].partition("/")
        path = path if path.startswith("~") else slash + path
        return RemoteSpec(text, parse_host(host), _possible(path.rstrip("/"), text))
    match = _SCP.fullmatch(text)
    if match is None or os.path.lexists(text):
        return None
    return RemoteSpec(text, parse_host(match[1]), _possible(match[2], text))


def at_home(text: str) -> str:
    """A path as `--log` takes it: what is not absolute is below the home folder. Raises UsageError."""
    return _possible(text if text.startswith(("/", "~")) else f"~/{text}", text)


def _possible(path: str, text: str) -> str:
    if not path or path == "/":
        return ""
    if any(sign in path for sign in "\0\r\n"):
        raise UsageError(f"{_shown(text)}: a path with a line break cannot be followed on a remote host")
    return path


def _split_port(where: str, text: str) -> tuple[str, int | None]:
    if where.startswith("["):
        host, _, rest = where[1:].partition("]")
        port = rest.removeprefix(":")
    elif where.count(":") == 1:
        host, _, port = where.partition(":")
    else:
        host, port = where, ""
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise UsageError(f"{_shown(text)}: not a valid port: expected a number from 1 to 65535")
    return host, int(port) if port else None


def _shown(text: str) -> str:
    return f"'{evidence_text(text, 200)}'"


# --- A host at one instant: plain values, for what shows them ---


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """An estimate of how far the clock of a machine is from this one's."""

    seconds: float
    """Seconds by which that clock is ahead of this one."""
    uncertainty_s: float


class Phase(StrEnum):
    """The state of the connection to a host."""

    CONNECTING = "connecting"
    LIVE = "live"
    STALE = "stale"
    """Connected, but it has not answered for a while."""
    RECONNECTING = "reconnecting"
    REFUSED = "refused"
    """It is not tried any more: its key has changed, or the login does not work."""


@dataclass(frozen=True, slots=True)
class HostState:
    """A host at one moment."""

    name: str
    phase: Phase
    age_s: float | None
    """Seconds since it answered last."""
    reconnects: int
    """Number of times a lost connection was made again."""
    attempts: int
    """Number of failed attempts since it was lost."""
    error: str
    """Reason for which it is not connected; one line."""
    logs: int
    clock: ClockOffset | None
