"""Choices on the screen that are kept for the next time: a few words in `$XDG_STATE_HOME/perfmon`.

Nothing depends on it: a missing, broken or unreadable file is empty, and one that cannot be written is no error.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp

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
        _replace(folder / _FILE, json.dumps({**known, name: value[:_LONGEST]}, indent=1).encode())
    except (OSError, RuntimeError):
        return False
    return True


def _replace(path: Path, data: bytes) -> None:
    descriptor, name = mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600 from the start
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except OSError:
        with suppress(OSError):
            os.unlink(name)
        raise
