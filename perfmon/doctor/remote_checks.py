"""Checks of SSH: keys, agent, known hosts."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from .check import Finding, found, limited, missing

_LIST, _LISTED = 11, 12
"""Messages of the agent's protocol: asking for the identities, and the answer."""
_MOST = 1 << 16
_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")
_ASKED = "the passphrases of keys are requested on every start"


def agent(patience_s: float) -> Finding:
    """Check the agent, and its number of keys."""
    path = os.environ.get("SSH_AUTH_SOCK", "")
    if not path:
        return missing("SSH_AUTH_SOCK is not set", _ASKED, "eval $(ssh-agent), then ssh-add")
    try:
        count = _held(path, patience_s)
    except TimeoutError:
        raise
    except (OSError, ValueError):
        return missing("SSH_AUTH_SOCK points to no agent", _ASKED, "eval $(ssh-agent), then ssh-add")
    if not count:
        return limited("it has no keys", _ASKED, "ssh-add")
    return found(f"holds {count} {'key' if count == 1 else 'keys'}")


def _held(path: str, patience_s: float) -> int:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(patience_s)
        client.connect(path)
        client.sendall(b"\0\0\0\1" + bytes([_LIST]))
        answer = _exactly(client, 9)
    if answer[4] != _LISTED:
        raise ValueError("no list of keys")
    return int.from_bytes(answer[5:9], "big")


def _exactly(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = client.recv(size - len(data))
        if not more:
            raise ValueError("incomplete answer")
        data += more
    return data


def known_hosts(_: float) -> Finding:
    """Number of known hosts."""
    places = [Path("~/.ssh/known_hosts").expanduser(), Path("/etc/ssh/ssh_known_hosts")]
    count = sum(_entries(path) for path in places)
    if not count:
        mend = "connect once by ssh, or perfmon ssh --accept-new HOST"
        return missing("no known hosts yet", "each host key must be confirmed once", mend)
    return found(f"{count} {'entry' if count == 1 else 'entries'}")


def _entries(path: Path) -> int:
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return 0
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in text.splitlines())


def keys(_: float) -> Finding:
    """Keys in the default locations of ssh."""
    folder = Path("~/.ssh").expanduser()
    there = [name for name in _KEYS if os.access(folder / name, os.R_OK)]
    if there:
        return found(", ".join(there))
    costs = "hosts require a password, unless the agent or ~/.ssh/config provides a key"
    return missing(f"none in {folder}", costs, "ssh-keygen -t ed25519")
