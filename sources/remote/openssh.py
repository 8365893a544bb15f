"""What `ssh` itself makes of its configuration, asked for with `ssh -G`: Match, Include and all hold as there."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from tempfile import NamedTemporaryFile

from perfmon.text import plain

from .address import Address

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
    options = _asked(program, *([] if files is None else ["-F", files[0]]), *login, "--", address.host)
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
    """What holds where nothing is configured."""
    return _asked(program, "-F", "/dev/null", "--", "perfmon.invalid")


def _asked(program: str, *arguments: str) -> _Options:
    try:
        done = subprocess.run(
            [program, "-G", *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"ssh -G does not answer for {_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"ssh -G ends with {done.returncode}"]
        raise ValueError(plain(said[0], 200).strip())
    found: _Options = {}
    for line in done.stdout.decode(errors="surrogateescape").splitlines():
        name, _, value = line.partition(" ")
        found.setdefault(name.lower(), []).append(value)
    return found
