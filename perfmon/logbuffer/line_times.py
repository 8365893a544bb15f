"""When a line was printed: its stamp, as the log's clock stood near it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perfmon.core import DAYTIME, EPOCH, LOCAL, YEARLESS, Stamp
from perfmon.sources.formats import HeaderReader, Pack
from perfmon.sources.scan import read_line

from .chunks import Chunk
from .lines import ticks

_DAY = 86400.0
_PERIODS = {DAYTIME: _DAY, YEARLESS: 366 * _DAY}


class Clock(Protocol):
    """What is asked of a log's clock after a block: see `perfmon.sources.clock.SourceClock`."""

    kind: int | None
    last: float | None
    mono_to_wall: float | None


class LineTimer:
    """Reads the times of lines; used by one thread."""

    def __init__(self, packs: Sequence[Pack]) -> None:
        self._headers = HeaderReader(packs)

    def time(self, chunk: Chunk, text: str) -> float | None:
        """Seconds on the log's own axis; None for a line without a clock."""
        if chunk.kind is not None:
            stamp = read_line(text, self._headers)
            if stamp is not None:
                return placed(stamp, chunk.kind, chunk.near)
        if chunk.mono is None:
            return None
        ticked = ticks(text)
        return None if ticked is None else ticked + chunk.mono


def placed(stamp: Stamp, kind: int, near: float) -> float | None:
    """A stamp on the axis of a log whose stamps are of `kind`, at most half a period from `near`."""
    told, seconds = stamp
    if told in (EPOCH, LOCAL):
        return seconds if kind in (EPOCH, LOCAL) else None
    if told not in (kind, DAYTIME):
        return None
    period = _PERIODS[told]
    return seconds + round((near - seconds) / period) * period
