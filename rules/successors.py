"""Logs of a run that is over, beside those of one that began after it: their silence means nothing.

A run is over where all of its logs have ended before the first of the others begins. Where a log goes on through both
(a server's), a log is over when another one of its kind has begun after its last line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perfmon.sourcestate import SourceState

if TYPE_CHECKING:
    from .run_view import RunView

_NUMBERS = re.compile(r"[\d._-]+")
_ALIKE = 0.5
"""Share of the patterns of the log that tells less."""
Extent = tuple[float, float, SourceState]


def bygone(states: Sequence[SourceState], shifts: Mapping[int, float]) -> dict[int, float]:
    """Logs whose run is over, by index, with the moment at which it was: nobody waited for their lines any more."""
    extents = _extents(states, shifts)
    if not extents or extents[-1][0] <= min(last for _, last, _ in extents):
        return {}  # all were there at the same time
    gone: dict[int, float] = {}
    runs = _runs(extents)
    for first, last, state in extents:
        if last < runs[-1][0]:
            gone[state.index] = next(high for low, high in runs if low <= first <= high)
        elif any(begin > last and _alike(state, other) for begin, _, other in reversed(extents)):
            gone[state.index] = last
    return gone


def _extents(states: Sequence[SourceState], shifts: Mapping[int, float]) -> list[Extent]:
    """First and last moment of each log, by the first."""
    moved = [
        (state.first + shifts.get(state.index, 0.0), state.last + shifts.get(state.index, 0.0), state)
        for state in states
        if state.first is not None and state.last is not None and not state.polled
    ]
    return sorted(moved, key=lambda extent: extent[0])


def _runs(extents: Sequence[Extent]) -> list[tuple[float, float]]:
    """Stretches between which no log goes on."""
    runs: list[tuple[float, float]] = []
    for first, last, _ in extents:
        if runs and first <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(runs[-1][1], last))
        else:
            runs.append((first, last))
    return runs


def _alike(state: SourceState, other: SourceState) -> bool:
    """They tell the same things, or bear the same name but for its numbers."""
    if state.spec != other.spec and _bare(state.spec) == _bare(other.spec):
        return True
    mine, theirs = state.patterns.keys(), other.patterns.keys()
    return bool(mine and theirs) and len(mine & theirs) >= _ALIKE * min(len(mine), len(theirs))


def _bare(spec: str) -> str:
    return _NUMBERS.sub(" ", spec.rpartition("/")[2])


def bygone_of(view: RunView) -> Mapping[int, float]:
    """The same of all logs of a run."""
    return bygone(view.store.sources, view.shifts)
