"""What was told to begin and not to end: while it may still go on, nobody is accused of waiting for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perfmon.model import LEGS

from .in_flight import Way, way

if TYPE_CHECKING:
    from .run_view import RunView

_DONE = 1 << LEGS.index("client.done")
_UPDATE = "weight-update"
LONGEST_S = 1800.0
"""After that its end was lost."""


def begun(view: RunView) -> Mapping[str, Sequence[float]]:
    """When those began that have not ended, by kind of span, on the run's axis."""
    starts: dict[str, list[float]] = {}
    for span in view.store.opened():
        if span.start is not None:
            starts.setdefault(span.kind, []).append(span.start + view.shifts.get(span.source, 0.0))
    if view.store.updates:
        starts[_UPDATE] = _sent(view)
    return starts


def _sent(view: RunView) -> list[float]:
    """Updates that were sent and not done, and none to the same server after them was."""
    newest: dict[Way, float] = {}
    for update in view.store.updates:
        if update.end is not None and update.start is not None:
            newest[way(update)] = max(newest.get(way(update), update.start), update.start)
    return [
        update.start + view.shifts.get(update.source, 0.0)
        for update in view.store.updates
        if update.start is not None
        and update.end is None
        and not update.legs & _DONE
        and update.start >= newest.get(way(update), update.start)
    ]
