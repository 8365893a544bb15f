"""Trees of files: which files below a directory are logs, and which match a pattern."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from .spec import HEAD, is_bundle, is_json_lines, is_log_name

# --- Which files below a directory are logs ---

_DEPTH = 24
_SKIPPED = re.compile(
    r"\.|__pycache__$|node_modules$|(checkpoint|ckpt)s?([._-]|\d|$)|global_step|weights?$|site-packages$", re.IGNORECASE
)
"""Directories without logs of their own: hidden ones, checkpoints, installed code."""


@dataclass(slots=True)
class Tree:
    """The result of walking a directory."""

    logs: list[Path] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    """Every directory that was read, the root first."""
    archives: list[Path] = field(default_factory=list)
    """Of other runs, perhaps: they are not looked into."""
    closed: list[Path] = field(default_factory=list)
    """Directories that may not be read."""
    others: int = 0
    """Files that are no logs."""


def walk_tree(root: Path) -> Tree:
    """The logs below a directory, through symlinks too; each directory once, under its own name where it has one.

    Raises OSError when `root` itself cannot be read. What vanishes meanwhile is left out.
    """
    tree = Tree()
    # A link to a directory above the root would read half the machine, and the root again within it.
    visited = {_identity(parent) for parent in Path(os.path.realpath(root)).parents}
    own: list[tuple[Path, int]] = [(root, 0)]
    linked: list[tuple[Path, int]] = []
    while own or linked:
        folder, depth = own.pop() if own else linked.pop()
        identity = _identity(folder)
        if identity in visited:
            continue
        visited.add(identity)
        for entry in _entries(folder, tree):
            kind = _kind(entry)
            if kind == "folder" and depth < _DEPTH and holds_logs(entry.name):
                (linked if entry.is_symlink() else own).append((Path(entry.path), depth + 1))
            elif kind == "file":
                _sort_in(entry, tree)
    return tree


def is_log(path: str) -> bool:
    """True if the name is that of a log; for a `.json` file, if each of its lines is an object."""
    return is_log_name(os.path.basename(path)) or (path.lower().endswith(".json") and _has_json_lines(path))


def holds_logs(name: str) -> bool:
    """True if directories of this name are searched."""
    return not _SKIPPED.match(name)


def _entries(folder: Path, tree: Tree) -> list[os.DirEntry[str]]:
    """The entries of a directory; none of a directory below the root that cannot be read."""
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
    except OSError as error:
        if not tree.folders:
            raise
        if isinstance(error, PermissionError):
            tree.closed.append(folder)
        return []
    tree.folders.append(folder)
    return found


def _sort_in(entry: os.DirEntry[str], tree: Tree) -> None:
    if is_log(entry.path):
        tree.logs.append(Path(entry.path))
    elif is_bundle(entry.name) and not entry.name.startswith("."):
        tree.archives.append(Path(entry.path))
    else:
        tree.others += 1


def _kind(entry: os.DirEntry[str]) -> str:
    try:
        return "folder" if entry.is_dir() else "file" if entry.is_file() else ""
    except OSError:
        return ""


def _has_json_lines(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return is_json_lines(file.read(HEAD))
    except OSError:
        return False


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino


# --- Patterns of paths, `**` included, in trees whose symlinks may run in circles ---


def matches(pattern: str) -> list[Path]:
    """Return the matches of `pattern`, sorted; hidden names only if it names them. Each directory is entered once."""
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
    visited: set[tuple[int, int]] = set()
    while own or linked:
        folder = own.pop() if own else linked.pop()
        try:
            state = os.stat(folder or ".")
            if (state.st_dev, state.st_ino) in visited:
                continue
            visited.add((state.st_dev, state.st_ino))
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
