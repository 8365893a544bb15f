"""From the blocks of followed logs to the session: history first, times on one clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from perfmon.clocks import (
    SET,
    Alignment,
    ClockWatch,
    apply_mtime,
    date_tails,
    follows,
    in_latest_year,
    polled_ahead,
    remove_clock_step,
)
from perfmon.core import DAYTIME, EPOCH, LOCAL, YEARLESS, Block
from perfmon.pipeline import Session
from perfmon.sources import LogFile
from perfmon.sources.pollers import Area, polled_blocks
from perfmon.store import SourceState
from perfmon.viewmodel import Freshness, SourceStatus

from .feeds import Feed
from .scheduling import DutyCycleLimiter, RunClock
from .source_health import SourceHealth, UnparsedSamples, all_servers_gone, stale_sources, stands_at
from .source_health import undated_patience_s as patience_s

# --- Logs without any timestamp: while they are followed, their lines are dated by their arrival ---

_QUIET_S = 10.0
_QUIET = (Freshness.STALE, Freshness.LAGGING)
_HEAD_BYTES = 400
_NOTE = "no timestamps: using arrival times"


def needs_arrivals(session: Session, state: SourceState) -> bool:
    """Return True if only arrivals show when the lines of a log were printed."""
    clock = session.clock(state)
    return clock.by_arrival or (clock.kind is None and clock.last is None)


def arrival_time(session: Session, clock: float, now: float | None) -> float | None:
    """Place an arrival at `clock` (seconds since 1970) on the axis of the other logs, whose present is `now`.

    None if they have only monotonic times, whose relation to it is unknown.
    """
    others = [state for state in session.store.sources if state.first is not None and not state.polled]
    if any(state.kind is not None and not session.clock(state).by_arrival for state in others):
        return now
    if any(state.monotonic for state in others):
        return None
    return clock + float(time.localtime(clock).tm_gmtoff or 0)


def date_by_arrival(session: Session, state: SourceState, at: float, block: Block | None = None) -> None:
    """Date what was read of a log so far, `block` last, by its arrival `at` that time."""
    session.clock(state).arrived(at)
    state.kind = session.clock(state).kind
    session.store.extend(state, at)
    if state.tail is not None and at - state.tail >= _QUIET_S:
        state.add_gap(state.tail, at, state.last_line)
    state.tail = at
    if block is not None:
        last = block.data.rstrip(b"\n").rpartition(b"\n")[2][:_HEAD_BYTES]
        state.last_line = (max(block.line, 1) + max(0, block.data.count(b"\n") - 1), last.decode("utf-8", "replace"))
    state.note(_NOTE)
    session.store.version += 1


# --- The logs of a monitor ---

_PATIENCE_S = 20.0
"""Time without an evaluation while logs may be of several days."""
_UNANSWERED = ("stale", "failed")


@dataclass(slots=True)
class WatchedLog:
    """A log, and what follows from its arrivals."""

    state: SourceState
    shown: str
    path: Path
    """Absolute for a file of this machine."""
    health: SourceHealth = field(default_factory=SourceHealth)
    unparsed: UnparsedSamples = field(default_factory=UnparsedSamples)
    clock: ClockWatch = field(default_factory=ClockWatch)
    reported: set[str] = field(default_factory=set)
    """Notes on its clock that were shown."""
    mtime_checked: bool = False
    answered_at: float | None = None
    """Time of the last answer, by the clock of arrival, of a poller that does not answer."""
    stamped: tuple[float | None, float | None, float] = (None, None, 0.0)
    """Its last timestamp, and a time on its own axis with that of the clock of arrival."""
    bar_seen: tuple[int, float, float] = (0, 0.0, 0.0)
    """The line of its last bar, and the time of that on its own axis and by the clock of arrival."""

    def passed(self, clock: float) -> float | None:
        """Return the time on its own axis at `clock`; None where its clock was set since its last timestamp, and where
        bars behind that have the time.
        """
        (tail, own, at), state = self.stamped, self.state
        unknown = own is None or tail != state.tail or state.bar_line > state.last_line[0]
        return None if unknown or own is None else own + max(0.0, clock - at)


class Ingest:
    """Feeds the session of a monitor, so that the times of all lines are those of one clock."""

    def __init__(self, session: Session, feed: Feed, clock: Callable[[], float] = time.monotonic) -> None:
        self.logs: dict[tuple[Path, str | None], WatchedLog] = {}
        self._session, self._feed, self._clock = session, feed, clock
        self._started = self._clock()
        self._set: list[tuple[int | None, float, float]] = []
        """Clocks that were put forward: kind, seconds, and how late their lines had come."""

    def log(self, log: LogFile) -> WatchedLog:
        """Return the state of a log, new or known."""
        key = (log.path, log.member)
        held = self.logs.get(key)
        if held is None:
            held = self.logs[key] = WatchedLog(self._session.add_source(log.name), log.name, log.path)
        return held

    @property
    def run_sources(self) -> list[WatchedLog]:
        """The logs of the run itself, without pollers."""
        return [held for held in self.logs.values() if not held.state.polled]

    def ingest_poll(self, held: WatchedLog, block: Block, present: RunClock) -> bool:
        """Take in the readings of a poller; return True if the distance of its clock to the run's changed."""
        state, clock, known = held.state, self._feed.clock(), held.state.ahead_s
        for polled in polled_blocks(block):
            self._session.feed(state, polled)
            for reading in polled.readings:
                if reading is not None and reading.area is Area.POLLER:
                    unanswered = reading.words.get("state") in _UNANSWERED
                    held.answered_at = clock - reading.values.get("age_s", 0.0) if unanswered else None
        now = present.actual(clock)
        if now is not None and state.last is not None:
            undated = any(held.state.kind in (YEARLESS, DAYTIME) for held in self.run_sources)
            state.ahead_s = polled_ahead(now - state.last, known, undated=undated)
        return state.ahead_s != known

    def last_read(self) -> float:
        """Time at which a log of the run was last written to, as far as is known, in seconds since 1970."""
        times = (held.health.read_at for held in self.run_sources)
        return max((at for at in times if at is not None), default=float("-inf"))

    def unanswered(self) -> Iterator[tuple[WatchedLog, float]]:
        """Yield the logs of pollers that do not answer, and the seconds since they did."""
        clock = self._feed.clock()
        for held in self.logs.values():
            if held.answered_at is not None:
                yield held, max(0.0, clock - held.answered_at)

    def ingest(self, held: WatchedLog, block: Block, present: RunClock, shift: float = 0.0) -> None:
        """Take in the next lines of a log; new lines without timestamps are dated by their arrival.

        `shift`: seconds to add to the axis of the log to get the run's.
        """
        session, state, clock = self._session, held.state, self._feed.clock()
        now = present.awaited(clock) or present.now(clock)
        passed = held.passed(clock) if self._feed.caught_up else None
        if passed is not None and now is not None:  # neither beyond the present, by what is known of other clocks
            passed = min(passed, now - shift)
            session.clock(state).pass_to(passed)
        at = arrival_time(session, clock, now) if not self._feed.of_past and needs_arrivals(session, state) else None
        if at is not None and session.clock(state).by_arrival:
            session.clock(state).arrived(at)
        tail = state.tail
        scanned = session.feed(state, block)
        if self._feed.caught_up and state.tail != tail:
            held.stamped = (state.tail, state.tail, clock)
        elif passed is not None:
            state.passed = passed
        elif self._feed.caught_up and state.bar_at is not None and state.bar_line > state.last_line[0]:
            if held.bar_seen[0] != state.bar_line:
                held.bar_seen = (state.bar_line, state.bar_at, clock)
            _, bar_at, seen = held.bar_seen
            state.passed = max(bar_at + clock - seen, state.passed or bar_at)
        if scanned is not None:
            held.unparsed.look(block, scanned, clock)
        if at is not None and needs_arrivals(session, state):
            date_by_arrival(session, state, at, block)
        if self._feed.caught_up:
            self._correct_clock(held, clock)

    def _correct_clock(self, held: WatchedLog, clock: float) -> None:
        """Remove a step of a log's clock: arrivals show it before other logs can prove it."""
        state, known, own = held.state, held.clock.lag, self._session.clock(held.state)
        step = held.clock.observe(state, clock, own.set_back)
        if known is None:
            step = next((step for clock_set in self._set if (step := follows(state, clock, *clock_set))), None)
        elif step is not None and step.seconds > 0.0:
            self._set.append((state.kind, step.seconds, known))
        if step is not None:
            remove_clock_step(self._session.store, own, step)

    def note_rhythms(self) -> None:
        """Note how long the logs may be silent of which no timestamps show how far apart their lines are."""
        for held in self.run_sources:
            undated = held.state.passed is not None or needs_arrivals(self._session, held.state)
            undated |= held.state.murmurs
            tracks = self._session.store.progress.of(held.state.index)
            held.health.undated_s = patience_s(tracks) if undated else None

    def first(self, alignment: Alignment) -> float | None:
        """Return the time of the first line of the run."""
        dated = [held.state for held in self.run_sources if held.state.first is not None]
        return min((alignment.shifts.get(state.index, 0.0) + (state.first or 0.0) for state in dated), default=None)

    def stale_s(self, present: RunClock) -> float | None:
        """Return the age of the newest line, if every log is silent for longer than usual."""
        clock = self._feed.clock()
        stale, others = stale_sources([(held.health, held.state) for held in self.run_sources], clock)
        silent = present.silent_s(clock) if stale and not others else None
        # Lines without a clock are dated by their arrival: their own age is the silence.
        return None if silent is None else max(silent, min(clock - (health.read_at or clock) for health in stale))

    def silent(self, present: RunClock, alignment: Alignment) -> dict[str, float]:
        """Return the logs and pollers that are stale, and the time of their last output."""
        clock, logs = self._feed.clock(), self.run_sources
        alone = all_servers_gone([(one.health, one.state) for one in logs], clock)
        silent = [one for one in logs if one.health.freshness(clock, one.state, alone=alone) is Freshness.STALE]
        last_at = {held.shown: float("-inf") if (last := last_of(held, alignment)) is None else last for held in silent}
        now = present.now(clock) if (actual := present.actual(clock)) is None else actual
        return last_at | {held.shown: (now or 0.0) - age_s for held, age_s in self.unanswered()}

    def trusted_sources(self) -> list[WatchedLog]:
        """The logs whose clock was not set, as far as is known."""
        clock = self._feed.clock()
        return [held for held in self.logs.values() if not held.clock.is_doubtful(clock)]

    def has_doubtful_clock(self) -> bool:
        """Return True if some log may be ahead of its time; soon that is known."""
        clock = self._feed.clock()
        return any(held.clock.may_be_ahead(clock) for held in self.logs.values())

    def clock_notes(self) -> list[str]:
        """Return new notes about clocks that were set."""
        fresh = []
        for held in self.logs.values():
            if held.clock.anomaly:
                held.state.note(held.clock.anomaly)
            notes = {note for note in held.state.notes if note.startswith(SET) or note == held.clock.anomaly}
            fresh += [f"{held.shown}: {note}" for note in sorted(notes - held.reported)]
            held.reported |= notes
        return fresh

    def mtimes(self) -> list[tuple[WatchedLog, float]]:
        """Times of the last writes to the files of logs, in seconds since 1970."""
        times = ((held, self._feed.changed_at(LogFile(held.shown, *key))) for key, held in self.logs.items())
        return [(held, changed) for held, changed in times if changed is not None]

    def date_by_mtimes(self, alignment: Alignment, *, copies: bool) -> list[tuple[WatchedLog, float]]:
        """Date logs without timestamps by the last writes to their files, and return `mtimes`.

        A file may be a copy (`copies`): then its last line has the time at which it was written.
        """
        times = self.mtimes()
        if copies:
            times = [(held, _written(held, changed, alignment)) for held, changed in times]
        for held, changed in times:
            if held.state.lines and needs_arrivals(self._session, held.state):
                at = arrival_time(self._session, changed, None)
                if at is not None:
                    date_by_arrival(self._session, held.state, at)
        return times

    def date_tails(self, times: Sequence[tuple[WatchedLog, float]]) -> dict[int, float]:
        """Date the undated lines at the ends of logs by the last writes to their files, which are `times`.

        Return by index of the log the time of its last line, on its own axis; logs without such lines are left out.
        """
        here = self._feed.player is None
        local = {held.state.index for held, _ in times if here and held.path.is_absolute()}
        clocks = {held.state.index: self._session.clock(held.state) for held, _ in times}
        # Logs without any timestamp were dated by the last write already.
        written = [(held.state, at) for held, at in times if not clocks[held.state.index].by_arrival]
        ends = date_tails(self._session.store, clocks, written, local, self._feed.clock())
        for held, changed in times:
            held.stamped = (held.state.tail, ends.get(held.state.index, held.state.tail), changed)
        return ends

    def find_days(self) -> set[int]:
        """Find the days of logs without dates by their files: of each log once, as soon as it was read."""
        dated: set[int] = set()
        fresh = [held for held in self.logs.values() if not held.mtime_checked and held.state.first is not None]
        if not fresh or not self._feed.caught_up:
            return dated
        for held, changed in self.mtimes():
            if not held.mtime_checked and held.state.first is not None:
                apply_mtime(held.state, changed)
                dated.add(held.state.index)
        for held in fresh:
            held.mtime_checked = True
        return dated

    def dates_pending(self) -> bool:
        """Return True while logs without dates may be of different days: their files date them once they are read."""
        if self._feed.caught_up or self._clock() - self._started > _PATIENCE_S:
            return False
        return sum(state.kind == DAYTIME for state in self._session.store.sources) > 1


