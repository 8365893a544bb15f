"""A few lines that no pattern recognised: the doctor shows them, so that a format that is missing can be told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from perfmon.sources.blocks import Block
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

    def look(self, block: Block, clock: float, recognised: Callable[[bytes], bool]) -> None:
        """Looks at the first lines of a block, when it is time again."""
        if clock < self._next:
            return
        self._next = clock + _EVERY_S
        for raw in block.data[: 1 << 14].splitlines()[:_LOOKED_AT]:
            if raw.strip() and not recognised(raw):
                text = evidence_text(raw.decode("utf-8", "replace"))
                if text not in self._lines:
                    self._lines.append(text)
                return
