"""Files and pipes read while they grow."""

from __future__ import annotations

import asyncio
import math
import os
import re
import stat
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from perfmon.core import Block, Notice

from ..blocks import UNFINISHED_S, LineSplitter, newlines
from ..discovery import STDIN, LogFile

# --- One file being read while it grows: where reading stands, and whether it is still the same text ---

CHUNK = 1 << 19
_LOOK = 1 << 10
"""Bytes behind a chunk in which its last line ends."""
HEAD_SIZE, TAIL_SIZE = 256, 64
"""Bytes by which a text is recognised."""
_ROOM = 1 << 12
_DATED = re.compile(rb"\d\d?:\d\d:\d\d|\d{10}")

Identity = tuple[int, int]
"""Device and inode: what stays when a file is renamed."""


def identity_of(state: os.stat_result) -> Identity:
    """Device and inode of a file."""
    return state.st_dev, state.st_ino


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The first bytes of a text and those before a position in it: they identify the text, in a copy of it, too."""

    head: bytes
    tail: bytes
    position: int

    def extended(self, data: bytes) -> Fingerprint:
        """Return the fingerprint of the text with the bytes that follow."""
        if not data:
            return self
        head = self.head if len(self.head) == HEAD_SIZE else (self.head + data[:HEAD_SIZE])[:HEAD_SIZE]
        return Fingerprint(head, (self.tail + data[-TAIL_SIZE:])[-TAIL_SIZE:], self.position + len(data))

    @property
    def distinct(self) -> bool:
        """No later text of this log begins like that: it is long, or has a time. First words come with each start."""
        return self.position >= HEAD_SIZE + TAIL_SIZE or _DATED.search(self.head) is not None

    def fits(self, fd: int) -> bool:
        """True if the open file begins with this text up to its position."""
        at = self.position - len(self.tail)
        return os.pread(fd, len(self.head), 0) == self.head and os.pread(fd, len(self.tail), at) == self.tail

    def may_fit(self, fd: int) -> bool | None:
        """`fits`, of a file that is still being written; None while it is too short to know."""
        size = os.fstat(fd).st_size
        if size >= self.position:
            return self.fits(fd)
        return None if self.head.startswith(os.pread(fd, len(self.head), 0)) else False


EMPTY: Fingerprint = Fingerprint(b"", b"", 0)


class Stream:
    """A file that is open under whatever name it has; its blocks continue where they ended when it is opened again."""

    def __init__(self, path: Path) -> None:
        """Open `path`; raises OSError."""
        self._file: BinaryIO | None = open(path, "rb", buffering=0)  # noqa: SIM115  held open across renames
        self.path = path
        """The name under which it is followed."""
        self.identity = identity_of(os.fstat(self._file.fileno()))
        self.owner: object | None = None
        """The follower of the file; None when it may be taken over."""
        self.ignored = False
        """Its contents are no log text: read over."""
        self.restart()

    def restart(self) -> None:
        """Start over: the file holds another text."""
        self.print = EMPTY
        self.cutter = LineSplitter(frames=True)
        self.at_end = False
        """The last read reached the end of the file."""
        self.known_size = 0
        """Bytes that the file had when it was looked at last."""
        self.known_changed_ns = 0
        """Its modification time then."""
        self.grown_at = math.inf
        """When it was last found to have grown, by the clock of the follower."""
        self._seen = (-1, -1)

    def reopen(self, path: Path) -> bool:
        """Open the file again after `close`; False when `path` is another file by now, or holds another text."""
        file = open(path, "rb", buffering=0)  # noqa: SIM115
        if identity_of(os.fstat(file.fileno())) != self.identity or not self.print.fits(file.fileno()):
            file.close()
            return False
        self._file = file
        return True

    def goes_on(self, old: Stream) -> bool:
        """Go on where `old` ended, if this file is a copy of it with new lines: rsync and editors replace logs so.

        They leave the old file without a name; a rotation leaves it one, and a link that is pointed elsewhere, too.
        """
        known = old.print
        if old.linked or self.print.position > known.position or not known.distinct or not known.fits(self.fd):
            return False
        self.print, self.cutter, self.ignored = known, old.cutter, old.ignored
        return True

    def close(self) -> None:
        """Close the file; what was read stays known."""
        self.owner = None
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def fd(self) -> int:
        """Descriptor of the open file."""
        assert self._file is not None  # noqa: S101
        return self._file.fileno()

    @property
    def linked(self) -> bool:
        """The open file has a name."""
        return os.fstat(self.fd).st_nlink > 0

    def changed_at_ns(self) -> int:
        """Modification time of the file."""
        return os.fstat(self.fd).st_mtime_ns

    @property
    def read_to_ns(self) -> int:
        """Modification time of the file when all of it was read, else its present one."""
        return self._seen[1] if self._seen[1] >= 0 else self.changed_at_ns()

    def size(self) -> int:
        """Bytes that the file has now."""
        state = os.fstat(self.fd)
        self.known_size, self.known_changed_ns = state.st_size, state.st_mtime_ns
        return self.known_size

    def quiet(self) -> bool:
        """True if the file was not written to since all of it was read."""
        state = os.fstat(self.fd)
        self.known_changed_ns = state.st_mtime_ns
        return (state.st_size, state.st_mtime_ns) == self._seen

    def read_at(self, now: float) -> tuple[bytes, bool]:
        """Return what `read` does; what was there before the first end was reached grew when it was last written."""
        old = self._seen == (-1, -1)
        data, replaced = self.read()
        if data:
            self.grown_at = now - (max(0.0, time.time() - self.changed_at_ns() / 1e9) if old else 0.0)
        return data, replaced

    def unfinished(self, now: float) -> bool:
        """True if its last line has waited for its end for too long."""
        return self.cutter.unfinished and not self.ignored and now - self.grown_at >= UNFINISHED_S

    def skip_history(self, keep: int = 0) -> None:
        """Advance to the last line that is there, counting the lines before it; or to the last `keep` bytes."""
        if keep:
            self._skip_to(keep)
            return
        at, lines, position = 0, 0, 0
        while data := os.pread(self.fd, CHUNK, position):
            lines += newlines(data)
            end = data.rfind(b"\n") + 1
            at = position + end if end else at
            position += len(data)
        self.cutter = LineSplitter(offset=at, line=lines + 1, frames=True)
        self._stand_at(at)

    def _skip_to(self, keep: int) -> None:
        begin = self.size() - keep
        if begin <= 0:
            return
        while data := os.pread(self.fd, CHUNK, begin):
            if end := data.find(b"\n") + 1:
                self.cutter = LineSplitter(offset=begin + end, frames=True, counted=False)
                self._stand_at(begin + end)
                return
            begin += len(data)

    def _stand_at(self, at: int) -> None:
        size = min(TAIL_SIZE, at)
        self.print = Fingerprint(os.pread(self.fd, min(HEAD_SIZE, at), 0), os.pread(self.fd, size, at - size), at)

    def read(self) -> tuple[bytes, bool]:
        """(the next bytes, whether the text has been replaced after them: truncated or rewritten)."""
        before = os.fstat(self.fd)
        position, size = self.print.position, CHUNK
        if before.st_size - position > CHUNK:  # up to the end of a line: what is whole need not be put together
            size += os.pread(self.fd, _LOOK, position + CHUNK).find(b"\n") + 1
        # Room for what is there, and for some that comes in the meantime: large buffers are expensive to make and free.
        room = min(size, max(0, before.st_size - position) + _ROOM)
        data = os.pread(self.fd, room, position)
        self.at_end = len(data) < room
        return self._checked(data, before)

    def _checked(self, data: bytes, before: os.stat_result) -> tuple[bytes, bool]:
        """Look after reading if the text was replaced before, during or since."""
        position = self.print.position
        same = self.size() >= position + len(data) and self.print.fits(self.fd)
        if not same and data and os.pread(self.fd, len(data), position) == data:
            return b"", True  # these bytes are of the new text, which is read from its start
        self.print = self.print.extended(data)
        if self.at_end and same:
            self._seen = (before.st_size, before.st_mtime_ns)
        return data, not same


# --- Follows what can be read only once: standard input and named pipes ---

_CHUNK = 1 << 16
_MOST_WAITING = 64


class PipeTail:
    """A stream that ends when its writers have gone. Waits in the event loop, so cancelling leaves no thread behind."""

    stdin_fd = 0
    """Descriptor of standard input: another one when a terminal took its place."""

    def __init__(self, log: LogFile, wake: Callable[[], None]) -> None:
        self.log = log
        self.ended = False
        self.more = False
        self._wake = wake
        self._grown_at = math.inf
        self.cutter = LineSplitter(frames=True)
        self._waiting: deque[bytes] = deque()
        self._fd = -1
        self._reading = False
        self._plain = False

    def look(self) -> bool:
        """True if `advance` has anything to do."""
        fresh = self._fd < 0 or self._plain or bool(self._waiting)
        return not self.ended and (fresh or self._unfinished())

    def _unfinished(self) -> bool:
        return self.cutter.unfinished and time.monotonic() - self._grown_at >= UNFINISHED_S

    async def advance(self) -> AsyncIterator[tuple[LogFile, Block | Notice]]:
        """Yield what has arrived."""
        if self._fd < 0:
            self._open()
        if self._plain:
            try:
                self._arrived(await asyncio.to_thread(os.read, self._fd, _CHUNK * 16))
            except OSError as error:  # closed by the shell (`<&-`), or a disk that fails
                yield self.log, Notice(f"{self.log.name}: cannot be read ({error.strerror}), the rest is lost", "lost")
                self._arrived(b"")
        self.more = self._plain
        while self._waiting and not self.ended:
            data = self._waiting.popleft()
            self.ended, self._grown_at = not data, time.monotonic()
            for item in self.cutter.feed(data) if data else self.cutter.finish():
                named = replace(item, text=f"{self.log.name}: {item.text}") if isinstance(item, Notice) else item
                yield self.log, named
        for item in self.cutter.release() if self._unfinished() else ():
            yield self.log, item
        if self.ended:
            self.close()
        elif not self._reading and not self._plain:
            self._listen()

    def close(self) -> None:
        """Release the pipe."""
        self._pause()
        if self._fd > 0:
            os.close(self._fd)
        self._fd, self.ended, self.more = -1, True, False

    def _open(self) -> None:
        self._fd = self.stdin_fd if self.log.path == STDIN else os.open(self.log.path, os.O_RDONLY | os.O_NONBLOCK)
        self._plain = stat.S_ISREG(os.fstat(self._fd).st_mode)

    def _listen(self) -> None:
        try:
            asyncio.get_running_loop().add_reader(self._fd, self._readable)
        except PermissionError:  # nothing that one could wait for: /dev/null
            self._plain = self.more = True
            return
        self._reading = True

    def _pause(self) -> None:
        if self._reading:
            asyncio.get_running_loop().remove_reader(self._fd)
            self._reading = False

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._arrived(data)
        if not data or len(self._waiting) >= _MOST_WAITING:
            self._pause()
        self._wake()

    def _arrived(self, data: bytes) -> None:
        self._waiting.append(data)
