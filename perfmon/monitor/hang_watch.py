"""The rank that is behind, for a run that hangs while it is watched: looks for dumps in a thread, at a few moments.

Where dumps name no rank soon, NCCL RAS is queried once, if the user gave its address; of ranks that are named, the
stack is taken once, if the user agreed. A query has crashed jobs with some versions of NCCL, and py-spy reads the
memory of a process: so neither is used before the logs show a hang.

Dumps are written within seconds of each other, once a collective has timed out. A stall began long before that: so the
looks begin again with every line about a time-out. Nothing is looked for between hangs.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import Fields, PerfmonError, Progress, counted, plain
from perfmon.pipeline import TIMEOUT, Session, hang_begin, note_of, timeouts_of, written_since
from perfmon.sources import LogFile

if TYPE_CHECKING:
    from perfmon.diagnosis import Diagnosis
    from perfmon.hangs import Found, HangSearch, Places
    from perfmon.store import HangNote

    from .feeds import Feed
    from .ingest import Ingest

_QUERY_S = 12.0
"""A query takes up to 10 s where processes do not respond."""
_MOST_STACKS = 4


@dataclass(frozen=True, slots=True)
class HangSources:
    """The sources that the user agreed to."""

    ras: str = ""
    """HOST:PORT of NCCL RAS, as seen from here, or with `ssh://HOST/` before it as that host sees it."""
    stacks: bool = False


def ras_answer(target: str, feed: Feed) -> tuple[Found | None, str]:
    """The rank that is behind by one query of NCCL RAS, or None and a sentence about what it gave instead.

    An address that begins with a host (ssh://) is queried through the connection of the feed to it.
    """
    from perfmon.hangs import Answer, Found, ask, judge_ras, parse_ras, query, rank_words  # for the few runs that hang

    try:
        if (address := parse_ras(target)) is None:
            return None, f"NCCL RAS: {plain(target, 120)} is no HOST:PORT"
        through, host, port = address
        if through is None:
            report = query(host, port, _QUERY_S)
        else:
            report = feed.through(through.shown, lambda opener: ask(opener, host, port, _QUERY_S))
        verdict, places = judge_ras(report)
    except PerfmonError as error:
        return None, f"NCCL RAS: {error}"
    source = f"NCCL RAS{f' {report.version}' if report.version else ''}"
    if verdict.answer is not Answer.NAMED:
        named = f"; candidates: {rank_words(verdict.candidates)}" if verdict.candidates else ""
        return None, f"{source} does not decide: {verdict.reasons[-1]}{named}"
    first = next(cause for cause in verdict.causes if set(cause.ranks) & set(verdict.ranks))
    place = places.get(first.ranks[0], "")
    why = "; ".join(part for part in (first.detail, place, verdict.confidence, f"by {source}") if part)
    # A process that is not in the largest communicator has no rank of the job.
    return Found(verdict.ranks if min(verdict.ranks) >= 0 else (), why), ""


def stack_words(ranks: Sequence[int]) -> tuple[str, str]:
    """The innermost frames of ranks on this host for a sentence, and the reason why some have none."""
    from perfmon.hangs import main_frames, process_stacks, rank_words

    words: list[str] = []
    reasons: dict[str, list[int]] = {}
    for rank, (_, stack, reason) in process_stacks(ranks[:_MOST_STACKS]).items():
        frames = main_frames(stack)
        if frames:
            words.append(f"rank {rank} is in {frames}")
        else:
            reasons.setdefault(reason or "py-spy: no main thread", []).append(rank)
    notes = [f"no stack of {rank_words(some)}: {why}" for why, some in reasons.items()]
    return "; ".join(words), "; ".join(notes)


# --- The watch ---

_LOOKS_S = (0.0, 2.0, 5.0, 10.0, 20.0, 40.0, 60.0)
"""Moments after the begin of a hang, and after each line about a time-out."""
_QUIET_S, _QUIET_MISSING_S = 3.0, 20.0
"""Dumps that did not change for so long are complete; the longer time where dumps of some ranks are missing."""
_LEFT_S = 0.5
_OTHER_HANG_S = 60.0
_SECONDS, _SHARE = 20.0, 0.8
"""Longest time of one look for reading, and largest share of a core: a run that hangs computes nothing."""
_MOST_BYTES, _LARGEST = 256 << 20, 24 << 20
"""Size of all dumps together, and of one."""

_QUERY_AFTER_S = 15.0
"""Dumps are written within seconds of each other, and name ranks better than RAS does."""
_ALIVE = (Progress.RUNNING, Progress.STALLED)
_DYING_S = 120.0
"""A process whose collective timed out lives on while dumps are written."""

Start = Callable[[Callable[[], None]], None]


def _in_thread(work: Callable[[], None]) -> None:
    """A daemon: a file system that does not respond must not keep the program."""
    threading.Thread(target=work, name="perfmon-hang", daemon=True).start()


@dataclass(slots=True)
class _Look:
    """One search, of data that no other thread changes."""

    search: HangSearch
    feed: Feed
    timeouts: list[tuple[Fields, str]]
    begin: float
    """Of the hang, on the run's axis."""
    logs: list[tuple[Path, float]]
    """Files of the logs of this machine, and the times of their last lines on the run's axis."""
    remote: list[tuple[float, float]]
    """The times of the last lines of logs of hosts, and of the last writes to them by the clock of this machine."""
    copies: Path | None
    """The folder for dumps of hosts."""
    ras: str = ""
    """Address of NCCL RAS, to be queried if the dumps do not decide."""
    found: Found | None = None
    was_queried: bool = False
    by_ras: Found | None = None
    notice: str = ""
    stamps: frozenset[object] = frozenset()
    is_done: bool = False

    def run(self) -> None:
        """Search; whatever fails, the monitor continues without an answer."""
        from perfmon.hangs import Found, Limits, usual_places  # for the few runs that hang

        try:
            written = [(last, path.stat().st_mtime) for path, last in self.logs if path.is_file()] + self.remote
            since = written_since(self.begin, written)
            if since is not None:
                newest = max(at for _, at in written)
                places, too_large = usual_places(self.feed.specs), 0
                if self.copies is not None:
                    places, too_large = self._with_copies(places, self.copies, since)
                found, limits = Found(too_large=too_large), Limits(_SECONDS, _MOST_BYTES, _LARGEST, _SHARE)
                if not too_large:
                    found = self.search.look(places, self.timeouts, since, newest, limits)
                self.found, self.stamps = found, self.search.stamps
            if self.ras and (self.found is None or not (self.found.why or self.found.left)):
                self.was_queried = True
                self.by_ras, self.notice = ras_answer(self.ras, self.feed)
        except Exception:  # of a thread, it would be printed onto the screen
            self.found = None
        finally:
            self.is_done = True

    def _with_copies(self, places: Places, folder: Path, since: float) -> tuple[Places, int]:
        """The places and the folders to which the dumps of hosts were copied, and how many dumps are too large."""
        from perfmon.hangs import REMOTE_PREFIXES, is_dump_head, is_dump_name
        from perfmon.sources.remote import Selection

        own, shared = folder / "own", folder / "shared"
        own.mkdir(exist_ok=True)
        shared.mkdir(exist_ok=True)
        wanted = Selection(is_dump_name, is_dump_head, since, _MOST_BYTES, _LARGEST, REMOTE_PREFIXES)
        too_large = self.feed.copy(own, shared, wanted)
        return replace(places, folders=(*places.folders, own), shared=(*places.shared, shared)), too_large


@dataclass(slots=True)
class _Stacks:
    """The stacks of ranks that are behind."""

    ranks: tuple[int, ...]
    words: str = ""
    notice: str = ""
    is_done: bool = False

    def run(self) -> None:
        """Take them; whatever fails, the monitor continues without."""
        try:
            self.words, self.notice = stack_words(self.ranks)
        except Exception as error:  # of a thread, it would be printed onto the screen
            self.notice = f"no stack: {type(error).__name__}"
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
        self._copies: tempfile.TemporaryDirectory[str] | None = None
        """The folder for dumps of hosts, while a search lasts."""
        self._stamps: frozenset[object] = frozenset()
        self._changed_at = 0.0
        self._reported_size = False
        self._sources = HangSources()
        self._hung_at = inf
        """When the hang was noticed, by `clock`."""
        self._was_queried = False
        self._is_alive = False
        """The run may still have processes: they are those of this hang."""
        self._stacks: _Stacks | None = None

    def allow(self, sources: HangSources) -> None:
        """Use these sources, too, from now on."""
        self._sources = sources

    def watch(self, snapshot: Diagnosis, shifts: Mapping[int, float]) -> list[str]:
        """Take a new diagnosis: a hang that begins, lasts or ends; return new notices.

        `shifts` are those of the logs to the run's axis.
        """
        begin, store = hang_begin(snapshot), self._session.store
        is_new = begin is not None and (self._begin is None or abs(begin - self._begin) > _OTHER_HANG_S)
        self._begin, self._shifts = begin, shifts
        self._is_alive = snapshot.run.state in _ALIVE or (
            snapshot.run.state is Progress.FAILED and self._ingest.last_read() >= self._feed.clock() - _DYING_S
        )
        if begin is None or is_new:
            self._forget()
        if begin is None:
            return []
        timeouts = sum(one.count for one in store.failures.kept if one.cause == TIMEOUT)
        if is_new or timeouts != self._timeouts:
            self._timeouts = timeouts
            now = self._clock()
            self._left = [now + later for later in _LOOKS_S]
            self._hung_at = min(self._hung_at, now)
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
        return notices + self._step_stacks()

    def _step_stacks(self) -> list[str]:
        """Take the stacks of the ranks that are behind, once; return new notices."""
        note, stacks = self._session.store.hang, self._stacks
        if stacks is None and note is not None and note.ranks and self._sources.stacks and self._is_alive:
            self._stacks = stacks = _Stacks(note.ranks)
            self.start(stacks.run)
        if stacks is None or not stacks.is_done or note is None:
            return []
        self._set(note)
        notice, stacks.notice = stacks.notice, ""
        return [notice] if notice else []

    def _begin_look(self, begin: float, now: float) -> None:
        self._left = [at for at in self._left if at > now]
        self._next_at = min(self._left, default=inf)
        logs, remote = [], []
        for (path, member), held in self._ingest.logs.items():
            if held.state.polled or held.state.last is None:
                continue
            last = held.state.last + self._shifts.get(held.state.index, 0.0)
            if member is None:
                logs.append((path, last))
            elif (changed := self._feed.changed_at(LogFile(held.shown, path, member))) is not None:
                remote.append((last, changed))
        if self._feed.hosts and self._copies is None:
            self._copies = tempfile.TemporaryDirectory(prefix="perfmon-dumps-", ignore_cleanup_errors=True)
        copies = None if self._copies is None else Path(self._copies.name)
        if self._search is None:
            from perfmon.hangs import HangSearch

            self._search = HangSearch()
        timeouts = [(dict(fields), text) for fields, text in timeouts_of(self._session.store)]
        ras, known = self._sources.ras, self._session.store.hang
        if self._was_queried or not self._is_alive or known is not None or now - self._hung_at < _QUERY_AFTER_S:
            ras = ""
        self._look = _Look(self._search, self._feed, timeouts, begin, logs, remote, copies, ras)
        self.start(self._look.run)

    def _take(self, look: _Look, now: float) -> list[str]:
        self._look = None
        found, notices = look.found, [look.notice] if look.notice else []
        self._was_queried = self._was_queried or look.was_queried
        if look.search is not self._search or self._begin is None:  # of a hang that is over
            return notices
        if look.by_ras is not None:
            self._publish(look.by_ras)
        if found is None:
            return notices
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
            self._release()
        if found.too_large and not self._reported_size:
            self._reported_size = True
            notices.append(
                f"{counted(found.too_large, 'dump')} too large for the monitor: run perfmon nccl --hang on their folder"
            )
        return notices

    def close(self) -> None:
        """End the search."""
        self._forget()

    def _release(self) -> None:
        """Free the memory and the folder of the dumps."""
        self._search = None
        if self._copies is not None:
            self._copies.cleanup()
            self._copies = None

    def _publish(self, found: Found) -> None:
        note = note_of(self._session.store, found)
        if note is not None:
            self._set(note)

    def _set(self, note: HangNote) -> None:
        """Note the ranks that are behind, with their stacks if there are any."""
        store, stacks = self._session.store, self._stacks
        known, words = store.hang, stacks.words if stacks is not None and stacks.ranks == note.ranks else ""
        if words and not note.why.endswith(words):
            note = replace(note, why=f"{note.why}; {words}")
        if known is None or (known.ranks, known.why) != (note.ranks, note.why):
            store.hang = note
            store.version += 1

    def _forget(self) -> None:
        """Remove what is known of the last hang."""
        self._release()
        self._stamps, self._left, self._next_at = frozenset(), [], inf
        self._timeouts, self._hung_at, self._stacks = 0, inf, None
        if self._session.store.hang is not None:
            self._session.store.hang = None
            self._session.store.version += 1
