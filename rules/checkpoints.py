"""Checkpoints of a run: when the last one was written, behind which step, and how many steps came after it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from .runs import last_run_line

if TYPE_CHECKING:
    from .run_view import RunView

_KINDS = ("checkpoint", "checkpoint-write")
"""Kinds of progress that save the run."""
_NEWEST = 64
"""Steps that show which logs report them."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that was written."""

    time: float
    """On the run's axis."""
    source: int
    line: int
    """Line of its log; 0 where only its time is known."""
    step: float | None = None
    """The last step that its log reports before it, or that names it; None where no line reports steps."""
    steps_after: float | None = None
    """Steps since then, up to the last one that the log reports."""


def last_checkpoint(view: RunView, before: float = inf) -> Checkpoint | None:
    """The last checkpoint of the run, at `before` (seconds on its axis) at the latest; None where there is none.

    Without clocks the order of the lines of one log is known, but not that of several logs.
    """
    found = max(_written(view, before), key=lambda one: (one.time, one.line), default=None)
    return None if found is None else _with_steps(found, view)


def _written(view: RunView, before: float) -> Iterator[Checkpoint]:
    """The last checkpoint of each log and kind."""
    for track in view.store.progress.tracks.values():
        if track.kind.partition(":")[0] not in _KINDS or track.last_line < last_run_line(track.source, view):
            continue
        shift = view.shift(track.source)
        if before == inf:
            yield Checkpoint(track.times[-1] + shift, track.source, track.last_line)
        elif at := bisect_right(track.times, before - shift):
            yield Checkpoint(track.times[at - 1] + shift, track.source, track.lines[at - 1])
    for one in reversed(view.store.spans.get("checkpoint-write", ())):
        if one.end is not None and one.end + view.shift(one.source) <= before:
            step = float(one.key) if one.key.isdecimal() and len(one.key) < 16 else None
            yield Checkpoint(one.end + view.shift(one.source), one.source, 0, step)
            break


def _with_steps(found: Checkpoint, view: RunView) -> Checkpoint:
    """The checkpoint with its step: by the lines of its own log where these are known, else by time."""
    last, behind = _steps_around(found, view)
    step = found.step if found.step is not None else behind
    after = None if step is None or last is None or last < step else last - step
    return Checkpoint(found.time, found.source, found.line, step, after)


def _steps_around(found: Checkpoint, view: RunView) -> tuple[float | None, float | None]:
    """The last step of the run, and the last one that was reported before a checkpoint."""
    for series in sorted(view.store.steps.values(), key=lambda one: found.source not in one.sources[-_NEWEST:]):
        own, last = found.source in series.sources[-_NEWEST:], None
        if not own and not view.timed:
            continue
        for at in range(len(series) - 1, -1, -1):
            source = series.sources[at]
            if own and source != found.source:
                continue
            last = series.values[at] if last is None else last
            by_line = own and found.line > 0
            if series.lines[at] <= found.line if by_line else series.times[at] + view.shift(source) <= found.time:
                return last, series.values[at]
        return last, None
    return None, None
