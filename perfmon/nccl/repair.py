"""Rewrites logs that a JSON reader cannot read in one pass: damaged gzip, lines without their header, lines too long.

From format v4.3 on only the `dump_stats` line carries header and metadata, and the lines behind it belong to it by
their position. Each of them is completed here, as text: nothing is parsed that the engine parses later anyway.
"""

from __future__ import annotations

import json
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

LONGEST_LINE = 4 << 20
"""Bytes of the longest line that is kept. Verbose lines have up to 14 KB."""
_CHUNK = 1 << 20
_SNIFFED = 1 << 16
_PIECE = 64
_RECORDS = (b'{"coll_perf"', b'{"p2p_perf"', b'{"proxy_trace"')
_CONTEXT = b'"dump_stats"'


@dataclass(slots=True)
class Repair:
    """Result of rewriting one file."""

    lines: int = 0
    too_long: int = 0
    cut: bool = False
    """The compressed data end early or are damaged: lines behind that are lost."""


def rewrite(source: Path, target: BinaryIO, *, compressed: bool) -> Repair:
    """Write the lines of `source` to `target`, each complete in itself. Raises OSError."""
    done = Repair()
    context = b""
    for line in _lines(_chunks(source, done, compressed=compressed), done):
        done.lines += 1
        line = line.lstrip(b"\0") or line  # noqa: PLW2901 - behind the hole of a log that was emptied in use
        if not line.isascii():
            line = line.decode(errors="replace").encode()  # noqa: PLW2901 - a host name with a damaged byte
        if line.startswith(_RECORDS):
            # Without a context the line stays incomplete, and is counted as such by the engine.
            target.write(context + line[1:] if context else line)
        else:
            if _CONTEXT in line:
                context = _context_of(line)
            target.write(line)
        target.write(b"\n")
    return done


def lines_of(source: Path) -> Iterator[bytes]:
    """The lines of a log, packed or not, without their ends; none of a file that cannot be read."""
    done = Repair()
    try:
        with source.open("rb") as file:
            compressed = file.read(2) == b"\x1f\x8b"
        yield from _lines(_chunks(source, done, compressed=compressed), done)
    except OSError:
        return


def is_positional(source: Path, *, compressed: bool) -> bool:
    """Return true if a line near the beginning has no header of its own."""
    try:
        head = next(_chunks(source, Repair(), compressed=compressed, size=_SNIFFED), b"")
    except OSError:
        return True  # unreadable: the rewriting counts it
    return any(head.startswith(start) or b"\n" + start in head for start in _RECORDS)


def has_invalid_text(source: Path) -> bool:
    """Return true if the text of a file is not UTF-8 or has bytes that are zero, or its compressed data are damaged."""
    decoder, done = getincrementaldecoder("utf-8")(), Repair()
    try:
        with source.open("rb") as file:
            compressed = file.read(2) == b"\x1f\x8b"
        for chunk in _chunks(source, done, compressed=compressed):
            if b"\0" in chunk:
                return True
            if not chunk.isascii() or decoder.getstate()[0]:
                decoder.decode(chunk)
    except UnicodeDecodeError:
        return True
    except OSError:
        return False
    return done.cut


def _context_of(line: bytes) -> bytes:
    """Return header and metadata of a `dump_stats` line as the beginning of an object; b"" if it has none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return b""
    if not isinstance(record, dict) or not all(isinstance(record.get(key), dict) for key in ("header", "metadata")):
        return b""
    held = {key: record[key] for key in ("header", "metadata")}
    return json.dumps(held, separators=(",", ":")).encode()[:-1] + b","


def _chunks(source: Path, done: Repair, *, compressed: bool, size: int = _CHUNK) -> Iterator[bytes]:
    with source.open("rb") as file:
        if not compressed:
            while chunk := file.read(size):
                yield chunk
            return
        decompressor = zlib.decompressobj(31)
        data = b""
        while data or (data := file.read(size)):
            before = decompressor.copy()
            try:
                yield decompressor.decompress(data, size)
            except zlib.error:
                done.cut = True
                yield from _undamaged(before, data)
                return
            data = decompressor.unconsumed_tail
            if decompressor.eof:
                data = decompressor.unused_data or file.read(size)
                if not data:
                    return
                decompressor = zlib.decompressobj(31)  # members of an appended log
        done.cut = True


def _undamaged(decompressor: Any, data: bytes) -> Iterator[bytes]:
    """Text before the damage, in small pieces: the piece that has it gives nothing."""
    for at in range(0, len(data), _PIECE):
        try:
            yield decompressor.decompress(data[at : at + _PIECE])
        except zlib.error:
            return


def _lines(chunks: Iterator[bytes], done: Repair) -> Iterator[bytes]:
    """Cut into lines without their ends; a line that is too long is dropped and counted."""
    held = b""
    dropping = False
    for chunk in chunks:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            if dropping:
                dropping = False
            elif len(held) + len(line) > LONGEST_LINE:
                done.too_long += 1
            elif whole := held + line:
                yield whole
            held = b""
        if not dropping:
            held += rest
            if len(held) > LONGEST_LINE:
                done.too_long += 1
                held, dropping = b"", True
    if held:
        yield held
