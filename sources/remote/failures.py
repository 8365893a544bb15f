"""Why a host cannot be reached, in one line with the mend."""

from __future__ import annotations

import errno
import socket
from enum import StrEnum

import asyncssh

from perfmon.errors import ConnectError
from perfmon.text import plain


class Cause(StrEnum):
    """Kinds of failure; the later ones no patience can mend."""

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
        return Cause.UNREACHABLE, f"SSH negotiation failed: {_said(error)}"
    if isinstance(error, asyncssh.ChannelOpenError):
        return Cause.UNREACHABLE, f"the jump host cannot reach it: {_said(error)}"
    if isinstance(error, asyncssh.Error):
        return Cause.UNREACHABLE, f"the connection failed: {_said(error)}"
    if isinstance(error, OSError):
        known = _ERRNOS.get(error.errno or 0)
        return Cause.UNREACHABLE, known.format(port=port) if known else f"cannot be reached: {_said(error)}"
    return Cause.CONFIG, f"the ssh configuration cannot be used: {_said(error)}"


def _said(error: BaseException) -> str:
    """What a library or the other side says, as one line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return plain(" ".join(text.split()) or type(error).__name__, 200)
