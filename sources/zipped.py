"""Zip archives: by their directory where they have one, else by what stands before each file in them."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from .inflate import PIECE, BrokenError, Deflate

_LOCAL = struct.Struct("<4s5H3L2H")
_SIGNATURE = b"PK\x03\x04"
_STREAMED = 0x8
_ENCRYPTED = 0x1
_CHUNK = 1 << 16
Member = tuple[str, Iterator[bytes]]


def walk_zip(file: BinaryIO) -> Iterator[Member]:
    """(name, contents) of each file. Raises BrokenError, also from the contents, where the archive is damaged."""
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, OSError, ValueError, struct.error):
        yield from _walk_damaged(file)
        raise BrokenError("truncated, or without its directory") from None
    with archive:
        for info in archive.infolist():
            if not info.is_dir():
                yield info.filename, _contents(archive, info)


def _contents(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    if info.flag_bits & _ENCRYPTED:
        raise BrokenError("encrypted")
    try:
        with archive.open(info) as file:
            while data := file.read(PIECE):
                yield data
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError) as error:
        raise BrokenError(f"corrupt ({str(error).partition(' for file')[0][:80]})") from None


def _walk_damaged(file: BinaryIO) -> Iterator[Member]:
    """The files of an archive without a directory, as far as each says itself where it ends."""
    at = 0
    while True:
        file.seek(at)
        header = file.read(_LOCAL.size)
        if len(header) < _LOCAL.size or not header.startswith(_SIGNATURE):
            return
        _, _, flags, method, _, _, _, packed, _, name_size, extra_size = _LOCAL.unpack(header)
        name = file.read(name_size).decode("utf-8", "replace")
        begin = at + _LOCAL.size + name_size + extra_size
        sized = not flags & _STREAMED
        if not name.endswith("/"):
            yield name, _damaged_contents(file, begin, method, flags, packed if sized else None)
        after = begin + packed if sized else _next_header(file, begin)
        if after is None or after <= at:
            return
        at = after


def _damaged_contents(file: BinaryIO, begin: int, method: int, flags: int, packed: int | None) -> Iterator[bytes]:
    endless = method == zipfile.ZIP_STORED and packed is None
    if flags & _ENCRYPTED or method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or endless:
        raise BrokenError("unreadable without the directory of its archive")
    file.seek(begin)
    yield from _stored(file, packed or 0) if method == zipfile.ZIP_STORED else _deflated(file)


def _stored(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size:
        data = file.read(min(size, _CHUNK))
        if not data:
            raise BrokenError("truncated")
        size -= len(data)
        yield data


def _deflated(file: BinaryIO) -> Iterator[bytes]:
    stream, raw = Deflate(-zlib.MAX_WBITS), b""
    while not stream.ended:
        raw = raw or file.read(_CHUNK)
        fed = bool(raw)
        try:
            out, raw = stream.step(raw)
        except zlib.error:
            yield from stream.salvage(raw)
            raise BrokenError("corrupt") from None
        if out:
            yield out
        elif not fed:
            raise BrokenError("truncated")


def _next_header(file: BinaryIO, begin: int) -> int | None:
    """Where the next file's header stands at or after `begin`."""
    file.seek(begin)
    at, kept = begin, b""
    while data := file.read(_CHUNK):
        found = (kept + data).find(_SIGNATURE)
        if found >= 0:
            return at - len(kept) + found
        at += len(data)
        kept = (kept + data)[-3:]
    return None
