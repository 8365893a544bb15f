"""The whole run in one row: how quickly it made its steps, and when alerts were active."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import inf, nan

from perfmon.clocks import Alignment
from perfmon.store import STEP_KINDS, Store

from .state import AlertKey, AlertState, Level, Overview, Transition, Viewport, fitted_span

_FEW = 3
"""Progress that shows a pace."""
_ROUNDED = 1e-6
_REST_S = 2.0
"""The pace of the past changes slowly: it is worked out again after so long."""
_ACTIVE = (AlertState.FIRING, AlertState.ACKED, AlertState.RESOLVING)


class OverviewBuilder:
    """Builds overviews; the paces of one are kept for a moment."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._made: Overview | None = None
        self._ticks: Sequence[Transition] = ()

    def build(
        self, begin: float | None, now: float, columns: int, alignment: Alignment, ticks: Sequence[Transition]
    ) -> Overview | None:
        """The run from `begin` to `now`, both on its axis, in so many columns; None before it has begun.

        For a moment it is the one before, unless alerts have changed.
        """
        if begin is None or now <= begin:
            return None
        made = self._made
        if made is not None and made.viewport.columns == columns and made.begin == begin and ticks == self._ticks:
            grown = fitted_span(now - begin) > made.viewport.end - made.viewport.start + _ROUNDED
            if not grown and 0.0 <= now - made.viewport.end < _REST_S:
                return made
        port = Viewport(now - fitted_span(now - begin), now, columns)
        self._ticks = ticks
        self._made = Overview(port, begin, self._steps(port, alignment), *_alerts(port, ticks, now))
        return self._made

    def _steps(self, port: Viewport, alignment: Alignment) -> Sequence[float]:
        """Steps a second in each column, between those before and behind it."""
        times, counts, shift = self._counted(alignment)
        paces = array("d", [nan] * port.columns)
        if len(times) < _FEW:
            return paces
        for column in range(port.columns):
            low = port.start + column * port.column_s - shift
            high = low + port.column_s
            first, last = bisect_right(times, low) - 1, bisect_left(times, high)
            if high <= times[0]:
                continue
            first = max(first, 0)
            if last >= len(times):  # the next step has not come yet
                last = len(times) - 1
                usual = times[last] - times[last - 1]
                passed = port.end - shift - times[first]
                passed = max(passed, usual) if first == last else passed
                made = max(counts[last] - counts[first], 1.0 if first == last else 0.0)
            else:
                passed, made = times[last] - times[first], counts[last] - counts[first]
            paces[column] = max(0.0, made) / passed if 0.0 < passed < inf else nan
        return paces

    def _counted(self, alignment: Alignment) -> tuple[Sequence[float], Sequence[float], float]:
        """Times of progress on its log's axis, how much there was until then, and what brings them onto the run's.

        It is that of steps, else of what there was most of.
        """
        steps = self._store.steps.get("trainer") or max(self._store.steps.values(), key=len, default=None)
        if steps is not None and len(steps) >= _FEW and steps.steady():
            return steps.times, steps.values, alignment.shifts.get(steps.sources[0], 0.0)
        tracks = [track for track in self._store.progress.tracks.values() if len(track.times) >= _FEW]
        of_steps = [track for track in tracks if track.kind.partition(":")[0] in STEP_KINDS]
        best = max(of_steps or tracks, key=lambda track: track.count, default=None)
        if best is None:
            return (), (), 0.0
        return sorted(best.times), range(len(best.times)), alignment.shifts.get(best.source, 0.0)


def _alerts(port: Viewport, ticks: Sequence[Transition], now: float) -> tuple[bytes, tuple[tuple[float, Level], ...]]:
    """The worst level of active alerts in each column, and when they began."""
    levels = bytearray(port.columns)
    since: dict[AlertKey, tuple[float, Level]] = {}
    spans: list[tuple[float, float, Level]] = []
    starts: list[tuple[float, Level]] = []
    for tick in ticks:
        held = since.get(tick.key)
        if tick.state in _ACTIVE and held is None:
            since[tick.key] = tick.time, tick.level
            starts.append((tick.time, tick.level))
        elif tick.state not in _ACTIVE and held is not None:
            spans.append((held[0], tick.time, held[1]))
            del since[tick.key]
    spans += [(begun, now, level) for begun, level in since.values()]
    for begun, ended, level in spans:
        for column in range(max(0, port.column(begun)), min(port.columns - 1, port.column(ended)) + 1):
            levels[column] = max(levels[column], level)
    return bytes(levels), tuple(starts)
