"""What a picture tells of each log."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfmon.alignment import Alignment
from perfmon.picture import Freshness, SourceNow
from perfmon.session import Session

from .freshness import stands_at
from .intake import WatchedLog
from .pace import Spacing

_SHARE = 0.01
"""The most of a core that it may take: there may be a thousand logs."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When it is told."""

    clock: float
    """The clock of arrival, in seconds."""
    alignment: Alignment
    over: bool
    """Nothing more will come."""


class Listing:
    """Tells of logs, of very many not with every picture."""

    def __init__(self, session: Session, clock: Callable[[], float] = time.monotonic) -> None:
        self._session, self._clock = session, clock
        self._spacing = Spacing(_SHARE)
        self._told: tuple[SourceNow, ...] = ()

    def told(self, logs: Sequence[WatchedLog], now: Moment, *, live: bool) -> tuple[SourceNow, ...]:
        """The logs as they are; of a run that goes on (`live`), as they were just before if there are very many."""
        began = self._clock()
        if not live or len(logs) != len(self._told) or self._spacing.due(began):
            offsets = {offset.source: offset.seconds for offset in now.alignment.offsets}
            self._told = tuple(self._source(held, now, offsets.get(held.state.index)) for held in logs)
            self._spacing.done(began, self._clock() - began)
        return self._told

    def _source(self, held: WatchedLog, now: Moment, offset_s: float | None) -> SourceNow:
        state, lively, clock = held.state, held.lively, now.clock
        lively.count(clock, state.lines, state.bytes)
        lines_per_s, bytes_per_s = lively.rates()
        names = self._session.scanner.pattern_names
        patterns = {names[at]: count for at, count in sorted(state.patterns.items())}
        packs = sorted({name.partition("/")[0] for name in patterns})
        return SourceNow(
            index=state.index,
            name=held.shown,
            freshness=Freshness.ENDED if now.over else lively.freshness(clock, state),
            format="+".join(packs) or "unknown",
            bytes=state.bytes,
            lines=state.lines,
            events=sum(state.patterns.values()),
            bytes_per_s=bytes_per_s,
            lines_per_s=lines_per_s,
            age_s=None if lively.read_at is None else max(0.0, clock - lively.read_at),
            last=last_of(held, now.alignment),
            errors=state.errors,
            skipped=state.skipped,
            notes=tuple(state.notes),
            patterns=patterns,
            unparsed=held.unparsed.lines,
            offset_s=offset_s,
        )


def last_of(held: WatchedLog, alignment: Alignment) -> float | None:
    """The moment of a log's last line, on the run's axis."""
    last = stands_at(held.state)
    return None if last is None else last + alignment.shifts.get(held.state.index, 0.0)
