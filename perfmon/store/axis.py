"""Places of lines on the time axis of their log; its extent and its gaps."""

from __future__ import annotations

from collections.abc import Sequence

from perfmon.core import HEAD, SILENCE, UPTIME, Gap, Observation
from perfmon.sources import SourceClock

from .source_state import SourceState
from .store import Store

QUIET_FROM_S = 10.0
"""Silences are kept from this length on."""


def extend_extent(store: Store, state: SourceState, time: float, *, early: bool = True) -> float:
    """Extend the extent of a log; its first clock also dates earlier lines.

    Without `early` not beyond its lines that were read: of those that are only dated most are not, see `record_gap`.
    """
    if early:
        state.recorded = time if state.recorded is None else max(state.recorded, time)
    if state.last is None:
        state.first = state.last = time
        state.clocked = True
        if state.undated:
            store.shift(state.index, time - state.pseudo)
            state.first = time - state.pseudo
    elif early and time > state.last:
        state.last = time
    elif early and state.first is not None and time < state.first:
        state.first = time
    return time


def record_gap(
    state: SourceState,
    clock: SourceClock,
    kind: int,
    time: float,
    ticked: float | None,
    line: tuple[int, str],
    observations: Sequence[Observation],
    line_base: int = 0,
) -> None:
    """Take in a line that is only dated: the first or last one of a block, or the end of a gap.

    `ticked` is its monotonic `t=` if nothing else dates it: ignored in a log whose lines have dates.
    `line_base` is added to line numbers in `observations`.
    """
    if ticked is not None and clock.kind is not None and not clock.by_arrival:
        return
    if kind == SILENCE:
        stamp, mono = observations[0]
        if stamp is not None and stamp[0] == UPTIME:
            mono, stamp = stamp[1], None
        # Of two `t=` the difference counts: the clock would take the earlier one for a restart.
        before = time - (ticked - mono) if stamp is None and ticked is not None else clock.at(stamp, mono)
        if before is not None:
            number, text = observations[1] if len(observations) > 1 else (-line_base, "")
            state.last_silence = (line, (number + line_base, text))
            _add_gap(state, before, time, *state.last_silence)
    elif kind == HEAD:
        # What `t=` alone dates gives way to a date: a block that holds both has only seen the dates.
        if not state.first_text or (state.first_by_ticks and ticked is None):
            (state.first_line, state.first_text), state.first_by_ticks = line, ticked is not None
        if state.tail is not None:
            if time == state.tail:  # as is a line of which the date is doubted
                state.last_silence = (state.last_line, line)
            _add_gap(state, state.tail, time, state.last_line, line)
    else:
        state.tail, state.last_line = time, line
        state.note_line(time, line)
        for stamp, number, text in observations:  # a line before it that is later
            is_ticked = stamp[0] == UPTIME and ticked is not None
            latest = time + stamp[1] - ticked if is_ticked else clock.at(stamp, None)
            if latest is not None:
                state.note_line(latest, (number + line_base, text))
        # Not the latest time ever: a little later ones, of clocks that are finer, are not looked for within blocks.
        state.last = state.latest if state.recorded is None else max(state.recorded, state.latest or state.recorded)


def _add_gap(state: SourceState, since: float, until: float, line: tuple[int, str], upto: tuple[int, str]) -> None:
    """No dated line between the one at `since` and the line `upto`, at `until`: a silence, if that is long."""
    since, line = state.advance_to(since, line)
    if until - since >= QUIET_FROM_S:
        state.add_gap(since, until, line, upto)


def shift_source(store: Store, state: SourceState, clock: SourceClock) -> None:
    """Move what a log has before its first date, or before a date that proved true, and note anomalies."""
    seconds = clock.rebased or 0.0
    clock.rebased = None
    if clock.jumped is not None:
        state.add_gap(*clock.jumped, *state.last_silence)
        store.progress.jumped(state.index, *clock.jumped)
        clock.jumped = None
    if clock.refused:
        state.note("dates more than a day away from neighbouring lines were ignored")
    if not seconds:
        return
    store.shift(state.index, seconds)
    state.shift(seconds)
    (line, text), (upto, next_text) = state.last_silence
    if upto and clock.last is not None:
        state.redated = Gap(clock.last, clock.last, line, text, upto, next_text)
