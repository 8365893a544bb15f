"""Choices on the screen that are kept for the next time: a few words in `$XDG_STATE_HOME/perfmon`.

Nothing depends on it: a missing, broken or unreadable file is empty, and one that cannot be written is no error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_FILE = "remembered.json"
_LARGEST = 65536
_LONGEST = 200


def _folder() -> Path:
    home = os.environ.get("XDG_STATE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".local" / "state") / "perfmon"


def loaded_state() -> dict[str, str]:
    """All saved values, by name."""
    try:
        with (_folder() / _FILE).open("rb") as file:
            data = json.loads(file.read(_LARGEST))
    except (OSError, ValueError, RuntimeError, RecursionError):  # RuntimeError: no home folder
        return {}
    if not isinstance(data, dict):
        return {}
    return {name: value for name, value in data.items() if isinstance(value, str) and len(value) <= _LONGEST}


def load_state(name: str) -> str | None:
    """Return the value saved under that name, if there is one."""
    return loaded_state().get(name)


def remember(name: str, value: str) -> bool:
    """Save `value` (at most 200 characters) under that name, for this user alone; return False if that fails.

    The file is replaced atomically.
    """
    known = loaded_state()
    if known.get(name) == value:
        return True
    try:
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(folder / _FILE) as file:
            file.write(json.dumps({**known, name: value[:_LONGEST]}, indent=1).encode())
    except (OSError, RuntimeError):
        return False
    return True


@contextmanager
def replacing(path: str | Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` at the end, whole or not at all; raises OSError."""
    fresh = Path(path).with_name(f".{Path(path).name}.{os.getpid()}.new")
    with suppress(FileNotFoundError):
        fresh.unlink()  # of a process with this number that was killed
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            yield file
        os.replace(fresh, path)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise
