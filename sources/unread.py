"""Stretches of a long log that was there already: who scans one reads it, so that not all bytes pass one process."""

from __future__ import annotations

import os
from dataclasses import dataclass

from .accelerator import newlines
from .blocks import MAX_LINE, Block

LOOK = 1 << 10
STRETCH = MAX_LINE - LOOK
"""Bytes of a stretch, up to the end of its last line: so none of its lines is longer than lines may be."""
_COUNTED = 1 << 19


class Unread:
    """An open file of which stretches are handed over, and up to where the lines of these have been counted."""

    def __init__(self, fd: int, offset: int, line: int) -> None:
        """`fd` may be closed before all of them are read; raises OSError."""
        self.fd = -1
        self._at = (offset, line)
        self.fd = os.dup(fd)

    @property
    def line(self) -> int:
        """Number of the first line that was not counted."""
        return self._at[1]

    def passed(self, size: int, lines: int) -> None:
        """The next stretch, of `size` bytes, has so many lines."""
        offset, line = self._at
        self._at = (offset + size, line + lines)

    def line_at(self, offset: int) -> int:
        """Number of the line that begins at `offset`, which is not before what was counted."""
        at, line = self._at
        while at < offset and (data := os.pread(self.fd, min(_COUNTED, offset - at), at)):
            at += len(data)
            line += newlines(data)
        return line

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Whole lines of one file, which nobody has read."""

    unread: Unread
    offset: int
    size: int
    tail: bytes
    """Its last bytes."""

    def read(self) -> bytes:
        """Its bytes; none where the file holds another text by now."""
        return read_stretch(self.unread.fd, self.offset, self.size, self.tail)

    def block(self) -> Block:
        """The same as a block, once all stretches before it were counted; so is this one then."""
        line, data = self.unread.line, self.read()
        self.unread.passed(self.size, newlines(data))
        return Block(data, self.offset, line)


def read_stretch(fd: int, offset: int, size: int, tail: bytes) -> bytes:
    """The bytes of a stretch; none where they do not end as they did when somebody looked."""
    try:
        data = os.pread(fd, size, offset)
    except OSError:
        return b""
    return data if len(data) == size and data.endswith(tail) else b""
