"""A long history is scanned by two processes: this one does what the other one has no room for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from perfmon.session import Session
from perfmon.sources.beside import Beside, available
from perfmon.sources.blocks import Block
from perfmon.sources.scan import Scanned
from perfmon.sourcestate import SourceState

_WORTH_BYTES = 1 << 26
"""A shorter history is read before another process is up."""
_MOST_RECORDS = 20_000
"""So much, of what was scanned here, may wait for what is still scanned there."""


@dataclass(slots=True)
class _Waiting:
    """A block whose turn to be told to the session has not come."""

    state: SourceState
    block: Block | None
    """It is with the other process."""
    scanned: Scanned | None = None


class Ahead:
    """Feeds a session with blocks, in their order, while others are being scanned."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._beside: Beside | None = None
        self._tried = False
        self._waiting: deque[_Waiting] = deque()
        self._records = 0

    def take(self, state: SourceState, block: Block, left: int) -> None:
        """The next block of a log, which is told to the session now or later; `left` bytes of history come behind."""
        if not self._tried and left > _WORTH_BYTES:
            self._begin()
        while self._waiting and self._is_done():
            self._tell()
        if self._beside is not None and self._beside.offer(block):
            self._waiting.append(_Waiting(state, block))
            return
        scanned = self._session.scanner.scan(block.data, block.offset, max(block.line, 1))
        self._waiting.append(_Waiting(state, None, scanned))
        self._records += len(scanned.records)
        while self._waiting and (self._is_done() or self._records > _MOST_RECORDS):
            self._tell()

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

    def _is_done(self) -> bool:
        if self._waiting[0].block is None:
            return True
        return self._beside is None or self._beside.done()

    def _tell(self) -> None:
        """Tells the session what the first block that waits holds."""
        waiting = self._waiting.popleft()
        scanned, block = waiting.scanned, waiting.block
        if scanned is not None:
            self._records -= len(scanned.records)
        elif block is not None:
            scanned = None if self._beside is None else self._beside.take()
            if scanned is None:
                self._drop()
                scanned = self._session.scanner.scan(block.data, block.offset, max(block.line, 1))
        if scanned is not None:
            self._session.take(waiting.state, scanned)

    def _drop(self) -> None:
        if self._beside is not None:
            self._beside.close()
            self._beside = None
