"""How lively each log is: rates, age, and whether it still speaks of the present."""

from __future__ import annotations

from collections import deque

from perfmon.picture import Freshness
from perfmon.rules.silence import usual_gap
from perfmon.sourcestate import SourceState
from perfmon.stats import percentile

_RATE_S = 5.0
_LAGGING_S, _STALE_S = 3.0, 10.0
_USUAL = 5.0
"""Times its usual gap that a log may be silent."""
_ARRIVALS = 64
_ENOUGH = 8
_BACK_S = 60.0


class Liveliness:
    """What one log's arrivals tell."""

    def __init__(self) -> None:
        self.read_at: float | None = None
        """When something was last read of it, by the clock of arrival."""
        self._gaps: deque[float] = deque(maxlen=_ARRIVALS)
        self._counts: deque[tuple[float, int, int]] = deque()

    def arrived(self, clock: float, live: bool) -> None:
        """Something was read; `live` when it was written just before."""
        if live and self.read_at is not None:
            self._gaps.append(clock - self.read_at)
        self.read_at = clock

    def written(self, clock: float) -> None:
        """What was read of the past was written at `clock`."""
        self.read_at = clock

    def count(self, clock: float, lines: int, size: int) -> None:
        """Remembers the counters of this moment."""
        self._counts.append((clock, lines, size))
        while len(self._counts) > 2 and clock - self._counts[1][0] >= _RATE_S:
            self._counts.popleft()

    def rates(self) -> tuple[float, float]:
        """Lines and bytes a second over the last seconds."""
        if len(self._counts) < 2:
            return (0.0, 0.0)
        (begin, lines, size), (end, more_lines, more_size) = self._counts[0], self._counts[-1]
        span = max(end - begin, 1e-3)
        return ((more_lines - lines) / span, (more_size - size) / span)

    def freshness(self, clock: float, state: SourceState) -> Freshness:
        """How far the log can be trusted to speak of the present."""
        if state.ended:
            return Freshness.ENDED
        if self.read_at is None:
            return Freshness.WAITING
        age, patience = clock - self.read_at, self.patience_s(state)
        if state.idle_silence or age <= _LAGGING_S:
            return Freshness.FRESH
        if age > patience:
            return Freshness.STALE
        return Freshness.LAGGING if age > max(_LAGGING_S, patience / 2) else Freshness.FRESH

    def patience_s(self, state: SourceState) -> float:
        """Seconds of silence from which on the log is stale: its own rhythm decides."""
        if len(self._gaps) >= _ENOUGH:
            return max(_STALE_S, _USUAL * percentile(sorted(self._gaps), 0.95))
        return max(_STALE_S, _USUAL * usual_gap(state))


def stands_at(state: SourceState) -> float | None:
    """When the last line of a log was printed, on its own axis.

    That is earlier than its latest moment where its clock was set back, or where one line told a wrong time.
    """
    last = state.last
    if last is None or state.tail is None or state.tail >= last - _BACK_S or last == state.ended_at:
        return last
    return state.tail
