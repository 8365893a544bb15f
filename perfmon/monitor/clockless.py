"""Logs whose lines tell no time at all: while they are watched, their lines are of the moment at which they arrive."""

from __future__ import annotations

import time

from perfmon.axis import seen
from perfmon.items import Block
from perfmon.session import Session
from perfmon.sourcestate import SourceState

_QUIET_S = 10.0
_HEAD_BYTES = 400
NOTE = "no timestamps: using arrival times"


def needs_arrivals(session: Session, state: SourceState) -> bool:
    """Whether nothing but arrivals says when the lines of a log were printed."""
    clock = session.clock(state)
    return clock.by_arrival or (clock.kind is None and clock.last is None)


def moment(session: Session, clock: float, now: float | None) -> float | None:
    """What an arrival at `clock` (seconds since 1970) is on the axis: by the other logs, whose present is `now`.

    None where they tell monotonic times alone: nobody knows how these lie.
    """
    others = [state for state in session.store.sources if state.first is not None and not state.polled]
    if any(state.kind is not None and not session.clock(state).by_arrival for state in others):
        return now
    if any(state.monotonic for state in others):
        return None
    return clock + float(time.localtime(clock).tm_gmtoff or 0)


def arrived(session: Session, state: SourceState, at: float, block: Block | None = None) -> None:
    """What was read of a log by now, `block` last, came `at` that moment, at the latest."""
    session.clock(state).arrived(at)
    state.kind = session.clock(state).kind
    seen(session.store, state, at)
    if state.tail is not None and at - state.tail >= _QUIET_S:
        state.quiet(state.tail, at, state.last_line)
    state.tail = at
    if block is not None:
        last = block.data.rstrip(b"\n").rpartition(b"\n")[2][:_HEAD_BYTES]
        state.last_line = (max(block.line, 1) + max(0, block.data.count(b"\n") - 1), last.decode("utf-8", "replace"))
    state.note(NOTE)
    session.store.version += 1
