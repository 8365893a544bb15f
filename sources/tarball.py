"""Tar archives read as a stream, up to where they are damaged."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator

from .inflate import BrokenError, Read

_BLOCK = 512
_CHUNK = 1 << 18
_MAX_HEADER = 1 << 20
"""Bytes of an extended header that are believed; names are shorter."""
Member = tuple[str, Iterator[bytes]]


def walk_tar(read: Read) -> Iterator[Member]:
    """(name, contents) of each regular file, in the order of the archive; what is not consumed is skipped.

    Raises BrokenError, also from the contents, where the archive ends too early or is none.
    """
    name: str | None = None
    while True:
        header = _exactly(read, _BLOCK)
        if not header.strip(b"\0"):
            return
        info = _header(header)
        if info.type in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE):
            extended = b"".join(_contents(read, min(info.size, _MAX_HEADER), info.size))
            name = _long_name(info.type, extended) or name
            continue
        contents = _contents(read, info.size, info.size)
        if info.isreg() and info.type != tarfile.GNUTYPE_SPARSE:
            yield name or info.name, contents
        if info.type not in (tarfile.GNUTYPE_LONGLINK, tarfile.XGLTYPE):
            name = None
        for _ in contents:
            pass


def _header(block: bytes) -> tarfile.TarInfo:
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "replace")
    except tarfile.HeaderError:
        raise BrokenError("no tar archive, or corrupt") from None
    if info.type in (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE):
        info.size = 0
    if info.size < 0:
        raise BrokenError("corrupt (negative size)")
    return info


def _contents(read: Read, wanted: int, size: int) -> Iterator[bytes]:
    """The first `wanted` of `size` bytes; the rest and the padding are read over."""
    left = size + -size % _BLOCK
    while left:
        data = read(min(left, _CHUNK))
        if not data:
            raise BrokenError("truncated")
        left -= len(data)
        if wanted:
            yield data[:wanted]
            wanted -= min(wanted, len(data))


def _exactly(read: Read, size: int) -> bytes:
    parts = []
    while size:
        data = read(size)
        if not data:
            raise BrokenError("truncated")
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def _long_name(kind: bytes, extended: bytes) -> str | None:
    """The name in a GNU or pax header; None when it names nothing."""
    if kind == tarfile.GNUTYPE_LONGNAME:
        return extended.rstrip(b"\0").decode("utf-8", "replace")
    while extended:
        length, _, _ = extended.partition(b" ")
        if not length.isdigit() or int(length) <= len(length):
            return None
        key, _, value = extended[len(length) + 1 : int(length) - 1].partition(b"=")
        if key == b"path":
            return value.decode("utf-8", "replace")
        extended = extended[int(length) :]
    return None
