"""What SPECs name at this moment, and the folders in which more may appear."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .files import LogFile, archives_beside, distinct, folder_of_archives, globbed, log_file
from .spec import Kind, Spec
from .tree import walk_tree

_FEW = 32
"""Folders whose times are worth a look before all that is in them is listed."""


@dataclass(slots=True)
class Listing:
    """What SPECs name at this moment."""

    logs: list[LogFile] = field(default_factory=list)
    folders: set[str] = field(default_factory=set)
    """Folders in which something may appear or change."""


def listed(specs: Sequence[Spec]) -> Listing:
    """The logs that `specs` name now, and where more may appear (blocking)."""
    listing = Listing()
    for spec in specs:
        path = Path(spec.path)
        _watch_name(path, listing.folders)
        if spec.kind is Kind.GLOB:
            paths = globbed(spec.path)
            listing.logs += archives_beside(spec.path)
        elif path.is_dir():
            paths, archives = _below(path, listing.folders)
            listing.logs += [folder_of_archives(path)] if archives else []
        else:
            paths = [path]
        for log in paths:
            _watch_name(log, listing.folders)
        listing.logs += [log_file(log) for log in paths]
    return Listing(distinct(listing.logs), listing.folders)


def _below(root: Path, folders: set[str]) -> tuple[list[Path], list[Path]]:
    """The logs and the archives in a folder."""
    try:
        tree = walk_tree(root)
    except OSError:
        return [], []
    folders.update(os.path.realpath(folder) for folder in tree.folders)
    return tree.logs, tree.archives


def _watch_name(path: Path, folders: set[str]) -> None:
    """Adds the folders in which the file of this name, or the link that leads to it, can change."""
    whole = Path(os.path.abspath(path))
    near = next((parent for parent in whole.parents if os.path.isdir(parent)), Path("/"))
    folders.add(os.path.realpath(near))
    if whole.is_symlink():
        folders.add(os.path.dirname(os.path.realpath(whole)))


def changes(folders: Collection[str]) -> tuple[int, ...]:
    """When something came to each of these folders, or went; () where that is not to be told, or of too many."""
    try:
        return tuple([os.stat(folder).st_mtime_ns for folder in sorted(folders)]) if len(folders) <= _FEW else ()
    except OSError:
        return ()
