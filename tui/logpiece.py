"""Reads a piece of a log back from its file, into a book of its own."""

from __future__ import annotations

from perfmon.errors import InputError
from perfmon.logbook import LogBook, read_back
from perfmon.sources.formats.headers import HeaderReader
from perfmon.sources.timeline import SourceClock
from perfmon.text import plain

_HEAD_BYTES = 400


def piece_of(book: LogBook, source: int, line: int) -> LogBook:
    """The lines around that number of a log, read from its file (blocking).

    Raises InputError, one line, where there is no such file or line.
    """
    name, path = book.names[source], book.path(source)
    if path is None:
        raise InputError(f"{plain(name, 60)}:{line} is no longer buffered, and it has no file to read")
    block = read_back(path, line, name=name)
    piece, clock, headers = LogBook(packs=book.packs), SourceClock(), HeaderReader(book.packs)
    for raw in block.data.split(b"\n"):
        stamp = headers.read(raw[:_HEAD_BYTES].decode("utf-8", "replace"))
        if stamp is not None:
            clock.resolve(stamp, None)
    piece.append(source, name, block, clock, path)
    return piece
