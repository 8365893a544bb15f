"""The offsets between the clocks of several logs.

Logs without dates are placed over each other by whole days or years, and kind by kind over those with dates: by whole
days, then by hours and quarter hours (time zones), the same for all logs of a kind. A log that has only monotonic `t=`
values is tied to another one by the weight updates in both. Every complete update bounds a server's clock against its
client's from both sides: nothing is received before it is sent, or done before it is answered.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from perfmon.core import DAYTIME, EPOCH, LOCAL, YEARLESS, TimeBase, Update, format_seconds, median
from perfmon.store import SourceState, Store

# --- The day of a log whose lines have only the time of day, by the last write to its file ---
#
# A file's time is believed where it fits the last line: by the clock of this machine or by UTC, at most ten minutes
# later. Of files that were copied it is the time of the copy: so it counts only where it fits every log of the run that
# it could (those with a date, and those with a time of day); else logs lie where most of them overlap, as without it.

_DAY = 86400.0
_LATE_S, _EARLY_S = 600.0, 60.0
"""Seconds by which the last write to a file may be later, and earlier, than its last line."""


def apply_mtime(state: SourceState, written: float) -> None:
    """Apply the last write to the file of a log (seconds since 1970), once it was read up to there."""
    last = state.last if state.tail is None else state.tail if state.passed is None else state.passed
    if last is None or state.kind not in (EPOCH, LOCAL, DAYTIME):
        return
    zones = (0.0,) if state.kind == EPOCH else (float(time.localtime(written).tm_gmtoff or 0), 0.0)
    for zone in zones:
        late = written + zone - last
        day = round((late - _LATE_S / 2) / _DAY) * _DAY if state.kind == DAYTIME else 0.0
        if -_EARLY_S <= late - day <= _LATE_S:
            state.written_then, state.midnight, state.zone_s = True, day, zone
            return
    state.written_then = False


def dates_known(states: Sequence[SourceState]) -> bool:
    """Return True if the files date all logs without dates; next to dates without a year they do not."""
    judged = [state for state in states if state.kind is not None and state.first is not None]
    return all(state.written_then for state in judged) and any(state.kind == DAYTIME for state in judged)


_HOUR, _QUARTER = 3600.0, 900.0
_NEAR_S = _HOUR
_TOUCH_S = 60.0
_ENOUGH = 0.5
_TIGHT_S = 1.0
_FARTHEST_S, _BEGIN_S, _END_S = 14 * _HOUR, 300.0, 120.0
"""Logs in two zones: how far apart at most, and how exactly they begin and end together."""
_POLL_NEAR_S, _POLL_END_S = 600.0, 30.0
"""Clocks of a run and of its pollers that lie nearer are the same; and how exactly both end, where they differ."""
_ORDER = (EPOCH, LOCAL, YEARLESS, DAYTIME)
_PERIODS = {YEARLESS: (365 * _DAY, 366 * _DAY), DAYTIME: (_DAY,)}
"""Seconds after which times without a year, or without a date, start again."""


@dataclass(frozen=True, slots=True)
class Offset:
    """A server's monotonic clock less its client's, in seconds."""

    source: int
    client: int
    seconds: float
    uncertainty_s: float
    traces: int
    contradictory: bool


@dataclass(frozen=True, slots=True)
class Alignment:
    """Seconds to add to the axis of each log (logs that need none are left out), and what was learned."""

    base: TimeBase
    shifts: dict[int, float]
    offsets: tuple[Offset, ...]
    notes: dict[int, str]
    """Assumptions, per log."""
    guessed: frozenset[int] = frozenset()
    """Logs that were placed on the axis only by their overlap with the others."""


def bounds(update: Update) -> tuple[float, float] | None:
    """Lowest and highest offset of the server's clock that this update allows; None if phases are missing."""
    if update.send_t is None or update.recv_t is None or update.rpc_done_t is None or update.wall_ms is None:
        return None
    # `client.done` has no `t=` of its own, or that of a line before it: its `wall_ms` defines the end.
    return update.rpc_done_t - update.send_t - update.wall_ms / 1000.0, update.recv_t - update.send_t


