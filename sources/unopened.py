"""Archives that are met on the way and not opened: those in a folder may be of other runs, those in an archive cost
time and memory that nobody can bound. They are named, and how they are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.text import plain

from .tree import walk_tree

if TYPE_CHECKING:
    from .bundles import Listing

_NAMED = 3


def in_folder(root: Path) -> str:
    """What is said of the archives below a folder; "" where there are none."""
    try:
        archives = walk_tree(root).archives
    except OSError:
        return ""
    names = sorted(str(path.relative_to(root)) for path in archives)
    return f"{_named(names)} not read with the folder: name those that contain logs of this run" if names else ""


def in_bundle(found: Listing) -> str:
    """What is said of the archives in an archive; "" where there are none."""
    return f"{_named(found.archives)} not read: unpack it and name the logs" if found.archives else ""


def _named(names: Sequence[str]) -> str:
    more = ", …" if len(names) > _NAMED else ""
    counted = "an archive" if len(names) == 1 else f"{len(names)} archives"
    return f"{counted} in it ({', '.join(map(plain, names[:_NAMED]))}{more}) {'is' if len(names) == 1 else 'are'}"
