"""Archives of logs (tar, zip, compressed streams): the logs they hold, and their bytes."""

from __future__ import annotations

import bz2
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Protocol

from .spec import HEAD, compression_in, is_bundle, is_log_name

# --- Decompression that gives out all that can be read, however the file is damaged ---

PIECE = 1 << 18
"""Bytes that one step gives out at most (zstd: a few MiB); what a damaged spot costs, too."""
_RAW = 1 << 14

_MEMORY = 1 << 28
"""Bytes that an xz stream may need; the strongest preset needs a quarter of it."""
_FIRST = {"gz": b"\x1f", "bz2": b"B", "xz": b"\xfd", "zst": b"\x28" + bytes(range(0x50, 0x60))}
"""First bytes of a further stream, by compression; zstd has skippable frames, too."""

Read = Callable[[int], bytes]


class BrokenError(Exception):
    """A compressed stream ends or goes wrong here; what was given out before is sound.

    The text is a participle: truncated, corrupt …
    """


class _Member(Protocol):
    def step(self, raw: bytes) -> tuple[bytes, bytes]:
        """(output of at most one piece, raw bytes not yet taken)."""

    @property
    def ended(self) -> bool:
        """The stream's own end was reached."""


def inflate(kind: str, read: Read) -> Iterator[bytes]:
    """The pieces of a stream of kind `gz`, `bz2`, `xz` or `zst`, over all streams that were concatenated.

    Raises BrokenError where a damaged stream ends. Memory stays bounded whatever the ratio.
    """
    member, begun, any_member, raw = _member(kind), False, False, b""
    while True:
        raw = raw or read(_RAW)
        if not begun and any_member:
            raw = raw.lstrip(b"\0")
            if raw and raw[0] not in _FIRST[kind]:
                raise BrokenError("followed by bytes that are not compressed")
        fed = bool(raw)
        try:
            out, raw = member.step(raw)
        except (zlib.error, EOFError, OSError, lzma.LZMAError, ValueError, _zstd_error()) as error:
            yield from _salvaged(member, raw)
            raise BrokenError(f"corrupt ({_message(error)})") from None
        begun = begun or fed
        if out:
            yield out
        if member.ended:
            member, begun, any_member = _member(kind), False, True
        elif not fed and not out:
            if begun or not any_member:
                raise BrokenError("truncated")
            return


class Deflate:
    """A gzip member, or raw deflate data with `wbits` -15; keeps a copy to salvage what stands before damage."""

    def __init__(self, wbits: int = 31) -> None:
        self._stream = zlib.decompressobj(wbits)
        self._before = self._stream

    def step(self, raw: bytes) -> tuple[bytes, bytes]:
        """One piece of output; raises zlib.error at damage."""
        self._before = self._stream.copy()
        out = self._stream.decompress(raw, PIECE)
        return out, self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail

    @property
    def ended(self) -> bool:
        """The stream's own end was reached."""
        return self._stream.eof

    def salvage(self, raw: bytes) -> Iterator[bytes]:
        """Yield the output of the failed piece before the damage, byte by byte."""
        try:
            for value in raw:
                yield self._before.decompress(bytes((value,)))
        except zlib.error:
            return


class _Blocked:
    def __init__(self, stream: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._stream = stream

    def step(self, raw: bytes) -> tuple[bytes, bytes]:
        out = self._stream.decompress(raw, PIECE)
        while not out and not self._stream.needs_input and not self._stream.eof:
            out = self._stream.decompress(b"", PIECE)
        return out, self._stream.unused_data if self._stream.eof else b""

    @property
    def ended(self) -> bool:
        return self._stream.eof


class _Zstd:
    """A zstd frame; takes little at a time, as one step gives out all that its input holds."""

    def __init__(self) -> None:
        import zstandard

        self._stream = zstandard.ZstdDecompressor().decompressobj()

    def step(self, raw: bytes) -> tuple[bytes, bytes]:
        out = self._stream.decompress(raw[:2048]) if raw else b""
        return out, self._stream.unused_data + raw[2048:] if self._stream.eof else raw[2048:]

    @property
    def ended(self) -> bool:
        return self._stream.eof


def _member(kind: str) -> _Member:
    if kind == "gz":
        return Deflate()
    if kind == "bz2":
        return _Blocked(bz2.BZ2Decompressor())
    if kind == "xz":
        return _Blocked(lzma.LZMADecompressor(memlimit=_MEMORY))
    return _Zstd()


def _salvaged(member: _Member, raw: bytes) -> Iterator[bytes]:
    if isinstance(member, Deflate):
        yield b"".join(member.salvage(raw))


def _zstd_error() -> type[Exception]:
    import zstandard

    return zstandard.ZstdError


def _message(error: Exception) -> str:
    """The library's own words, short, without its error numbers."""
    return str(error).rpartition(": ")[2][:80] or type(error).__name__


# --- Tar archives read as a stream, up to where they are damaged ---

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


# --- Zip archives: by their directory where they have one, else by what stands before each file in them ---

_LOCAL = struct.Struct("<4s5H3L2H")
_SIGNATURE = b"PK\x03\x04"
_STREAMED = 0x8
_ENCRYPTED = 0x1
_ZIP_CHUNK = 1 << 16


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
                yield info.filename, _zip_contents(archive, info)


def _zip_contents(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    if info.flag_bits & _ENCRYPTED:
        raise BrokenError("encrypted")
    try:
        with archive.open(info) as file:
            while data := file.read(PIECE):
                yield data
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError) as error:
        raise BrokenError(f"corrupt ({str(error).partition(' for file')[0][:80]})") from None


def _walk_damaged(file: BinaryIO) -> Iterator[Member]:
    """The files of an archive without a directory, as far as each states itself where it ends."""
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
        data = file.read(min(size, _ZIP_CHUNK))
        if not data:
            raise BrokenError("truncated")
        size -= len(data)
        yield data


def _deflated(file: BinaryIO) -> Iterator[bytes]:
    stream, raw = Deflate(-zlib.MAX_WBITS), b""
    while not stream.ended:
        raw = raw or file.read(_ZIP_CHUNK)
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
    """Offset of the next file's header at or after `begin`."""
    file.seek(begin)
    at, kept = begin, b""
    while data := file.read(_ZIP_CHUNK):
        found = (kept + data).find(_SIGNATURE)
        if found >= 0:
            return at - len(kept) + found
        at += len(data)
        kept = (kept + data)[-3:]
    return None


# --- Archives of logs: which logs a tar or zip file holds, and their bytes. Nothing is ever written to disk ---


@dataclass(frozen=True, slots=True)
class Listing:
    """The contents of an archive."""

    logs: tuple[str, ...]
    """Names of the logs in it, sorted; display text, never paths."""
    damage: str | None
    """Damage of the archive, in words: more may have been in it."""
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