_COPIED_S = 26 * 3600.0
"""Time zones set the time of a line and that of its file no further apart."""


def _written(held: WatchedLog, changed: float, alignment: Alignment) -> float:
    """The time of the last write to a log, of which a copy was made at `changed`."""
    last, kind = last_of(held, alignment), held.state.kind
    if last is None or held.state.murmurs or kind not in (EPOCH, LOCAL, YEARLESS):
        return changed
    if kind == YEARLESS:
        last = in_latest_year(last, changed + _COPIED_S)
    return last if last is not None and changed - last > _COPIED_S else changed


# --- The sources of a monitor state ---

_SHARE = 0.01
"""The most of a core that it may take: there may be a thousand logs."""


class SourceList:
    """Statuses of logs; with very many logs not renewed for every state."""

    def __init__(
        self,
        session: Session,
        levels: Callable[[int], tuple[int, int, bool]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`levels` returns how many lines of a log are warnings and errors, and whether all were counted."""
        self._session, self._levels, self._clock = session, levels, clock
        self._spacing = DutyCycleLimiter(_SHARE)
        self._statuses: tuple[SourceStatus, ...] = ()

    def statuses(
        self, logs: Sequence[WatchedLog], clock: float, alignment: Alignment, *, over: bool, live: bool
    ) -> tuple[SourceStatus, ...]:
        """Return the status of each log at `clock`, the time of arrival.

        `live`: the run continues, so a slightly older status will do. `over`: nothing more will come.
        """
        began = self._clock()
        if not live or len(logs) != len(self._statuses) or self._spacing.due(began):
            alone = all_servers_gone([(held.health, held.state) for held in logs], clock)
            offsets = {offset.source: offset.seconds for offset in alignment.offsets}
            self._statuses = tuple(
                self._status(held, clock, alignment, over, offsets.get(held.state.index), alone) for held in logs
            )
            self._spacing.done(began, self._clock() - began)
        return self._statuses

    def _status(
        self, held: WatchedLog, clock: float, alignment: Alignment, over: bool, offset_s: float | None, alone: bool
    ) -> SourceStatus:
        state, health = held.state, held.health
        health.count(clock, state.lines, state.bytes)
        lines_per_s, bytes_per_s = health.rates()
        names = self._session.scanner.pattern_names
        patterns = {names[at]: count for at, count in sorted(state.patterns.items())}
        packs = sorted({name.partition("/")[0] for name in patterns})
        warning_lines, error_lines, levels_exact = self._levels(state.index)
        return SourceStatus(
            index=state.index,
            name=held.shown,
            freshness=Freshness.ENDED if over else health.freshness(clock, state, alone=alone),
            format="+".join(packs) or "unknown",
            bytes=state.bytes,
            lines=state.lines,
            events=sum(state.patterns.values()),
            bytes_per_s=bytes_per_s,
            lines_per_s=lines_per_s,
            age_s=None if health.read_at is None else max(0.0, clock - health.read_at),
            last=last_of(held, alignment),
            errors=state.errors,
            skipped=state.skipped,
            notes=tuple(state.notes),
            patterns=patterns,
            unparsed=held.unparsed.lines,
            offset_s=offset_s,
            warning_lines=warning_lines,
            error_lines=error_lines,
            levels_exact=levels_exact,
        )


def last_of(held: WatchedLog, alignment: Alignment) -> float | None:
    """Time of a log's last line, on the run's axis."""
    last = stands_at(held.state, grows=held.health.grows)
    return None if last is None else last + alignment.shifts.get(held.state.index, 0.0)


def ended_where_silent(sources: tuple[SourceStatus, ...]) -> tuple[SourceStatus, ...]:
    """The logs of a run that is over: that they have no output is no news, and that they had some lately no sign."""
    over = [one.freshness is not Freshness.WAITING and not one.lines_per_s for one in sources]
    pairs = zip(sources, over, strict=True)
    return tuple(replace(one, freshness=Freshness.ENDED) if ended else one for one, ended in pairs)
