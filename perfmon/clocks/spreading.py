"""Lines without timestamps spread over the time they were printed in: between two with one, or behind the last."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import inf

from perfmon.core import Gap, Shift, median
from perfmon.sources import SourceClock
from perfmon.store import COUNTED, Series, SourceState, Store

_FEWEST = 3
"""So many steps between two timestamps are not all of the time of the first."""
_SAME_S = 1.0
"""Lines up to so long after a timestamp have its time."""
_EXPLAINED = 0.5
"""Share of the time between two timestamps that steps must have taken, where they state what they took."""


def spread_tail(store: Store, clock: SourceClock, state: SourceState, late: float) -> None:
    """Spread the undated lines at the end of a log over the time between its last timestamp and `late` seconds after.

    Frames of bars are dated by what they state.
    """
    tail, (first, _), lines = state.tail or 0.0, state.last_line, state.lines

    def by(time: float, line: int) -> float:
        return late * (line - first) / max(1, lines - first) if line > first and time <= tail + _SAME_S else 0.0

    _spread(store, state.index, by)
    worked = [track.times[-1] for track in store.progress.of(state.index) if len(track.times)]
    state.active_at = max([*worked, state.active_at or tail], default=None)
    if state.idle_since is not None and state.idle_since.upto > first:
        state.idle_since = state.idle_since._replace(end=tail + late)
    state.recorded = state.last = max(state.last or tail, tail + late)
    state.passed = tail + late
    clock.pass_to(tail + late)
    store.version += 1


def spread_gaps(store: Store) -> None:
    """Spread steps without timestamps evenly over the time between the two lines with one that they stand between.

    They are left where they are if they took far less than that, by what they state: when it was is unknown then.
    """
    for state in store.sources:
        gaps = [gap for gap in state.gaps if gap.line >= state.spread_line]
        if not gaps or state.clockless:
            continue
        state.spread_line = max(gap.upto for gap in gaps)
        gaps = [gap for gap in gaps if gap.upto - gap.line > _FEWEST]
        within = _undated_steps(store, state.index, gaps) if gaps else {}
        if not within:
            continue
        gaps = [gap for gap in gaps if gap.line in within]
        begins = [gap.line for gap in gaps]

        def by(
            time: float, line: int, gaps: Sequence[Gap] = gaps, begins: Sequence[int] = begins,
            within: Mapping[int, Sequence[int]] = within,
        ) -> float:  # fmt: skip
            gap = gaps[max(0, bisect_left(begins, line) - 1)]
            if not gap.line < line < gap.upto or time > gap.start + _SAME_S:
                return 0.0
            lines = within[gap.line]
            return (gap.end - gap.start) * bisect_right(lines, line) / (len(lines) + 1)

        _spread(store, state.index, by)
        store.version += 1


def _undated_steps(store: Store, source: int, gaps: Sequence[Gap]) -> dict[int, Sequence[int]]:
    """By the line of its begin, for gaps with several undated steps: the lines of these."""
    tracks = [track for track in store.progress.of(source) if track.kind.partition(":")[0] in COUNTED]
    counted = [(track, track.all_lines()) for track in tracks]
    steps = _rows(store.steps.values(), source)
    stated = _rows([series for (metric, _), series in store.series.items() if metric == "step_s"], source)
    found: dict[int, Sequence[int]] = {}
    for gap in gaps:
        own: Sequence[int] = ()
        for track, lines in counted:
            inside = lines[bisect_right(lines, gap.line) : bisect_left(lines, gap.upto)]
            at = bisect_left(track.lines, gap.upto) - 1
            if len(inside) > len(own) and at >= 0 and track.times[at] <= gap.start + _SAME_S:
                own = inside
        made, took = _between(steps, gap), _between(stated, gap)
        explained = not made or not took or median(took) * (made[-1] - made[0]) >= _EXPLAINED * (gap.end - gap.start)
        if len(own) >= _FEWEST and explained:
            found[gap.line] = own
    return found


def _rows(held: Iterable[Series], source: int) -> list[tuple[int, float]]:
    """Lines and values of one log, in the order of its lines."""
    rows = (zip(one.lines, one.values, one.sources, strict=True) for one in held)
    return sorted((line, value) for line, value, of in chain.from_iterable(rows) if of == source)


def _between(rows: Sequence[tuple[int, float]], gap: Gap) -> list[float]:
    """The values of the lines within a gap."""
    return [value for _, value in rows[bisect_right(rows, (gap.line, inf)) : bisect_left(rows, (gap.upto, -inf))]]


def _spread(store: Store, source: int, by: Shift) -> None:
    """Move what one log has, each by its line; spans end where their last line does."""
    store.move(source, by)
    for span in [*store.all_spans(), *store.opened()]:
        own = [ref.line for ref, _ in span.refs if ref.source == source]
        if span.source != source or not own:
            continue
        if span.start is not None:  # where the first line has a timestamp it stays
            span.start += by(span.start, own[0])
        if span.end is not None:
            span.end += by(span.end, own[-1])
            if span.start is not None and own[0] != own[-1]:
                span.duration_s = span.end - span.start
