"""How far a run is, how long it takes still, and how long it may: the limit that a scheduler or the user has set."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmon.model import Fields, Ref
from perfmon.progress import WorkCounter
from perfmon.units import format_seconds

from .finished import over_at
from .items import START_KINDS, Item
from .nested import inner_of
from .runs import boundaries, run_began
from .tries import death_of_run

if TYPE_CHECKING:
    from .run_view import RunView

LIMIT, DEADLINE = "time_limit_s", "deadline_at"
"""Metrics: how long a run may last from its begin, and until when, on the clock of the log that tells it."""
LIMIT_VALUES = ("needs_s", "left_s", "short_s")
_LEAST_MADE, _LEAST_TOOK_S = 10.0, 120.0
"""The first steps compile and fill caches: what they took says nothing of the others."""
_CLOSE = 1.1
"""An estimate that is a tenth too long is no news."""
_BEFORE_S = 600.0
"""A script tells its limit, or a scheduler the job, before the run prints its own first line."""


@dataclass(frozen=True, slots=True)
class Way:
    """How far a counter is, and how long it takes still at its usual speed, or as its own line says."""

    counter: WorkCounter
    remaining_s: float | None
    proven: bool
    """It has gone far enough for the time that remains to be believed."""


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """How long a run may last."""

    left_s: float
    """From the end of what is observed; below 0: it is over."""
    source: int
    line: int
    offset: int
    text: str


def way_of(view: RunView) -> Way | None:
    """How far the run is, by the counter of its steps that goes furthest.

    One that began anew within a run counts a part of it: an epoch, the rollouts of one batch; so does one that counts
    within another.
    """
    begun = Counter(boundary.source for boundary in view.fact(boundaries))
    counters = [
        counter
        for counter in view.store.progress.counters.values()
        if counter.total
        and counter.restarts <= begun[counter.source]
        and counter.kind not in START_KINDS
        and not view.store.sources[counter.source].idle_silence
        and id(counter) not in view.fact(inner_of)
    ]
    counters = [counter for counter in counters if counter.kind == "step"] or counters
    if not counters:
        return None
    best = max(counters, key=lambda counter: (counter.total or 0.0, counter.time))
    left = max(0.0, (best.total or 0.0) - best.amount)
    made, took = best.amount - best.first_amount, best.time - best.first
    if best.elapsed_s is not None and best.first_elapsed_s is not None:  # its own clock knows better than its lines'
        took = best.elapsed_s - best.first_elapsed_s
    remaining = left * took / made if made > 0 and took > 0 else best.remaining_s
    if left and view.fact(death_of_run) is not None:  # it does not go on
        remaining = None
    return Way(best, remaining if left else 0.0, made >= _LEAST_MADE and took >= _LEAST_TOOK_S)


def limit_of(view: RunView) -> TimeLimit | None:
    """The limit of the last run, where a line tells one; of several the first that is reached."""
    now, began = view.whole[1], view.fact(run_began)
    found: list[TimeLimit] = []
    for (metric, _), series in view.store.series.items():
        if metric not in (LIMIT, DEADLINE):
            continue
        for at in range(len(series)):
            source = series.sources[at]
            shift = view.shifts.get(source, 0.0)
            if series.times[at] + shift < began - _BEFORE_S:
                continue  # an earlier run's
            until = began + series.values[at] if metric == LIMIT else series.values[at] + shift
            if until > began and (metric == LIMIT or view.timed):
                ref = series.ref(at)
                found.append(TimeLimit(until - now, ref.source, ref.line, ref.offset, series.text(at)))
    return min(found, key=lambda limit: limit.left_s, default=None)


def limit_items(view: RunView) -> list[Item]:
    """Where the run needs longer than it may last."""
    way, limit = view.fact(way_of), view.fact(limit_of)
    if way is None or limit is None or not way.proven or not way.remaining_s or view.fact(over_at) is not None:
        return []
    if way.remaining_s <= _CLOSE * limit.left_s:
        return []
    counter, now = way.counter, view.window[1]
    values = {"needs_s": way.remaining_s, "left_s": limit.left_s, "short_s": way.remaining_s - limit.left_s}
    fields: Fields = {
        "needs": format_seconds(way.remaining_s),
        "left": format_seconds(max(0.0, limit.left_s)),
        "reached": f"{counter.amount:,.0f} of {counter.total or 0.0:,.0f}",
    }
    refs = [(Ref(limit.source, limit.line, limit.offset), limit.text)]
    if counter.text:
        refs.append((Ref(counter.source, counter.line, 0), counter.text))
    return [Item(now, now, values, fields, refs, source=limit.source)]
