"""Counters that count within others: the bar of an epoch's batches below that of the epochs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING

from perfmon.progress import WorkCounter

if TYPE_CHECKING:
    from .run_view import RunView

Moment = tuple[float, float]
_OPEN = (inf, inf)
_OUTER = frozenset(("items", "epochs", "step"))


def inner_counters(counters: Iterable[WorkCounter]) -> set[int]:
    """The ids of those that count within another one of their log, as they are given in the order of their begin.

    That was there before, goes on until after them, and moved once for each pass of the inner ones, whatever their
    totals.
    """
    by_source: dict[int, list[WorkCounter]] = {}
    for counter in counters:
        by_source.setdefault(counter.source, []).append(counter)
    found: set[int] = set()
    for of_log in by_source.values():
        passes = Counter[str]()
        for counter in of_log:
            passes[counter.kind] += counter.restarts + 1
        outside: dict[str, Moment] = {}
        """By kind of counter until when the outer ones go on that they may be in."""
        for counter in of_log:
            if counter.kind in outside and _moment(counter) <= outside[counter.kind]:
                found.add(id(counter))
            passes[counter.kind] -= counter.restarts + 1
            if counter.kind not in _OUTER or counter.total is None:
                continue
            until = _moment(counter) if counter.amount >= counter.total else _OPEN
            moved = counter.amount - counter.first_amount
            for kind, count in passes.items():
                if count > 0 and moved <= count:
                    outside[kind] = max(outside.get(kind, until), until)
    return found


def _moment(counter: WorkCounter) -> Moment:
    return counter.line, counter.time


def inner_of(view: RunView) -> set[int]:
    """The ids of the counters of a run that count within another one."""
    return inner_counters(view.store.progress.counters.values())
