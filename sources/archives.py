"""Archives of logs: which logs a tar or zip file holds, and their bytes. Nothing is ever written to disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .inflate import BrokenError, Read, inflate
from .kinds import HEAD, compression_in, is_bundle, is_log_name
from .tarball import Member, walk_tar
from .zipped import walk_zip


@dataclass(frozen=True, slots=True)
class Listing:
    """What an archive holds."""

    logs: tuple[str, ...]
    """Names of the logs in it, sorted; display text, never paths."""
    damage: str | None
    """How the archive is damaged: more may have been in it."""
    archives: tuple[str, ...] = ()
    """Names of the archives in it, which are not looked into."""


def listing(path: Path) -> Listing:
    """The logs in an archive. Raises OSError when the file cannot be read."""
    state = path.stat()
    return _listing(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=64)
def _listing(path: Path, _mtime_ns: int, _size: int) -> Listing:
    names: set[str] = set()
    archives: set[str] = set()
    damage = None
    try:
        for name, _ in walk(path):
            if _is_log(name):
                names.add(name)
            elif is_bundle(name):
                archives.add(name)
    except BrokenError as error:
        damage = str(error)
    return Listing(tuple(sorted(names)), damage, tuple(sorted(archives)))


def walk(path: Path) -> Iterator[Member]:
    """(name, contents) of each file in an archive, in its own order; consume or drop contents before going on.

    Raises OSError when the archive cannot be read, BrokenError, also from the contents, where it is damaged.
    """
    with path.open("rb") as file:
        head = file.read(HEAD)
        file.seek(0)
        kind = compression_in(head)
        if kind:
            yield from walk_tar(pulled(inflate(kind, file.read)))
        elif head.startswith(b"PK"):
            yield from walk_zip(file)
        else:
            yield from walk_tar(file.read)


def pulled(pieces: Iterator[bytes]) -> Read:
    """A `read(size)` over pieces: at most `size` bytes, none at the end."""
    rest = b""

    def read(size: int) -> bytes:
        nonlocal rest
        data = rest or next(pieces, b"")
        rest = data[size:]
        return data[:size]

    return read


def _is_log(name: str) -> bool:
    folders, _, base = name.rpartition("/")
    hidden = any(part.startswith(".") and part not in (".", "..") for part in folders.split("/"))
    return not hidden and is_log_name(base)