def _offset(source: int, client: int, pairs: Sequence[tuple[float, float]], dated: float | None) -> Offset:
    """`dated` is the offset by the dates of the lines, if both logs have some."""
    low, high = max(a for a, _ in pairs), min(b for _, b in pairs)
    slack = 1e-3  # `wall_ms` is printed with 0.1 ms, `t=` with 1 us
    contradictory = low > high + slack
    if contradictory:
        middle = median([(a + b) / 2 for a, b in pairs])
        spread = max(abs((a + b) / 2 - middle) for a, b in pairs)
        return Offset(source, client, middle, spread, len(pairs), True)
    if high - low > _TIGHT_S and low <= 0.0 <= high:
        return Offset(source, client, 0.0, max(-low, high), len(pairs), False)
    if high - low > _TIGHT_S and dated is not None and low - _TIGHT_S <= dated <= high + _TIGHT_S:
        # If every update waits long, the middle of the bounds would contain half of each wait.
        best = min(max(dated, low), high)
        return Offset(source, client, best, max(best - low, high - best), len(pairs), False)
    return Offset(source, client, (low + high) / 2, max(0.0, (high - low) / 2), len(pairs), False)


def clock_offsets(store: Store) -> tuple[Offset, ...]:
    """One offset for each pair of logs that saw the two sides of weight updates."""
    pairs: dict[tuple[int, int], list[tuple[float, float]]] = {}
    last: tuple[int | None, int | None] = (None, None)
    held: list[tuple[float, float]] = []
    for update in store.updates:
        server, client = update.server, update.client
        if server is None or client is None:
            continue
        bound = bounds(update)
        if bound is not None:
            if (server, client) != last:
                last, held = (server, client), pairs.setdefault((server, client), [])
            held.append(bound)
    return tuple(
        _offset(server, client, held, _by_dates(store.sources[server], store.sources[client]))
        for (server, client), held in sorted(pairs.items())
    )


def _by_dates(server: SourceState, client: SourceState) -> float | None:
    """The server's monotonic clock less the client's, taking the clocks that date their lines for the same."""
    if server.mono_to_wall is None or client.mono_to_wall is None:
        return None
    return client.mono_to_wall - server.mono_to_wall


def align(store: Store) -> Alignment:
    """Align the axes of all logs."""
    offsets = clock_offsets(store)
    logs = [state for state in store.sources if not state.polled]
    if not any(state.lines for state in logs):
        logs = store.sources
    dated = [state for state in logs if state.kind is not None and state.first is not None]
    monotonic = [state for state in logs if state.monotonic and state.first is not None]
    axis = _Axis(store, offsets)
    if not dated and not monotonic:
        _place_polled(axis, dated, monotonic)
        return Alignment(TimeBase.NONE, axis.shifts, offsets, axis.notes)
    if dated:
        _place_dated(dated, axis)
    for state in monotonic:
        _tie(state, axis)
    _place_clockless(axis)
    _place_polled(axis, dated, monotonic)
    shifts = {index: shift for index, shift in axis.shifts.items() if shift}
    base = TimeBase.WALL if dated else TimeBase.MONOTONIC
    return Alignment(base, shifts, offsets, axis.notes, frozenset(axis.guessed))


def axis_moved(before: Alignment, after: Alignment, known: Iterable[int], own: Mapping[int, float]) -> float:
    """Seconds by which the run's axis moved: the least move of all logs that had been aligned.

    `own`: moves of the axis of a log itself in the meantime.
    """
    moves = [after.shifts.get(index, 0.0) - before.shifts.get(index, 0.0) + own.get(index, 0.0) for index in known]
    moved = min(moves, key=abs, default=0.0)
    return moved if abs(moved) >= _TIGHT_S else 0.0


@dataclass
class _Axis:
    """The logs that have been placed so far."""

    store: Store
    offsets: Sequence[Offset]
    shifts: dict[int, float] = field(default_factory=dict)
    notes: dict[int, str] = field(default_factory=dict)
    guessed: set[int] = field(default_factory=set)

    def extent(self, states: Iterable[SourceState]) -> tuple[float, float]:
        """First and last time of logs that have been placed."""
        spans = [_moved(state, self.shifts.get(state.index, 0.0)) for state in states]
        return min(low for low, _ in spans), max(high for _, high in spans)

    def guess(self, state: SourceState, shift: float, note: str) -> None:
        """Place a log by a guess."""
        self.shifts[state.index] = shift
        self.notes[state.index] = note
        self.guessed.add(state.index)


def _moved(state: SourceState, shift: float) -> tuple[float, float]:
    return (state.first or 0.0) + shift, (state.last or 0.0) + shift


