"""Trees of files: which files below a directory are logs, and which match a pattern."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
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

    Raises OSError when `root` itself cannot be read. What vanishes while it is read is left out.
    """
    tree = Tree()

    def failed(folder: str, error: OSError) -> None:
        if not tree.folders:
            raise error
        if isinstance(error, PermissionError):
            tree.closed.append(Path(folder))

    # A link to a directory above the root would read half the machine, and the root again within it.
    above = {_identity(str(parent)) for parent in Path(os.path.realpath(root)).parents if os.path.exists(parent)}
    for folder, entries in _walk(str(root), holds_logs, above, failed, _DEPTH):
        tree.folders.append(Path(folder))
        for entry in entries:
            if _kind(entry) == "file":
                _sort_in(entry, tree)
    return tree


def is_log(path: str) -> bool:
    """True if the name is that of a log; for a `.json` file, if each of its lines is an object."""
    return is_log_name(os.path.basename(path)) or (path.lower().endswith(".json") and _has_json_lines(path))


def holds_logs(name: str) -> bool:
    """True if directories of this name are searched."""
    return not _SKIPPED.match(name)


def _walk(
    root: str,
    enters: Callable[[str], bool],
    visited: set[tuple[int, int]],
    failed: Callable[[str, OSError], None],
    depth: float = inf,
) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """Yield `root` and the directories below it with their entries: each once, own ones before those behind symlinks.

    `enters` chooses directories by name; those that cannot be read go to `failed`.
    """
    own: list[tuple[str, int]] = [(root, 0)]
    linked: list[tuple[str, int]] = []
    while own or linked:
        folder, level = own.pop() if own else linked.pop()
        try:
            if (identity := _identity(folder or ".")) in visited:
                continue
            visited.add(identity)
            with os.scandir(folder or ".") as scanned:
                entries = list(scanned)
        except OSError as error:
            failed(folder, error)
            continue
        yield folder, entries
        for entry in entries if level < depth else ():
            if enters(entry.name) and _kind(entry) == "folder":
                (linked if entry.is_symlink() else own).append((os.path.join(folder, entry.name), level + 1))


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


def _identity(path: str) -> tuple[int, int]:
    state = os.stat(path)
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
    below = _walk(base, lambda name: not name.startswith("."), set(), lambda _folder, _error: None)
    return [folder for folder, _ in below]


def _files(folder: str) -> list[Path]:
    return [path for path in Path(folder or ".").iterdir() if os.path.isfile(path)]
