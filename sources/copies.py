"""Logs that are there twice: what copies a folder often follows its links, so that `latest/` holds all once more."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from .files import STDIN, LogFile

_PIECE = 1 << 20
_ARCHIVE = "zip"


def without_copies(logs: Sequence[LogFile]) -> tuple[list[LogFile], dict[LogFile, list[LogFile]]]:
    """`logs` without those that have the name and all bytes of one before them; and the copies of those that have some.

    Files are compared by their bytes, members of a zip archive by its checksums; of a tar archive nothing is known
    before it is read.
    """
    alike: dict[Hashable, list[LogFile]] = {}
    archives: dict[Path, dict[str, Hashable]] = {}
    for log in logs:
        key = _key(log, archives)
        if key is not None:
            alike.setdefault((_base(log), key), []).append(log)
    copies: dict[LogFile, list[LogFile]] = {}
    for group in alike.values():
        kept: list[LogFile] = []
        for log in group:
            of = next((other for other in kept if _is_same(other, log)), None)
            if of is None:
                kept.append(log)
            else:
                copies.setdefault(of, []).append(log)
    dropped = {log for some in copies.values() for log in some}
    return [log for log in logs if log not in dropped], copies


def _base(log: LogFile) -> str:
    return log.path.name if log.member is None else PurePosixPath(log.member).name


def _key(log: LogFile, archives: dict[Path, dict[str, Hashable]]) -> Hashable | None:
    """What copies of a log share with it; None where nothing can be known, or there is nothing in it."""
    if log.member is not None:
        if log.path not in archives:
            archives[log.path] = _checksums(log.path)
        return archives[log.path].get(log.member)
    if log.path == STDIN:
        return None
    with suppress(OSError):
        return log.path.stat().st_size or None
    return None


def _checksums(path: Path) -> dict[str, Hashable]:
    """Of each member of a zip archive that holds something; of others, and of damaged ones, nothing."""
    import zipfile

    with suppress(OSError, zipfile.BadZipFile, ValueError), zipfile.ZipFile(path) as archive:
        return {info.filename: (_ARCHIVE, info.CRC, info.file_size) for info in archive.infolist() if info.file_size}
    return {}


def _is_same(one: LogFile, other: LogFile) -> bool:
    """Whether the bytes are the same, of two logs of one key; what cannot be read is like nothing."""
    if one.member is not None:
        return True
    with suppress(OSError), one.path.open("rb") as ours, other.path.open("rb") as theirs:
        while (piece := ours.read(_PIECE)) == theirs.read(_PIECE):
            if not piece:
                return True
    return False
