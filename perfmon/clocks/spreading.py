"""Lines without timestamps spread over the time they were printed in: between two with one, or behind the last."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, pairwise
from math import inf

from perfmon.core import DAYTIME, EPOCH, LEAP_YEAR_S, YEARLESS, Gap, Shift, median
from perfmon.sources import SourceClock
from perfmon.store import COUNTED, Series, SourceState, Store

_FEWEST = 3
"""So many steps between two timestamps, or behind the last, are not all of the time of the first."""
_SAME_S = 1.0
"""Lines up to so long after a timestamp have its time."""
_EXPLAINED = 0.5
"""Share of the time between two timestamps that steps must have taken, where they state what they took."""

# --- Lines behind the last timestamp: steps, bars, requests of a log whose head alone is dated ---
#
# They were printed between that timestamp and the last write to the file, and where steps state what they took, so long
# before it. The file may be a copy: its last write was later, by any time. Steps that state far less than the time
# between the two show that, and lines of other files that were written at the same moment.

_UNDATED_S = 10.0
"""Nearer to the last timestamp no line is moved."""
_SOON_S = 600.0
"""A file that was written to so soon after what its lines state is no copy."""
_TAIL_LINES = 5
"""Fewer lines than that are the last words of a record."""
_LAST_WORDS = 50
"""A failure so few lines before the end of a log is what it ended with."""
_RARE_S = 300.0
"""Lines that state nothing are not so far apart while they are printed all the time."""
_WRITTEN_S = 120.0
"""A file that was written to so recently may be of a running process."""
_ZONE_S = 1800.0
"""Of a file elsewhere the zone is not known: zones differ by at least as much."""
_TOGETHER_S = 60.0
"""Files of a folder are copied within that time."""
_COPIED_S = 26 * 3600.0
"""Time zones set the time of a line and that of its file no further apart."""
_DAY_S = 86400.0
_LEAP_YEARS = 9
"""Every so many years have a 29th of February."""


def date_tails(
    store: Store, clocks: Mapping[int, SourceClock], written: Sequence[tuple[SourceState, float]],
    local: Collection[int], now: float | None,
) -> dict[int, float]:  # fmt: skip
    """Date the undated lines at the ends of logs by the last writes to their files (seconds since 1970).

    Return by index of the log the time of its last line, on the log's own axis; logs whose lines stay where they are
    are left out. `local`: logs that this machine's clock may have dated. `now`: the present, by the same clock as
    `written`; None where nobody waits for more, and only steps are dated.
    """
    copied = [changed for state, changed in written if state.index in local and _is_older(state, changed)]
    ends: dict[int, float] = {}
    for state, changed in written:
        is_copy = any(abs(changed - other) <= _TOGETHER_S for other in copied)
        end = _end_of(store, state, changed, state.index in local, is_copy, now)
        if end is not None:
            late, rows, by_bars = end
            ends[state.index] = (state.tail or 0.0) + late
            _spread_tail(store, clocks[state.index], state, late, rows, by_bars=by_bars)
    return ends


def _is_older(state: SourceState, written: float) -> bool:
    """True for a log whose last line has a timestamp that is far older than its file."""
    dated = state.kind is not None and state.tail is not None and state.lines <= state.last_line[0]
    return dated and _late(state.kind or 0, state.tail or 0.0, written) > _SOON_S


def _end_of(
    store: Store, state: SourceState, written: float, local: bool, is_copy: bool, now: float | None
) -> tuple[float, Sequence[tuple[int, float]], bool] | None:
    """Seconds from the last timestamp of a log to the last line, and what its steps took; or True: bars date them."""
    tail, first = state.tail, state.last_line[0]
    if state.kind is None or tail is None:
        return None
    lines = _step_lines(store, state.index)
    steps, by_bars = sum(line > first for line in lines), state.bar_line > first
    if steps < _FEWEST and not by_bars and (now is None or state.lines - first < _TAIL_LINES):
        return None
    late, rows = _late(state.kind, tail, written), _stated(store, state.index, first)
    by_bars = by_bars and lines[-1:] <= [state.bar_line + 1]
    rows = [] if by_bars else rows
    stated = (state.last or tail) - tail if by_bars else sum(took for _, took in rows)
    if stated < _UNDATED_S:
        most = 0.0 if is_copy else _most_s(store, state, steps, local, now is not None and now - written <= _WRITTEN_S)
        return (late, [], False) if _UNDATED_S <= late <= most else None
    most = 0.0 if is_copy else max(_SOON_S, stated) if local else _ZONE_S
    believed = _EXPLAINED * stated <= late <= stated + most
    return late if believed else stated, rows, by_bars


def _most_s(store: Store, state: SourceState, steps: int, local: bool, recent: bool) -> float:
    """Seconds that the last write may be later than the last timestamp, if no line between them states a duration."""
    if not local:
        return _ZONE_S
    held, own = state.idle_since, (one for one in store.failures.kept if one.source == state.index)
    seen = steps if held is None else max(steps, held.upto - max(state.last_line[0], held.line))
    if seen >= _TAIL_LINES and not any(max(one.line, one.last_line) > state.lines - _LAST_WORDS for one in own):
        return min(_COPIED_S, max(_SOON_S, seen * _RARE_S))
    return _COPIED_S if recent else _SOON_S


def _late(kind: int, tail: float, written: float) -> float:
    """Seconds from the time of a line, on its log's axis, to the last write to its file; 0 where that was not later."""
    zones = (0.0,) if kind == EPOCH else (float(time.localtime(written).tm_gmtoff or 0), 0.0)
    if kind == DAYTIME:
        times = ((written + zone - tail) % _DAY_S for zone in zones)
        return min((late for late in times if late <= _DAY_S / 2), default=0.0)
    dated = tail if kind != YEARLESS else in_latest_year(tail, written + _COPIED_S)
    return min((late for zone in zones if dated is not None and (late := written + zone - dated) >= 0.0), default=0.0)


