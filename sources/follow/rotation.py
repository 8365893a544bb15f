"""Where the text of a rotated log went: the copies and older parts beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from .kinds import compression_of
from .stream import Identity, Print, identity_of

_ROTATED = re.compile(r"[.-](\d[\d._T:-]*|old|bak|prev)$")

_COUNTED = re.compile(r"\.(\d{1,4})(?:\.[a-z]\w+)?$")


def is_part_of(path: Path, log: Path) -> bool:
    """Whether `path` is named as an older part of `log` is: `a.log.1`, `a.log-20260101`, `a.log.2.gz`."""
    return path.name.startswith(log.name) and path.parent == log.parent and log.name in names_of_logs(path.name)


def names_of_logs(name: str) -> set[str]:
    """The names of which `name` may be an older part's."""
    bare = name.rpartition(".")[0] if compression_of(name) else name
    ends = (at for at, char in enumerate(bare) if at and char in ".-")
    return {bare[:at] for at in ends if _ROTATED.fullmatch(bare, at)}


def age_by_name(path: str) -> tuple[int, str]:
    """Sorts parts of one moment, the oldest first: of `a.log.2` and `a.log.1` the first, of dates the earlier."""
    count = _COUNTED.search(path)
    return (-int(count[1]) if count else 0, path)


def parts_of(log: Path) -> list[tuple[Path, os.stat_result]]:
    """The uncompressed older parts beside a log, the oldest first."""
    found = []
    try:
        with os.scandir(log.parent) as entries:
            for entry in entries:
                path = Path(entry.path)
                if is_part_of(path, log) and not compression_of(entry.name) and entry.is_file(follow_symlinks=False):
                    found.append((path, entry.stat()))
    except OSError:
        return []
    return sorted(found, key=lambda part: part[1].st_mtime_ns)


def rest_in_copy(log: Path, known: Print) -> bytes | None:
    """What a copy of a truncated log holds after the position that was reached; None when there is no copy.

    Reads at most 64 MiB: what was written between the last look and the truncation.
    """
    if not known.position:
        return None
    for path, state in reversed(parts_of(log)):
        if state.st_size >= known.position and holds(path, known):
            with path.open("rb") as file:
                file.seek(known.position)
                return file.read(1 << 26)
    return None


def holds(path: Path, known: Print) -> bool:
    """Whether the file at `path` begins with a known text."""
    try:
        with path.open("rb") as file:
            return known.fits(file.fileno())
    except OSError:
        return False


def may_hold(path: Path, known: Print) -> bool | None:
    """`holds`, of a file that is still being written; None while it is too short to say."""
    with path.open("rb") as file:
        return known.may_fit(file.fileno())


def parts_since(log: Path, changed_ns: int, known: set[Identity]) -> Iterator[Path]:
    """Parts that were written at or after `changed_ns` and never seen: logs that came and went between two looks."""
    for path, state in parts_of(log):
        if state.st_mtime_ns >= changed_ns and identity_of(state) not in known:
            yield path