def _shared(span: tuple[float, float], shift: float, low: float, high: float) -> float:
    return min(span[1] + shift, high) - max(span[0] + shift, low)


def _place_dated(dated: list[SourceState], axis: _Axis) -> None:
    """Place kind by kind: all logs of a kind share a zone, so they are moved by the same time of day."""
    placed_logs: list[SourceState] = []
    by_files = dates_known(dated)
    for kind in _ORDER:
        own = [state for state in dated if state.kind == kind]
        if not own:
            continue
        if kind == DAYTIME and by_files:
            _place_by_files(own, placed_logs, axis)
            placed_logs += own
            continue
        if kind in _PERIODS:
            _place_alike(own, _PERIODS[kind], axis)
        if placed_logs:
            _place_kind(kind, own, placed_logs, axis)
        placed_logs += own


def _place_alike(states: Sequence[SourceState], periods: Sequence[float], axis: _Axis) -> None:
    """Logs without dates over the first of them, by whole days or years where that brings them together."""
    axis.shifts[states[0].index] = 0.0
    for at, state in enumerate(states[1:], 1):
        low, high = axis.extent(states[:at])
        span = _moved(state, 0.0)
        steps = [0.0, *(sign * period for period in periods for sign in (1, -1))]
        best = max(steps, key=lambda shift: (_shared(span, shift, low, high), -abs(shift)))
        axis.shifts[state.index] = best if _shared(span, best, low, high) > -_NEAR_S else 0.0


def _place_by_files(states: Sequence[SourceState], placed_logs: Sequence[SourceState], axis: _Axis) -> None:
    """Times of day over dates, or over the first of them, by the days on which their files were written."""
    utc = any(state.kind == EPOCH for state in placed_logs)
    begin = 0.0 if placed_logs else states[0].midnight
    for state in states:
        axis.shifts[state.index] = state.midnight - begin - (state.zone_s if utc else 0.0)
    newest = max(_moved(state, axis.shifts.get(state.index, 0.0))[0] for state in (*states, *placed_logs))
    for state in states:
        before = newest - _moved(state, axis.shifts[state.index])[1]
        if before > _HOUR:
            ended = format_seconds(before)
            axis.notes[state.index] = (
                f"timestamps without date: dated by the file, it ended {ended} before the others start"
            )


def _place_kind(kind: int, own: Sequence[SourceState], placed_logs: Sequence[SourceState], axis: _Axis) -> None:
    """Place all logs of a kind over those placed before, by the same time; whole days before zones."""
    low, high = axis.extent(placed_logs)
    span = axis.extent(own)
    middle = (low + high) / 2 - (span[0] + span[1]) / 2
    near = 0.0 if kind == LOCAL else round(middle / _DAY) * _DAY
    days = [near] if kind == LOCAL else [near, near - _DAY, near + _DAY]
    shift = max(days, key=lambda day: _shared(span, day, low, high))
    zone = 0.0
    if _shared(span, shift, low, high) <= -_TOUCH_S and not (kind == LOCAL and abs(middle) > _DAY):
        zone = _zone(span, near, low, high)
        shift = near + zone
    elif zone := _zone_of_long(span, shift, low, high):
        shift += zone
    apart = _shared(span, shift, low, high) < 0.0
    for state in own:
        total = axis.shifts.get(state.index, 0.0) + shift
        if apart:
            axis.guess(state, total, "timestamps without date, no overlap with the other logs: aligned to them")
        elif zone:
            offset = format_seconds(abs(zone))
            behind = "behind" if zone > 0 else "ahead of"
            axis.guess(
                state, total, f"timestamps without time zone: assumed to be {offset} {behind} the other logs (inferred)"
            )
        else:
            axis.shifts[state.index] = total


def _zone(span: tuple[float, float], day: float, low: float, high: float) -> float:
    """The zone by which a log shares most time with low..high: whole hours if one does well, else quarter hours."""

    def best(step: float) -> float:
        zones = [sign * count * step for count in range(int(_DAY / step) + 1) for sign in (1, -1)]
        return max(zones, key=lambda zone: (_shared(span, day + zone, low, high), -abs(zone)))

    hours, quarters = best(_HOUR), best(_QUARTER)
    enough = _ENOUGH * min(span[1] - span[0], high - low)
    return hours if _shared(span, day + hours, low, high) >= enough else quarters


