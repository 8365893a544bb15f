"""A few lines that no pattern recognised: the doctor shows them, so that a format that is missing can be told."""

from __future__ import annotations

from collections import deque

from perfmon.model import SAME
from perfmon.sources.blocks import Block
from perfmon.sources.scan import Scanned
from perfmon.text import evidence_text

_KEPT = 5
_EVERY_S = 2.0
_LOOKED_AT = 8
"""Lines of a block: some are chatter, some are recognised."""


class Unparsed:
    """Samples of one log; looks at a few lines now and then, never at all."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_KEPT)
        self._next = float("-inf")

    @property
    def lines(self) -> tuple[str, ...]:
        """The newest ones, made safe to show."""
        return tuple(self._lines)

    def look(self, block: Block, scanned: Scanned, clock: float) -> None:
        """Looks at the first lines of a block, when it is time again."""
        if clock < self._next:
            return
        self._next = clock + _EVERY_S
        read = _lines_read(scanned)
        for line, raw in enumerate(block.data[: 1 << 14].split(b"\n")[:_LOOKED_AT], max(block.line, 1)):
            if raw.strip() and not any(first <= line <= last for first, last in read):
                text = evidence_text(raw.decode("utf-8", "replace"))
                if text not in self._lines:
                    self._lines.append(text)
                return


def _lines_read(scanned: Scanned) -> list[tuple[int, int]]:
    """First and last lines of what was recognised; some of the lines that say the same are taken together."""
    read = []
    for pattern, line, _, _, _, observations, _ in scanned.records:
        if pattern >= 0:
            ahead = observations[-1][2] if observations and observations[-1][0] == SAME else 0
            read.append((line, line + ahead))
    return read
