"""The progress of a run: towards its end, or its last step, epoch or episode, in which pass of several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

from perfmon.core import Progress
from perfmon.rules import View
from perfmon.store import COUNTED

from .result import Goal

_FEWEST_A_PASS = 3
"""Values of a counter in each of its passes: one that falls more often is printed by several processes."""


def goal_of(view: View) -> Goal | None:
    """The progress of the run."""
    way = view.way
    if way is None:
        return _reached(view, Counter(boundary.source for boundary in view.boundaries))
    counter, total = way.counter, way.counter.total or 0.0
    ended = view.state.state is Progress.FINISHED
    if counter.kind == "epochs" and not counter.began_at:
        planned = view.store.progress.planned.get((counter.source, "epochs"))
        total = total + 1 if planned == total + 1 else total  # its lines show the last index
        if ended and counter.amount == total - 1:
            return Goal(total, total, counter.kind, 0.0)
    return Goal(counter.amount, total, counter.kind, way.remaining_s)


def _reached(view: View, begun: Mapping[int, int]) -> Goal | None:
    """The progress of a run without a total: its last step, else its last epoch, episode or the like."""
    counters = view.store.progress.counters.values()
    partial = {one.source for one in counters if one.kind == "step" and one.restarts > begun.get(one.source, 0)}
    partial |= {
        source for source in view.store.progress.sources() if _starts_again(source, view) > begun.get(source, 0)
    }
    series = view.store.steps.get("trainer") or max(view.store.steps.values(), key=len, default=None)
    if series is not None and len(series.values) and series.sources[-1] not in partial:
        return Goal(series.values[-1], None, "step")
    found = [one for one in counters if one.kind in COUNTED and one.restarts <= begun.get(one.source, 0)]
    best = min(found, key=lambda one: COUNTED.index(one.kind), default=None)
    return _repeated(view, begun) if best is None else Goal(best.amount, None, best.kind)


def _starts_again(source: int, view: View) -> int:
    """How often the steps of a log begin again, as those of epochs do that no counter shows."""
    most = 0
    for series in view.store.steps.values():
        steps = [step for step, of in zip(series.values, series.sources, strict=True) if of == source]
        begin = max(steps[0], 1.0) if steps else 0.0
        most = max(most, sum(after <= begin < before for before, after in pairwise(steps)))
    return most


def _repeated(view: View, begun: Mapping[int, int]) -> Goal | None:
    """The progress of a run that counts anew for each fold, model or setting: that of the last pass, and its number."""
    log = view.store.progress
    found = []
    for one in log.counters.values():
        passes = 1 + one.restarts - begun.get(one.source, 0)
        track = log.tracks.get((one.source, one.kind))
        if one.kind not in COUNTED[1:] or one.elapsed_s is not None or passes < 2 or track is None:
            continue
        if track.count >= _FEWEST_A_PASS * passes:
            found.append((one, passes))
    if not found:
        return _repeated_steps(view, begun)
    best, passes = max(found, key=lambda row: COUNTED.index(row[0].kind))
    return Goal(best.amount, best.total, best.kind, None, passes)


def _repeated_steps(view: View, begun: Mapping[int, int]) -> Goal | None:
    """The same of steps of which no line states the epoch."""
    series = view.store.steps.get("trainer")
    if series is None or not len(series.values):
        return None
    source = series.sources[-1]
    passes = 1 + _starts_again(source, view) - begun.get(source, 0)
    if passes < 2 or len(series.values) < _FEWEST_A_PASS * passes:
        return None
    return Goal(series.values[-1], None, "step", None, passes)