def in_latest_year(seconds: float, until: float) -> float | None:
    """Return the latest moment up to `until` with the month, day and time of day of `seconds`, since 1970."""
    try:
        moment, newest = (datetime.fromtimestamp(at, UTC) for at in (seconds + LEAP_YEAR_S, until))
    except (OverflowError, ValueError, OSError):
        return None
    for year in range(newest.year, newest.year - _LEAP_YEARS, -1):
        with suppress(ValueError):  # the 29th of February
            if (found := moment.replace(year=year)) <= newest:
                return found.timestamp()
    return None


def _step_lines(store: Store, source: int) -> list[int]:
    """Lines of the steps of a log, as far as they are kept."""
    tracks = [track for track in store.progress.of(source) if track.kind.partition(":")[0] in COUNTED]
    return sorted({line for track in tracks for line in track.all_lines()})


def _stated(store: Store, source: int, first: int) -> list[tuple[int, float]]:
    """Lines behind `first` that state what a step took, each with the seconds since the one before it."""
    held = [one for (metric, _), one in store.series.items() if metric == "step_s"]
    rows = max((_rows([one], source) for one in held), key=len, default=[])  # of ranks that report the same, one
    rows = [row for row in rows if row[0] > first]
    made = dict(_rows(store.steps.values(), source))
    steps = [made.get(line) for line, _ in rows]
    pairs = ((before, after) for before, after in pairwise(steps) if before is not None and after is not None)
    each = [after - before for before, after in pairs if after > before]
    usual = median(each) if each else 1.0
    return [(line, took * usual) for line, took in rows] if len(rows) >= _FEWEST - 1 else []


def _spread_tail(
    store: Store, clock: SourceClock, state: SourceState, late: float, rows: Sequence[tuple[int, float]],
    *, by_bars: bool,
) -> None:  # fmt: skip
    """Move the lines behind the last timestamp to where they lie before its time and `late` seconds; `rows` state what
    the steps took. Frames of bars are dated by what they state, as are the lines between them (`by_bars`).
    """
    tail, (first, _), lines = state.tail or 0.0, state.last_line, state.lines
    before, scale = late, min(1.0, late / max(1e-9, sum(took for _, took in rows)))
    points = [(lines, late)]
    for line, took in reversed(rows):
        points.append((line, before))
        before -= took * scale
    points = [(first, 0.0), *reversed(points)]
    begins = [line for line, _ in points]

    def by(time: float, line: int) -> float:
        if line <= first or time > tail + _SAME_S or by_bars:
            return 0.0
        at = min(len(points) - 1, max(1, bisect_left(begins, line)))
        (low, since), (high, until) = points[at - 1], points[at]
        return since + (until - since) * min(1.0, (line - low) / max(1, high - low))

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
