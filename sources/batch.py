"""Reads logs that are complete: plain, compressed, members of archives, standard input."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby
from pathlib import Path
from typing import BinaryIO

from perfmon.core import MARKS, Block, InputError, Notice, plain

from .archives import BrokenError, inflate
from .blocks import LineSplitter, in_goes
from .discovery import STDIN, LogFile, in_bundle, in_folder
from .spec import ARCHIVES, HEAD, RECORDING, bundle_in, compression_in, is_binary, utf16_in

_SIZE = 1 << 22
"""Bytes of a block."""
TRUNCATED = "truncated while it was read"
_Item = Block | Notice
_Pieces = Iterator[bytes]


def read_blocks(log: LogFile, size: int = _SIZE) -> Iterator[_Item]:
    """All lines of one log in blocks of about `size` bytes, and notices of what is lost, capped or decoded.

    Never raises for what a file holds: a damaged or unreadable one ends with a "lost" notice, a binary one gives only
    that. Offsets are those of the decompressed text.
    """
    if log.compression == ARCHIVES:
        yield from _unopened(log)
        return
    if log.compression == RECORDING:
        yield from (item for _, item in _recorded({str(log.member): log}, size))
        return
    if log.member is not None:
        for name, contents in _members(log):
            if name == log.member:
                yield from _blocks(log, contents, size)
                yield from _bundle_damage(log)
                return
        yield Notice(f"{log.name}: no longer in its archive", "lost")
        return
    yield from _blocks(log, _file_pieces(log.path, size), size)


def read_logs(logs: Sequence[LogFile]) -> Iterator[tuple[LogFile, _Item]]:
    """The blocks of many logs, one log after the other; an archive is decompressed once for all of its members.

    Logs come in the order of `logs`, members of an archive in its own order.
    """
    for (path, recorded), group in groupby(logs, key=_container):
        if recorded:
            yield from _recorded({str(log.member): log for log in group}, _SIZE)
        elif path is None:
            yield from ((log, item) for log in group for item in read_blocks(log))
        else:
            yield from _bundle_blocks({str(log.member): log for log in group}, _SIZE)


def _container(log: LogFile) -> tuple[Path | None, bool]:
    """(what holds the log with others, whether that is a recording)."""
    return (None if log.member is None else log.path), log.compression == RECORDING


def _recorded(wanted: dict[str, LogFile], size: int) -> Iterator[tuple[LogFile, _Item]]:
    """The items of the logs in a recording, in the order in which they came."""
    from perfmon.recording import open_recording

    last = list(wanted.values())[-1]
    try:
        recording = open_recording(last.path)
        frames = (frame for frame in recording.frames() if frame.log in wanted and not _is_mark(frame.item))
        timed = ((frame.at_s, frame.log, frame.item) for frame in frames)
        yield from ((wanted[name], item) for _, name, item in in_goes(timed, size))
        if recording.note:
            yield last, Notice(recording.note, "lost")
    except InputError as error:
        yield last, Notice(str(error), "lost")


def _is_mark(item: _Item) -> bool:
    return isinstance(item, Notice) and item.kind in MARKS


def _bundle_blocks(wanted: dict[str, LogFile], size: int) -> Iterator[tuple[LogFile, _Item]]:
    last = max(wanted.values(), key=lambda log: str(log.member))
    left = dict(wanted)
    for name, contents in _members(last):
        if name in left:
            log = left.pop(name)
            yield from ((log, item) for item in _blocks(log, contents, size))
    for log in left.values():
        yield log, Notice(f"{log.name}: no longer in its archive", "lost")
    yield from ((last, item) for item in _bundle_damage(last))


def _members(log: LogFile) -> Iterator[tuple[str, _Pieces]]:
    """The members of a log's archive, up to where it is damaged."""
    from .archives import walk

    try:
        yield from walk(log.path)
    except (BrokenError, OSError):
        return


def _bundle_damage(log: LogFile) -> Iterator[Notice]:
    """Yield notices after the last log of an archive: that it is damaged, and what in it is not read."""
    from .archives import listing

    try:
        found = listing(log.path)
    except OSError:
        return
    if log.member != found.logs[-1]:
        return
    archive = log.name.removesuffix(plain(str(log.member))).rstrip(":")
    if found.damage:
        yield Notice(f"{archive}: {found.damage}: the rest is lost", "lost")
    if found.archives:
        yield Notice(f"{archive}: {in_bundle(found)}", "unopened")


def _unopened(log: LogFile) -> Iterator[Notice]:
    message = in_folder(log.path)
    if message:
        yield Notice(f"{log.name}: {message}", "unopened")


def _blocks(log: LogFile, pieces: _Pieces, size: int) -> Iterator[_Item]:
    cutter = LineSplitter()
    damage = ""
    try:
        for item in _texts(pieces, size):
            if isinstance(item, Notice):
                yield replace(item, text=f"{log.name}: {item.text}")
                continue
            yield from _named(log, cutter.feed(item))
    except BrokenError as error:
        damage = str(error)
    except OSError as error:
        damage = f"cannot be read ({error.strerror})"
    yield from _named(log, cutter.finish())
    if damage:
        yield damaged(log.name, damage, cutter.offset)


def damaged(name: str, damage: str, offset: int) -> Notice:
    """The notice for a log that ends too early."""
    return Notice(f"{name}: {damage} after {offset} bytes, the rest is lost", "lost")


def _named(log: LogFile, items: list[_Item]) -> Iterator[_Item]:
    for item in items:
        yield item if isinstance(item, Block) else replace(item, text=f"{log.name}: {item.text}")


def _texts(pieces: _Pieces, size: int) -> Iterator[bytes | Notice]:
    """The text in a file's bytes: decompressed, decoded; a notice alone when it is none."""
    first = next(pieces, b"")
    kind = compression_in(first[:HEAD])
    pieces = chain((first,), pieces)
    if kind:
        from .archives import pulled

        pieces = inflate(kind, pulled(pieces))
    pieces = _gathered(pieces, size)
    first = next(pieces, b"")
    head = first.lstrip(b"\0")[:HEAD]
    codec = utf16_in(head)
    if codec is None and (is_binary(head) or bundle_in(first)):
        yield Notice("binary, not a log: skipped", "lost")
        return
    pieces = chain((first,), pieces)
    if codec:
        yield Notice("UTF-16: read as UTF-8, offsets count its bytes", "decoded")
        pieces = (text.encode() for text in codecs.iterdecode(pieces, codec, "replace"))
    yield from pieces


def _gathered(pieces: _Pieces, size: int) -> _Pieces:
    """Pieces of at least `size` bytes, but the last; all that came before damage comes out before it is raised."""
    parts: list[bytes] = []
    held = 0
    try:
        for piece in pieces:
            if not parts and len(piece) >= size:
                yield piece
                continue
            parts.append(piece)
            held += len(piece)
            if held >= size:
                yield b"".join(parts)
                parts, held = [], 0
    except (BrokenError, OSError):
        if parts:
            yield b"".join(parts)
        raise
    if parts:
        yield b"".join(parts)


def _file_pieces(path: Path, size: int) -> _Pieces:
    with _opened(path) as file:
        promised = 0 if path == STDIN else os.fstat(file.fileno()).st_size
        while data := file.read(max(size, HEAD)):
            yield data
        if file.seekable() and file.tell() < promised:
            raise BrokenError(TRUNCATED)


def _opened(path: Path) -> BinaryIO:
    return open(0, "rb", closefd=False) if path == STDIN else path.open("rb")
