"""Patterns of paths, `**` included, in trees whose symlinks may run in circles."""

from __future__ import annotations

import glob
import os
from pathlib import Path


def matches(pattern: str) -> list[Path]:
    """What `pattern` matches now, sorted; hidden names only where it says so. Each directory is entered once."""
    before, stars, after = _split(pattern)
    if not stars:
        return sorted(Path(match) for match in glob.iglob(pattern))
    found: set[Path] = set()
    for base in glob.glob(before) if before else [""]:
        for folder in _folders(base):
            found.update(matches(os.path.join(glob.escape(folder), after)) if after else _files(folder))
    return sorted(found)


def _split(pattern: str) -> tuple[str, str, str]:
    """(before, "**", after) of the first component that is `**`; (pattern, "", "") without one."""
    parts = pattern.split("/")
    if "**" not in parts:
        return pattern, "", ""
    at = parts.index("**")
    return "/".join(parts[:at]) or ("/" if at else ""), "**", "/".join(parts[at + 1 :])


def _folders(base: str) -> list[str]:
    """`base` and all directories below it, each once, own ones before those behind symlinks."""
    found: list[str] = []
    own, linked = [base], list[str]()
    seen: set[tuple[int, int]] = set()
    while own or linked:
        folder = own.pop() if own else linked.pop()
        try:
            state = os.stat(folder or ".")
            if (state.st_dev, state.st_ino) in seen:
                continue
            seen.add((state.st_dev, state.st_ino))
            with os.scandir(folder or ".") as entries:
                below = [entry for entry in entries if not entry.name.startswith(".") and os.path.isdir(entry)]
        except OSError:
            continue
        found.append(folder)
        for entry in below:
            (linked if entry.is_symlink() else own).append(os.path.join(folder, entry.name))
    return found


def _files(folder: str) -> list[Path]:
    return [path for path in Path(folder or ".").iterdir() if path.is_file()]
