"""Reads a piece of a log back from its file: lines that the ring has forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from perfmon.errors import InputError
from perfmon.items import Block
from perfmon.sources.accelerator import newlines
from perfmon.text import plain

_CHUNK = 1 << 20
_LINE_CAP = 1 << 16
_BYTES_CAP = 1 << 20


def read_back(path: Path, number: int, around: int = 200, name: str = "") -> Block:
    """The line of that number, from 1, with up to `around` lines on both sides (blocking: reads the file up to it).

    Raises InputError, one line that calls the log `name`, when the file cannot be read or has no such line.
    """
    first = max(1, number - around)
    name = plain(name or str(path))
    try:
        with path.open("rb") as file:
            offset = _offset_of(file, first)
            data = None if offset is None else _lines(file, offset, number - first + 1, around)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from None
    if offset is None or not data:
        raise InputError(f"{name}: line {number} no longer exists: rotated or truncated")
    return Block(data, offset, first)


def _offset_of(file: BinaryIO, line: int) -> int | None:
    """Where a line begins; None when the file has fewer."""
    left, offset = line - 1, 0
    while left:
        chunk = file.read(_CHUNK)
        if not chunk:
            return None
        count = newlines(chunk)
        if count < left:
            left -= count
            offset += len(chunk)
            continue
        at = -1
        for _ in range(left):
            at = chunk.index(b"\n", at + 1)
        return offset + at + 1
    return offset


def _lines(file: BinaryIO, offset: int, needed: int, more: int) -> bytes | None:
    """`needed` lines and up to `more` after them, the longest cut; None when there are not so many."""
    file.seek(offset)
    lines: list[bytes] = []
    size = 0
    while len(lines) < needed + more and (len(lines) < needed or size < _BYTES_CAP):
        line = file.readline(_LINE_CAP)
        if not line:
            break
        lines.append(line if line.endswith(b"\n") else line + b"\n")
        size += len(line)
        while len(line) == _LINE_CAP and not line.endswith(b"\n"):
            line = file.readline(_LINE_CAP)
    return b"".join(lines) if len(lines) >= needed else None
