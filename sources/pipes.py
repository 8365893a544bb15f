"""Follows what can be read only once: standard input and named pipes."""

from __future__ import annotations

import asyncio
import os
import stat
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from .blocks import Block, Cutter, Notice
from .files import STDIN, LogFile

_CHUNK = 1 << 16
_MOST_WAITING = 64


class PipeTail:
    """A stream that ends when its writers have gone. Waits in the event loop, so cancelling leaves no thread behind."""

    stdin_fd = 0
    """Where standard input is: elsewhere, when a terminal took its place."""

    def __init__(self, log: LogFile, wake: Callable[[], None]) -> None:
        self.log = log
        self.ended = False
        self.more = False
        self._wake = wake
        self._cutter = Cutter(frames=True)
        self._waiting: deque[bytes] = deque()
        self._fd = -1
        self._reading = False
        self._plain = False

    def look(self) -> bool:
        """Whether `advance` has anything to do."""
        return not self.ended and (self._fd < 0 or self._plain or bool(self._waiting))

    async def advance(self) -> AsyncIterator[tuple[LogFile, Block | Notice]]:
        """What has arrived."""
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
            self.ended = not data
            for item in self._cutter.feed(data) if data else self._cutter.finish():
                named = replace(item, text=f"{self.log.name}: {item.text}") if isinstance(item, Notice) else item
                yield self.log, named
        if self.ended:
            self.close()
        elif not self._reading and not self._plain:
            self._listen()

    def close(self) -> None:
        """Lets go of the pipe."""
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
