"""The virtual logs in which pollers tell what they found out, known by their names."""

from __future__ import annotations

from pathlib import Path

from perfmon.text import plain, without_secrets

from ..files import LogFile
from .reading import SCHEME


def poll_log(host: str, name: str) -> LogFile:
    """The virtual log of a poller."""
    shown = plain(f"{SCHEME}{host}/{without_secrets(name)}", 200)
    return LogFile(shown, Path(SCHEME, host), shown)