def _zone_of_long(span: tuple[float, float], shift: float, low: float, high: float) -> float:
    """Of logs that are longer than the zone is wide, which overlap as they are: the hours by which both ends lie apart.

    That both do so by chance is unlikely; a zone that was plain in the first hours must not vanish in the next ones.
    """
    begins, ends = low - span[0] - shift, high - span[1] - shift
    zone = round(ends / _HOUR) * _HOUR
    apart = abs(zone) <= _FARTHEST_S and abs(ends - zone) <= _END_S and abs(begins - zone) <= _BEGIN_S
    return zone if apart else 0.0


def _tie(state: SourceState, axis: _Axis) -> None:
    """Place a monotonic axis: through updates shared with another log, or that log's clock, else by a guess."""
    store, shifts = axis.store, axis.shifts
    for offset in axis.offsets:
        if offset.source == state.index and offset.client != state.index:
            client = store.sources[offset.client]
            if client.mono_to_wall is not None or (client.monotonic and client.first is not None):
                shifts[state.index] = (client.mono_to_wall or 0.0) + shifts.get(client.index, 0.0) - offset.seconds
                return
    servers = [offset for offset in axis.offsets if offset.client == state.index and offset.source in shifts]
    if servers:
        shifts[state.index] = shifts[servers[0].source] + servers[0].seconds
        return
    placed_logs = [other for other in store.sources if other.first is not None and other.index in _placed_indices(axis)]
    if not placed_logs:
        shifts[state.index] = 0.0
        return
    low, high = axis.extent(placed_logs)
    for other in placed_logs:
        to_axis = 0.0 if other.monotonic else other.mono_to_wall
        if to_axis is None:
            continue
        shift = to_axis + shifts.get(other.index, 0.0)
        if _shared(_moved(state, 0.0), shift, low, high) >= 0.0:
            axis.guess(state, shift, f"monotonic clock assumed to be that of {other.spec}")
            return
    note = "monotonic clock not tied to another log: assumed to start with the first log"
    axis.guess(state, low - (state.first or 0.0), note)


def _placed_indices(axis: _Axis) -> set[int]:
    dated = {state.index for state in axis.store.sources if state.kind is not None and not state.polled}
    return dated | axis.shifts.keys()


def _place_clockless(axis: _Axis) -> None:
    placed_logs = [state for state in axis.store.sources if state.first is not None and not state.clockless]
    placed_logs = [state for state in placed_logs if not state.polled] or placed_logs
    for state in axis.store.sources:
        if state.clockless and placed_logs:
            axis.shifts[state.index] = axis.extent(placed_logs)[0]
            axis.guessed.add(state.index)


def polled_ahead(gap: float, known: float | None, *, undated: bool = False) -> float:
    """By how much the run's clock is ahead of a poller's that are `gap` seconds apart: as before where that still
    holds, else nothing, the hours between two zones and, of `undated` logs, whole days or years, or, of monotonic and
    made-up times, just so much."""
    if known is not None and abs(gap - known) <= _POLL_NEAR_S:
        return known
    if abs(gap) <= _POLL_NEAR_S:
        return 0.0
    zone = round(gap / _QUARTER) * _QUARTER
    possible = abs(zone) <= _FARTHEST_S or undated
    return zone if possible and abs(gap - zone) <= _END_S else gap


def _place_polled(axis: _Axis, dated: Sequence[SourceState], monotonic: Sequence[SourceState]) -> None:
    """Place pollers over the run: they were polled while it was observed, so both end together.

    In a recording, which was not observed live, a zone is believed only where both ends differ by whole hours.
    """
    polled = [state for state in axis.store.sources if state.polled and state.first is not None]
    placed_logs = [*dated, *monotonic]
    if not polled or any(state.polled for state in placed_logs):
        return
    if not placed_logs:  # the run has durations only
        begin = min(state.first or 0.0 for state in polled)
        axis.shifts.update({state.index: -begin for state in polled})
        return
    end, newest = axis.extent(placed_logs)[1], max(state.last or 0.0 for state in polled)
    zone = round((end - newest) / _HOUR) * _HOUR
    alike = abs(zone) <= _FARTHEST_S and abs(end - newest - zone) <= _POLL_END_S
    found = end - newest if not dated else zone if alike else 0.0
    for state in polled:
        axis.shifts[state.index] = found if state.ahead_s is None else state.ahead_s
