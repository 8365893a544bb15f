"""The rank that is behind, for a run that hangs while it is watched: looks for dumps in a thread, at a few moments.

Dumps are written within seconds of each other, once a collective has timed out. A stall began long before that: so the
looks begin again with every line about a time-out. Nothing is looked for between hangs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import Fields, counted
from perfmon.hangs import Found, HangSearch, Limits, usual_places
from perfmon.pipeline import TIMEOUT, Session, hang_begin, note_of, timeouts_of, written_since

if TYPE_CHECKING:
    from perfmon.diagnosis import Diagnosis

    from .feeds import Feed
    from .ingest import Ingest

_LOOKS_S = (0.0, 2.0, 5.0, 10.0, 20.0, 40.0, 60.0)
"""Moments after the begin of a hang, and after each line about a time-out."""
_QUIET_S, _QUIET_MISSING_S = 3.0, 20.0
"""Dumps that did not change for so long are complete; the longer time where dumps of some ranks are missing."""
_LEFT_S = 1.0
_OTHER_HANG_S = 60.0
_LIMITS = Limits(seconds=5.0, most_bytes=256 << 20, largest=24 << 20, share=0.5)

Start = Callable[[Callable[[], None]], None]


def _in_thread(work: Callable[[], None]) -> None:
    """A daemon: a file system that does not respond must not keep the program."""
    threading.Thread(target=work, name="perfmon-hang", daemon=True).start()


@dataclass(slots=True)
class _Look:
    """One search, of data that no other thread changes."""

    search: HangSearch
    specs: tuple[str, ...]
    timeouts: list[tuple[Fields, str]]
    begin: float
    """Of the hang, on the run's axis."""
    logs: list[tuple[Path, float]]
    """Files of the logs, and the times of their last lines on the run's axis."""
    found: Found = field(default_factory=Found)
    stamps: frozenset[object] = frozenset()
    is_done: bool = False

    def run(self) -> None:
        """Search; whatever fails, the monitor continues without an answer."""
        try:
            written = [(last, path.stat().st_mtime) for path, last in self.logs if path.is_file()]
            since = written_since(self.begin, written)
            if since is not None:
                newest = max(at for _, at in written)
                self.found = self.search.look(usual_places(self.specs), self.timeouts, since, newest, _LIMITS)
                self.stamps = self.search.stamps
        except (OSError, ValueError, RecursionError):
            self.found = Found()
        finally:
            self.is_done = True


class HangWatch:
    """Sets and removes the note of the store about the rank that is behind; used by the monitor's thread alone."""

    def __init__(
        self, session: Session, ingest: Ingest, feed: Feed, clock: Callable[[], float], start: Start = _in_thread
    ) -> None:
        self.start = start
        """Runs a search; replaced where nothing may run at the same time."""
        self._session, self._ingest, self._feed, self._clock = session, ingest, feed, clock
        self._begin: float | None = None
        self._shifts: Mapping[int, float] = {}
        self._timeouts = 0
        self._next_at = inf
        self._left: list[float] = []
        """Moments of the looks that are still to come, by `clock`."""
        self._search: HangSearch | None = None
        self._look: _Look | None = None
        self._stamps: frozenset[object] = frozenset()
        self._changed_at = 0.0
        self._reported_size = False

    def watch(self, snapshot: Diagnosis, shifts: Mapping[int, float]) -> list[str]:
        """Take a new diagnosis: a hang that begins, lasts or ends; return new notices.

        `shifts` are those of the logs to the run's axis.
        """
        begin, store = hang_begin(snapshot), self._session.store
        is_new = begin is not None and (self._begin is None or abs(begin - self._begin) > _OTHER_HANG_S)
        self._begin, self._shifts = begin, shifts
        if begin is None or is_new:
            self._forget()
        if begin is None:
            return []
        timeouts = sum(one.count for one in store.progress.failures if one.cause == TIMEOUT)
        if is_new or timeouts != self._timeouts:
            self._timeouts = timeouts
            now = self._clock()
            self._left = [now + later for later in _LOOKS_S]
            self._next_at = min(self._next_at, self._left[0])
        return self.step()

    def step(self) -> list[str]:
        """Take the result of a look, begin one that is due; return new notices."""
        notices: list[str] = []
        now = self._clock()
        if self._look is not None and self._look.is_done:
            notices = self._take(self._look, now)
        if self._look is None and self._begin is not None and now >= self._next_at:
            self._begin_look(self._begin, now)
            if self._look is not None and self._look.is_done:
                notices += self._take(self._look, now)
        return notices

    def _begin_look(self, begin: float, now: float) -> None:
        self._left = [at for at in self._left if at > now]
        self._next_at = min(self._left, default=inf)
        logs = [
            (path, held.state.last + self._shifts.get(held.state.index, 0.0))
            for (path, member), held in self._ingest.logs.items()
            if member is None and not held.state.polled and held.state.last is not None
        ]
        self._search = self._search or HangSearch()
        timeouts = [(dict(fields), text) for fields, text in timeouts_of(self._session.store)]
        self._look = _Look(self._search, self._feed.specs, timeouts, begin, logs)
        self.start(self._look.run)

    def _take(self, look: _Look, now: float) -> list[str]:
        self._look = None
        if look.search is not self._search or self._begin is None:  # of a hang that is over
            return []
        found = look.found
        if look.stamps != self._stamps:
            self._stamps, self._changed_at = look.stamps, now
        quiet_s = _QUIET_MISSING_S if found.missing > 0 or found.is_torn else _QUIET_S
        if found.left:
            self._next_at = min(self._next_at, now + _LEFT_S)
        elif found.why and now - self._changed_at >= quiet_s:
            self._publish(found)
        elif found.why:
            self._next_at = min(self._next_at, self._changed_at + quiet_s)
        if self._next_at == inf:
            self._search = None  # the dumps take memory
        if found.too_large and not self._reported_size:
            self._reported_size = True
            return [
                f"{counted(found.too_large, 'dump')} too large for the monitor: run perfmon nccl --hang on their folder"
            ]
        return []

    def _publish(self, found: Found) -> None:
        store = self._session.store
        note = note_of(store, found)
        known = store.hang
        if note is not None and (known is None or (known.ranks, known.why) != (note.ranks, note.why)):
            store.hang = note
            store.version += 1

    def _forget(self) -> None:
        """Remove what is known of the last hang."""
        self._search, self._stamps, self._left, self._next_at = None, frozenset(), [], inf
        self._timeouts = 0
        if self._session.store.hang is not None:
            self._session.store.hang = None
            self._session.store.version += 1
