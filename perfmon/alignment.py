"""How the clocks of several logs lie to each other.

Logs without dates are laid over those with dates, by whole days, then by quarter hours (time zones). A log that has
only monotonic `t=` values is tied to another one by the weight updates that both saw. Every complete update bounds a
server's clock against its client's from both sides: nothing is received before it is sent, or done before it is
answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .model import DAYTIME, EPOCH, LOCAL, YEARLESS, TimeBase, Update
from .stats import median
from .store import SourceState, Store

_DAY = 86400.0
_QUARTER = 900.0
_TIGHT_S = 1.0
_ORDER = (EPOCH, LOCAL, YEARLESS, DAYTIME)


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
    """What was assumed, per log."""
    guessed: frozenset[int] = frozenset()
    """Logs whose place on the axis was inferred from nothing but how well they overlap with the others."""


def bounds(update: Update) -> tuple[float, float] | None:
    """Lowest and highest offset of the server's clock that this update allows; None when legs are missing."""
    if update.send_t is None or update.recv_t is None or update.rpc_done_t is None or update.wall_ms is None:
        return None
    # `client.done` has no `t=` of its own, or that of a line before it: its `wall_ms` says when it was done.
    return update.rpc_done_t - update.send_t - update.wall_ms / 1000.0, update.recv_t - update.send_t


def _offset(source: int, client: int, pairs: Sequence[tuple[float, float]]) -> Offset:
    low, high = max(a for a, _ in pairs), min(b for _, b in pairs)
    slack = 1e-3  # `wall_ms` is printed with 0.1 ms, `t=` with 1 us
    contradictory = low > high + slack
    if contradictory:
        middle = median([(a + b) / 2 for a, b in pairs])
        spread = max(abs((a + b) / 2 - middle) for a, b in pairs)
        return Offset(source, client, middle, spread, len(pairs), True)
    if high - low > _TIGHT_S and low <= 0.0 <= high:
        return Offset(source, client, 0.0, max(-low, high), len(pairs), False)
    return Offset(source, client, (low + high) / 2, max(0.0, (high - low) / 2), len(pairs), False)


def clock_offsets(store: Store) -> tuple[Offset, ...]:
    """One offset for each pair of logs that saw the two sides of weight updates."""
    pairs: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for update in store.updates:
        if update.server is None or update.client is None:
            continue
        bound = bounds(update)
        if bound is not None:
            pairs.setdefault((update.server, update.client), []).append(bound)
    return tuple(_offset(server, client, held) for (server, client), held in sorted(pairs.items()))


def align(store: Store) -> Alignment:
    """The axes of all logs laid over each other."""
    offsets = clock_offsets(store)
    dated = [state for state in store.sources if state.kind is not None and state.first is not None]
    monotonic = [state for state in store.sources if state.monotonic and state.first is not None]
    notes: dict[int, str] = {}
    if not dated and not monotonic:
        return Alignment(TimeBase.NONE, {}, offsets, notes)
    shifts: dict[int, float] = {}
    if dated:
        _lay_dated(dated, shifts, notes)
    for state in monotonic:
        shift = _tie(state, store, offsets, shifts, bool(dated), notes)
        if shift:
            shifts[state.index] = shift
    _lay_clockless(store, shifts)
    return Alignment(TimeBase.WALL if dated else TimeBase.MONOTONIC, shifts, offsets, notes)


def _lay_dated(dated: list[SourceState], shifts: dict[int, float], notes: dict[int, str]) -> None:
    dated = sorted(dated, key=lambda s: (_ORDER.index(s.kind if s.kind is not None else EPOCH), s.index))
    best = dated[0].kind
    low = min(state.first or 0.0 for state in dated if state.kind == best)
    high = max(state.last or 0.0 for state in dated if state.kind == best)
    for state in dated:
        if state.kind == best:
            continue
        shift = _laid_over(state, low, high)
        shifts[state.index] = shift
        first, last = (state.first or 0.0) + shift, (state.last or 0.0) + shift
        if min(last, high) < max(first, low):
            notes[state.index] = "its times have no date and share none with the other logs: laid beside them"
        low, high = min(low, first), max(high, last)


def _laid_over(state: SourceState, low: float, high: float) -> float:
    """The shift that makes a log share most time with low..high: whole days if that does, else quarter hours."""
    first, last = state.first or 0.0, state.last or 0.0
    middle = (low + high) / 2 - (first + last) / 2

    def shared(shift: float) -> float:
        return min(last + shift, high) - max(first + shift, low)

    if state.kind == LOCAL:
        days = [0.0]
    else:
        near = round(middle / _DAY) * _DAY
        days = [near - _DAY, near, near + _DAY]
    best = max(days, key=shared)
    if shared(best) > -60.0:
        return best
    if state.kind == LOCAL and abs(middle) > _DAY:
        return 0.0
    zone = round(middle / _QUARTER) * _QUARTER
    return max((zone + step * _QUARTER for step in range(-8, 9)), key=lambda shift: (shared(shift), -abs(shift)))


def _tie(
    state: SourceState,
    store: Store,
    offsets: Sequence[Offset],
    shifts: dict[int, float],
    to_wall: bool,
    notes: dict[int, str],
) -> float:
    """Seconds from a monotonic axis to the run's: through updates shared with another log, or that log's clock."""
    for offset in offsets:
        if offset.source == state.index and offset.client != state.index:
            client = store.sources[offset.client]
            if client.mono_to_wall is not None:
                return client.mono_to_wall + shifts.get(client.index, 0.0) - offset.seconds
            if client.monotonic:
                return shifts.get(client.index, 0.0) - offset.seconds
    if not to_wall:
        return 0.0
    for other in store.sources:
        if other.mono_to_wall is not None:
            notes[state.index] = f"its monotonic clock is taken to be the one of {other.spec}"
            return other.mono_to_wall + shifts.get(other.index, 0.0)
    dated = [s for s in store.sources if s.kind is not None and s.first is not None]
    starts = [(s.first or 0.0) + shifts.get(s.index, 0.0) for s in dated]
    notes[state.index] = "its monotonic clock is tied to no other log: taken to begin with the first one"
    return min(starts, default=0.0) - (state.first or 0.0)


def _lay_clockless(store: Store, shifts: dict[int, float]) -> None:
    starts = [state.first + shifts.get(state.index, 0.0) for state in store.sources if state.first is not None]
    for state in store.sources:
        if state.clockless and starts:
            shifts[state.index] = min(starts)
