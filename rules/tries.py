"""Starts that fail one after the other: a container or a server that dies before it is ready, and is started anew.

The banner of the next try says nothing of the failure of the one before: that stands until work goes on, or the server
says that it is ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon.sourcestate import SourceState

from .deaths import Death, death_of, first_of, goes_on_elsewhere
from .runs import Boundary, banner, boundaries, under_way

if TYPE_CHECKING:
    from .run_view import RunView


def tries_of(source: int, view: RunView) -> list[Boundary]:
    """The last tries of a log's start that began anew after a failure, one after the other."""
    tries: list[Boundary] = []
    for one in reversed([one for one in view.fact(boundaries) if one.source == source]):
        if not one.again:
            break
        tries.append(one)
    return tries[::-1]


def failed_start(view: RunView) -> Death | None:
    """What the last start died of that is tried once more, while the new try is neither ready nor at work."""
    dead = [death for state in view.store.sources if (death := _of_log(state, view)) is not None]
    return max(dead, key=lambda death: death.time, default=None)


def with_tries(death: Death | None, view: RunView) -> Death | None:
    """The death of a run, with the starts that failed before it where it died in its own."""
    if death is not None and view.fact(boundaries):
        source = death.cause.source
        tries = tries_of(source, view)
        if tries and not under_way(view.store.sources[source], view, tries[-1].line, death.cause.line):
            death.tries = _count(tries, view) + 1
    return death


def _of_log(state: SourceState, view: RunView) -> Death | None:
    tries = tries_of(state.index, view)
    if not tries or under_way(state, view, tries[-1].line, state.lines + 1):
        return None
    marks = view.store.progress.marks
    if any(mark.source == state.index and mark.kind == "end" and mark.line > tries[-1].line for mark in marks):
        return None
    own = [one.line for one in view.fact(boundaries) if one.source == state.index and one.line < tries[-1].line]
    since = own[-1] if own else 0
    words = [
        one
        for one in view.store.progress.failures
        if one.source == state.index and one.role != "context" and since <= one.last_line < tries[-1].line
    ]
    death = first_of(words, view)
    if death is None or death.cause.role == "order" or goes_on_elsewhere(death.cause, view):
        return None
    death.tries, death.anew = _count(tries, view), True
    return death


def _count(tries: list[Boundary], view: RunView) -> int:
    """How many failed; of failures that say the same only some are kept, but each try has its banner."""
    first, last = tries[0], tries[-1]
    told: dict[str, list[int]] = {}
    for mark in view.store.progress.marks:
        if mark.source == first.source and mark.kind == "begin" and first.began <= mark.line <= last.line:
            told.setdefault(banner(mark), []).append(mark.line)
    lines = max(told.values(), key=lambda lines: lines[-1], default=[])
    each = sum(line < first.line for line in lines)  # ranks and nodes may each print it
    return max(len(tries), len(lines) // each - 1 if each else 0)


def death_of_run(view: RunView) -> Death | None:
    """What the last run in the logs died of."""
    return with_tries(death_of(view), view)
