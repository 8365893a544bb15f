"""Log files of NCCL Inspector: found in folders, whatever their nesting and compression."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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

    A compressed copy of a file that is also there is left out. Raises InputError if a path does not exist, or if there
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
    """Leave out `x.log.gz` where `x.log` has the same text: `gzip -k` leaves both."""
    by_path = {file.path: file for file in files}
    kept = []
    for file in files:
        original = by_path.get(file.path.with_suffix("")) if file.path.suffix == ".gz" else None
        if original is None or not _is_copy(file, original):
            kept.append(file)
    return kept


def _is_copy(packed: InspectorFile, original: InspectorFile) -> bool:
    """Compare length and beginning: logs of different times differ in their first timestamp."""
    try:
        with packed.path.open("rb") as file:
            head = zlib.decompressobj(31).decompress(file.read(_HEAD), _HEAD)
            file.seek(-4, os.SEEK_END)
            length = int.from_bytes(file.read(4), "little")
        with original.path.open("rb") as file:
            return length == original.size & 0xFFFFFFFF and file.read(len(head)) == head
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
