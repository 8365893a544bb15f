"""A long history is scanned by two processes: this one does what the other one has no room for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from perfmon.session import Session
from perfmon.sources.beside import Beside, available
from perfmon.sources.blocks import Block
from perfmon.sources.scan import Scanned
from perfmon.sources.unread import Stretch
from perfmon.sourcestate import SourceState

_WORTH_BYTES = 1 << 26
"""A shorter history is read before another process is up."""
_MOST_RECORDS = 20_000
"""So much, of what was scanned here, may wait for what is still scanned there."""
Heard = Callable[[Scanned], object]
"""Called when the session has been told."""


@dataclass(slots=True)
class _Waiting:
    """What was taken of a log, and is told to the session when its turn comes."""

    state: SourceState
    stretch: Stretch | None
    scanned: Scanned | None
    """None: the other process is at it."""
    heard: Heard


class Ahead:
    """Feeds a session with blocks, in their order, while others are being scanned."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._beside: Beside | None = None
        self._tried = False
        self._waiting: deque[_Waiting] = deque()
        self._records = 0

    def take(self, state: SourceState, item: Block | Stretch, left: int, heard: Heard) -> None:
        """The next lines of a log, which are told to the session now or later; `left` bytes of history come behind."""
        if not self._tried and left > _WORTH_BYTES:
            self._begin()
        while self._waiting and self._is_done():
            self._tell()
        if isinstance(item, Block):
            self._keep(state, None, self._session.scan(state, item.data, item.offset, max(item.line, 1)), heard)
        elif not self._session.is_table(state, item.offset) and self._beside is not None and self._beside.offer(item):
            self._waiting.append(_Waiting(state, item, None, heard))
        else:
            self._keep(state, item, self._scanned(state, item), heard)

    def settle(self) -> None:
        """Everything that was taken is told to the session."""
        while self._waiting:
            self._tell()

    def close(self) -> None:
        """The history was read, or nobody wants it any more: ends the other process."""
        self._tried = True
        self._waiting.clear()
        self._drop()

    def _begin(self) -> None:
        self._tried = True
        try:
            self._beside = Beside(self._session.scanner) if available() else None
        except OSError:
            return  # all of it is scanned here, then

    def _scanned(self, state: SourceState, stretch: Stretch) -> Scanned:
        return self._session.scan(state, stretch.read(), stretch.offset, 0)

    def _keep(self, state: SourceState, stretch: Stretch | None, scanned: Scanned, heard: Heard) -> None:
        """What was scanned here waits for what stands before it."""
        self._waiting.append(_Waiting(state, stretch, scanned, heard))
        self._records += len(scanned.records)
        while self._waiting and (self._is_done() or self._records > _MOST_RECORDS):
            self._tell()

    def _is_done(self) -> bool:
        return self._waiting[0].scanned is not None or self._beside is None or self._beside.done()

    def _tell(self) -> None:
        """Tells the session what the first that waits holds."""
        waiting = self._waiting.popleft()
        scanned, stretch, base = waiting.scanned, waiting.stretch, 0
        if scanned is not None:
            self._records -= len(scanned.records)
        elif stretch is not None:
            scanned = None if self._beside is None else self._beside.take()
            if scanned is None:
                self._drop()
                scanned = self._scanned(waiting.state, stretch)
        if scanned is None:
            return
        if stretch is not None:
            base = stretch.unread.line
            stretch.unread.passed(stretch.size, scanned.lines)
        self._session.take(waiting.state, scanned, base)
        waiting.heard(scanned)

    def _drop(self) -> None:
        if self._beside is not None:
            self._beside.close()
            self._beside = None
