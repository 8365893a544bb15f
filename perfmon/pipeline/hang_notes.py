"""The hang that a run ended in: when it began, the search for dumps of it, and the note for the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import WATCHED, Fields, Ref, TimeBase
from perfmon.store import HangNote, Store

if TYPE_CHECKING:
    from perfmon.diagnosis import Diagnosis
    from perfmon.hangs import Found

    from .session import Session

TIMEOUT = "collective-timeout"
"""Id of the signature and cause of the failure."""
_STALL = "stall"
_EDGE_S = 1.0
_ROUNDING_S = 5.0
"""Lines have times in whole seconds, and are printed a moment before they are written."""
_UNDATED_S = 1800.0
"""Without timestamps, dumps may be older than the last line by the longest usual time-out of a group."""
_LINES_EACH = 3
"""Lines of each rank as evidence."""


def hang_begin(snapshot: Diagnosis) -> float | None:
    """The time of the last progress before the hang that a run is in or ended with, on its axis; None without one.

    Dumps of this hang are written after it; older ones are of an earlier attempt in the same folder.
    """
    run = snapshot.run
    begins = []
    for finding in snapshot.findings:
        starts = [moment.start_s for moment in finding.moments] or [finding.first_s]
        if finding.signature == TIMEOUT or (
            finding.signature == _STALL and finding.last_s >= run.end - run.start - _EDGE_S
        ):
            begins.append(run.start + max(starts))
    return max(begins, default=None)


def written_since(begin: float, logs: Iterable[tuple[float, float]]) -> float | None:
    """The time of the last progress in seconds since 1970, from its time on the run's axis; None without a log.

    `logs`: of each log the time of its last line on the axis, and of the last write to its file. The least distance of
    the two is that of the clocks: a file may be written to without a line that has a timestamp.
    """
    distance = min((written - last for last, written in logs), default=None)
    return None if distance is None else begin + distance - _ROUNDING_S


def timeouts_of(store: Store) -> list[tuple[Fields, str]]:
    """Fields and texts of the lines about collectives that timed out."""
    return [(one.fields, one.text) for one in store.failures.kept if one.cause == TIMEOUT]


def note_of(store: Store, found: Found) -> HangNote | None:
    """The note for the store, with the last lines of the ranks as evidence; None if the dumps do not decide."""
    if not found.why:
        return None
    states = {state.spec: state for state in store.sources}
    refs = tuple(
        (Ref(state.index, state.lines - line.after, line.offset), line.text)
        for lines in found.lines.values()
        for line in lines[-_LINES_EACH:]
        if (state := states.get(line.log)) is not None
    )
    return HangNote(found.ranks, found.why, refs)


def note_hang(session: Session, specs: Sequence[str], written: Mapping[int, float]) -> None:
    """Note the rank that is behind by flight-recorder dumps, if the run ended in a hang and they are of it.

    `written` are the times of the last writes to the logs, in seconds since 1970, by index of the log.
    """
    store = session.store
    timeouts = timeouts_of(store)
    if not timeouts and not any(Path(spec).expanduser().is_dir() for spec in specs):
        return  # most logs: the search need not be loaded
    from perfmon.hangs import HangSearch, find_dumps, usual_places

    places = usual_places(specs)
    if not (timeouts or any(find_dumps(folder) for folder in places.folders)):
        return
    snapshot = session.snapshot(detail=WATCHED)
    begin, newest = hang_begin(snapshot), max(written.values(), default=0.0)
    if begin is None:
        return
    since: float | None = None
    if snapshot.run.time_base is not TimeBase.NONE:
        shifts = session.lay().shifts
        dated = [state for state in store.sources if state.last is not None and state.index in written]
        since = written_since(
            begin, [((state.last or 0.0) + shifts.get(state.index, 0.0), written[state.index]) for state in dated]
        )
    if since is None:
        since = newest - _UNDATED_S if written else -inf
    store.hang = note_of(store, HangSearch().look(places, timeouts, since, newest if written else inf))
