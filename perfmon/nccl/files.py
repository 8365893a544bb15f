"""Log files of NCCL Inspector: found in folders, whatever their nesting and compression."""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfmon.core import InputError, plain

ENDINGS = (".log", ".log.gz", ".jsonl", ".jsonl.gz")
"""Endings of the files of a folder that are read; a file that is named is read whatever its ending."""
_GZIP = b"\x1f\x8b"
_GZIP_RATIO = 20
"""Compression ratio of these logs, which are very regular."""
_HEAD = 4096
_PROBED = 8


@dataclass(frozen=True, slots=True)
class InspectorFile:
    """One log file of one process."""

    path: Path
    size: int
    compressed: bool
    copies: int = 0
    """Files that repeat it, or its beginning, and were left out."""

    @property
    def volume(self) -> int:
        """Estimated size of its text in bytes."""
        return self.size * (_GZIP_RATIO if self.compressed else 1)

    @property
    def name(self) -> str:
        """Path as text: names of files may have bytes that are none."""
        return os.fsencode(self.path).decode(errors="replace")


def find_files(paths: Iterable[Path]) -> list[InspectorFile]:
    """Return the log files of these files and folders, each once and in order of their names.

    A copy of a file that is also there is left out. Raises InputError if a path does not exist, or if there
    is no log file at all.
    """
    named = list(paths)
    found: dict[tuple[int, int], InspectorFile] = {}
    for path in named:
        for file in _files_of(path):
            try:
                status = file.stat()
            except OSError:
                continue  # removed since it was listed
            key = (status.st_dev, status.st_ino)
            found.setdefault(key, InspectorFile(file, status.st_size, _is_compressed(file)))
    files = sorted(found.values(), key=lambda file: str(file.path))
    if not files:
        names = ", ".join(plain(str(path), 200) for path in named)
        raise InputError(f"{names}: no log files (expected {', '.join(ENDINGS)})")
    return _without_copies(files)


def holds_records(path: Path) -> bool:
    """Return true if the first lines of a file, or of the first files of a folder, are records of NCCL Inspector."""
    try:
        found = find_files([path])[:_PROBED]
    except (InputError, OSError):
        return False
    for file in found:
        try:
            with file.path.open("rb") as opened:
                head = opened.read(_HEAD)
            text = zlib.decompressobj(31).decompress(head, _HEAD) if file.compressed else head
        except (OSError, zlib.error):
            continue
        if b'"nccl_profiler_interface"' in text and b'"header"' in text:
            return True
    return False


def _files_of(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        for folder, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                file = Path(folder, name)
                if name.endswith(ENDINGS) and file.is_file():
                    yield file
    else:
        raise InputError(f"{plain(str(path), 200)}: no such file or folder")


def _is_compressed(path: Path) -> bool:
    """Return true for gzip, by its content: rotated files have endings of all kinds."""
    try:
        with path.open("rb") as file:
            return file.read(2) == _GZIP
    except OSError:
        return False


def _without_copies(files: Sequence[InspectorFile]) -> list[InspectorFile]:
    """Leave out what repeats a file of the same name: `gzip -k` leaves both texts, and folders are copied twice."""
    by_name: dict[str, list[InspectorFile]] = defaultdict(list)
    for file in files:
        by_name[file.path.name.removesuffix(".gz")].append(file)
    kept = []
    for alike in by_name.values():
        alike.sort(key=lambda file: (file.compressed, -file.size, str(file.path)))
        distinct: list[InspectorFile] = []
        for file in alike:
            at = next((at for at, one in enumerate(distinct) if _is_copy(file, one)), None)
            if at is None:
                distinct.append(file)
            else:
                distinct[at] = replace(distinct[at], copies=distinct[at].copies + 1)
        kept += distinct
    return sorted(kept, key=lambda file: str(file.path))


def _is_copy(file: InspectorFile, longer: InspectorFile) -> bool:
    """Compare lengths, beginning and end: logs of different times differ in their first timestamp."""
    try:
        with file.path.open("rb") as opened, longer.path.open("rb") as other:
            head = opened.read(_HEAD)
            if not head:
                return False
            if file.compressed and not longer.compressed:
                text = zlib.decompressobj(31).decompress(head, _HEAD)
                opened.seek(-4, os.SEEK_END)
                length = int.from_bytes(opened.read(4), "little")
                return length == longer.size & 0xFFFFFFFF and other.read(len(text)) == text
            if file.compressed and file.size != longer.size:
                return False
            at = max(0, file.size - _HEAD)
            opened.seek(at)
            tail, begin = opened.read(_HEAD), other.read(len(head))
            other.seek(at)
            return begin == head and other.read(len(tail)) == tail
    except (OSError, zlib.error):
        return False


def batches(files: Sequence[InspectorFile], volume: int) -> Iterator[list[InspectorFile]]:
    """Divide files into groups of about this many bytes of text."""
    batch: list[InspectorFile] = []
    held = 0
    for file in files:
        if batch and held + file.volume > volume:
            yield batch
            batch, held = [], 0
        batch.append(file)
        held += file.volume
    if batch:
        yield batch
