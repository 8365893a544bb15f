"""Decompression that gives out all that can be read, however the file is damaged."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

PIECE = 1 << 18
"""Bytes that one step gives out at most (zstd: a few MiB); what a damaged spot costs, too."""
_RAW = 1 << 14

_MEMORY = 1 << 28
"""Bytes that an xz stream may ask for; the strongest preset asks for a quarter of it."""
_FIRST = {"gz": b"\x1f", "bz2": b"B", "xz": b"\xfd", "zst": b"\x28" + bytes(range(0x50, 0x60))}
"""What a further stream may begin with; zstd has skippable frames, too."""

Read = Callable[[int], bytes]


class BrokenError(Exception):
    """A compressed stream ends or goes wrong here; what was given out before is sound.

    The text is a participle: truncated, corrupt …
    """


class _Member(Protocol):
    """One compressed stream within a file."""

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
            raise BrokenError(f"corrupt ({_said(error)})") from None
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
        """What the piece that failed holds before the damage, byte by byte."""
        try:
            for value in raw:
                yield self._before.decompress(bytes((value,)))
        except zlib.error:
            return


class _Blocked:
    """A bz2 or xz stream."""

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


def _said(error: Exception) -> str:
    """The library's own words, short, without its error numbers."""
    return str(error).rpartition(": ")[2][:80] or type(error).__name__
