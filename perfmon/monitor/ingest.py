"""From the blocks of watched logs to the session: history first, times on one clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perfmon.clocks import SET, Alignment, ClockWatch, apply_mtime, follows, polled_ahead, remove_clock_step
from perfmon.core import DAYTIME, YEARLESS, Block
from perfmon.pipeline import Session
from perfmon.sources import LogFile
from perfmon.sources.pollers import Area, Reading, polled_blocks
from perfmon.store import SourceState, seen
from perfmon.viewmodel import Freshness, SourceStatus

from .feeds import Feed
from .scheduling import DutyCycleLimiter, RunClock
from .source_health import SourceHealth, UnparsedSamples, stands_at

# --- Logs whose lines tell no time at all: while they are watched, their lines are of the moment at which they arrive
# ---

_QUIET_S = 10.0
_HEAD_BYTES = 400
NOTE = "no timestamps: using arrival times"


def needs_arrivals(session: Session, state: SourceState) -> bool:
    """Return True if only arrivals show when the lines of a log were printed."""
    clock = session.clock(state)
    return clock.by_arrival or (clock.kind is None and clock.last is None)


def moment(session: Session, clock: float, now: float | None) -> float | None:
    """Place an arrival at `clock` (seconds since 1970) on the axis of the other logs, whose present is `now`.

    None if they have only monotonic times, whose relation to it is unknown.
    """
    others = [state for state in session.store.sources if state.first is not None and not state.polled]
    if any(state.kind is not None and not session.clock(state).by_arrival for state in others):
        return now
    if any(state.monotonic for state in others):
        return None
    return clock + float(time.localtime(clock).tm_gmtoff or 0)


def arrived(session: Session, state: SourceState, at: float, block: Block | None = None) -> None:
    """Date what was read of a log so far, `block` last, by its arrival `at` that time."""
    session.clock(state).arrived(at)
    state.kind = session.clock(state).kind
    seen(session.store, state, at)
    if state.tail is not None and at - state.tail >= _QUIET_S:
        state.quiet(state.tail, at, state.last_line)
    state.tail = at
    if block is not None:
        last = block.data.rstrip(b"\n").rpartition(b"\n")[2][:_HEAD_BYTES]
        state.last_line = (max(block.line, 1) + max(0, block.data.count(b"\n") - 1), last.decode("utf-8", "replace"))
    state.note(NOTE)
    session.store.version += 1


# --- What comes of watched logs goes to a session through here: so the times of their lines are those of one clock ---

_PATIENCE_S = 20.0
"""How long nothing is judged while it may be of several days."""
_UNANSWERED = ("stale", "failed")


@dataclass(slots=True)
class WatchedLog:
    """A log, and what its arrivals tell."""

    state: SourceState
    shown: str
    lively: SourceHealth = field(default_factory=SourceHealth)
    unparsed: UnparsedSamples = field(default_factory=UnparsedSamples)
    clock: ClockWatch = field(default_factory=ClockWatch)
    reported: set[str] = field(default_factory=set)
    """Notes on its clock that were shown."""
    mtime_checked: bool = False
    answered_at: float | None = None
    """Of a poller that does not answer: when it did last, by the clock of arrival."""


class Intake:
    """The logs of a session that is fed while somebody watches."""

    def __init__(self, session: Session, feed: Feed, clock: Callable[[], float] = time.monotonic) -> None:
        self.logs: dict[tuple[Path, str | None], WatchedLog] = {}
        self._session, self._feed, self._clock = session, feed, clock
        self._begun = self._clock()
        self._set: list[tuple[int | None, float, float]] = []
        """Clocks that were put forward: their kind, by how much, and how late their lines had come."""

    def log(self, log: LogFile) -> WatchedLog:
        """A log, new or known."""
        key = (log.path, log.member)
        held = self.logs.get(key)
        if held is None:
            held = self.logs[key] = WatchedLog(self._session.add_source(log.name), log.name)
        return held

    @property
    def of_run(self) -> list[WatchedLog]:
        """The logs that the run itself writes; what pollers say is none of them."""
        return [held for held in self.logs.values() if not held.state.polled]

    def hear(self, held: WatchedLog, block: Block, present: RunClock) -> bool:
        """The next lines of a poller, asked just now: so much is its clock behind the run's; whether that is new."""
        state, clock, known = held.state, self._feed.clock(), held.state.ahead_s
        for polled in polled_blocks(block):
            self._session.feed(state, polled)
            for reading in polled.readings:
                if reading is not None and reading.area is Area.POLLER:
                    held.answered_at = unanswered_since(reading, clock)
        now = present.actual(clock)
        if now is not None and state.last is not None:
            undated = any(held.state.kind in (YEARLESS, DAYTIME) for held in self.of_run)
            state.ahead_s = polled_ahead(now - state.last, known, undated=undated)
        return state.ahead_s != known

    def unanswered(self) -> Iterator[tuple[WatchedLog, float]]:
        """The logs of pollers that do not answer, and for how many seconds."""
        clock = self._feed.clock()
        for held in self.logs.values():
            if held.answered_at is not None:
                yield held, max(0.0, clock - held.answered_at)

    def take(self, held: WatchedLog, block: Block, present: RunClock) -> None:
        """The next lines of a log; of the moment where they tell none and somebody watches."""
        session, state, clock = self._session, held.state, self._feed.clock()
        watched = not self._feed.of_past
        now = present.awaited(clock) or present.now(clock)
        at = moment(session, clock, now) if watched and needs_arrivals(session, state) else None
        if at is not None and session.clock(state).by_arrival:
            session.clock(state).arrived(at)
        scanned = session.feed(state, block)
        if scanned is not None:
            held.unparsed.look(block, scanned, clock)
        if at is not None and needs_arrivals(session, state):
            arrived(session, state, at, block)
        if self._feed.caught_up:
            self._set_right(held, clock)

    def _set_right(self, held: WatchedLog, clock: float) -> None:
        """Remove a step of a log's clock: arrivals show it before other logs can prove it."""
        state, known, own = held.state, held.clock.lag, self._session.clock(held.state)
        step = held.clock.observe(state, clock, own.set_back)
        if known is None:
            step = next((step for clock_set in self._set if (step := follows(state, clock, *clock_set))), None)
        elif step is not None and step.seconds > 0.0:
            self._set.append((state.kind, step.seconds, known))
        if step is not None:
            remove_clock_step(self._session.store, own, step)

    def trusted_sources(self) -> list[WatchedLog]:
        """The logs whose clock was not set, as far as is known."""
        clock = self._feed.clock()
        return [held for held in self.logs.values() if not held.clock.is_doubtful(clock)]

    def has_doubtful_clock(self) -> bool:
        """Return True if some log may be ahead of its time; soon that is known."""
        clock = self._feed.clock()
        return any(held.clock.may_be_ahead(clock) for held in self.logs.values())

    def news(self) -> list[str]:
        """Return new notes about clocks that were set."""
        news = []
        for held in self.logs.values():
            if held.clock.anomaly:
                held.state.note(held.clock.anomaly)
            notes = {note for note in held.state.notes if note.startswith(SET) or note == held.clock.anomaly}
            news += [f"{held.shown}: {note}" for note in sorted(notes - held.reported)]
            held.reported |= notes
        return news

    def written(self) -> list[tuple[WatchedLog, float]]:
        """Times of the last writes to the files of logs, in seconds since 1970."""
        told = []
        for (path, member), held in self.logs.items():
            changed = self._feed.changed_at(LogFile(held.shown, path, member))
            if changed is not None:
                told.append((held, changed))
        return told

    def changed(self) -> list[tuple[WatchedLog, float]]:
        """As `written`; a log that tells no time is of then."""
        told = self.written()
        for held, changed in told:
            if held.state.lines and needs_arrivals(self._session, held.state):
                at = moment(self._session, changed, None)
                if at is not None:
                    arrived(self._session, held.state, at)
        return told

    def date_by_files(self) -> set[int]:
        """The days of logs without dates, as their files tell them: of each log once, as soon as it was read."""
        dated: set[int] = set()
        for (path, member), held in self.logs.items() if self._feed.caught_up else ():
            if held.mtime_checked or held.state.first is None:
                continue
            held.mtime_checked = True
            changed = self._feed.changed_at(LogFile(held.shown, path, member))
            if changed is not None:
                apply_mtime(held.state, changed)
                dated.add(held.state.index)
        return dated

    def days_open(self) -> bool:
        """Logs without dates may be of different days: when their files were written says so once they are read."""
        if self._feed.caught_up or self._clock() - self._begun > _PATIENCE_S:
            return False
        return sum(state.kind == DAYTIME for state in self._session.store.sources) > 1


def unanswered_since(reading: Reading, clock: float) -> float | None:
    """Return the time of a poller's last answer, by its reading about itself at `clock`; None if it answers."""
    if reading.words.get("state") not in _UNANSWERED:
        return None
    return clock - reading.values.get("age_s", 0.0)


# --- What a picture tells of each log ---

_SHARE = 0.01
"""The most of a core that it may take: there may be a thousand logs."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The time at which logs are listed."""

    clock: float
    """The clock of arrival, in seconds."""
    alignment: Alignment
    over: bool
    """Nothing more will come."""


class Listing:
    """Tells of logs, of very many not with every picture."""

    def __init__(self, session: Session, clock: Callable[[], float] = time.monotonic) -> None:
        self._session, self._clock = session, clock
        self._spacing = DutyCycleLimiter(_SHARE)
        self._told: tuple[SourceStatus, ...] = ()

    def told(self, logs: Sequence[WatchedLog], now: Moment, *, live: bool) -> tuple[SourceStatus, ...]:
        """The logs as they are; of a run that goes on (`live`), as they were just before if there are very many."""
        began = self._clock()
        if not live or len(logs) != len(self._told) or self._spacing.due(began):
            offsets = {offset.source: offset.seconds for offset in now.alignment.offsets}
            self._told = tuple(self._source(held, now, offsets.get(held.state.index)) for held in logs)
            self._spacing.done(began, self._clock() - began)
        return self._told

    def _source(self, held: WatchedLog, now: Moment, offset_s: float | None) -> SourceStatus:
        state, lively, clock = held.state, held.lively, now.clock
        lively.count(clock, state.lines, state.bytes)
        lines_per_s, bytes_per_s = lively.rates()
        names = self._session.scanner.pattern_names
        patterns = {names[at]: count for at, count in sorted(state.patterns.items())}
        packs = sorted({name.partition("/")[0] for name in patterns})
        return SourceStatus(
            index=state.index,
            name=held.shown,
            freshness=Freshness.ENDED if now.over else lively.freshness(clock, state),
            format="+".join(packs) or "unknown",
            bytes=state.bytes,
            lines=state.lines,
            events=sum(state.patterns.values()),
            bytes_per_s=bytes_per_s,
            lines_per_s=lines_per_s,
            age_s=None if lively.read_at is None else max(0.0, clock - lively.read_at),
            last=last_of(held, now.alignment),
            errors=state.errors,
            skipped=state.skipped,
            notes=tuple(state.notes),
            patterns=patterns,
            unparsed=held.unparsed.lines,
            offset_s=offset_s,
        )


def last_of(held: WatchedLog, alignment: Alignment) -> float | None:
    """The moment of a log's last line, on the run's axis."""
    last = stands_at(held.state)
    return None if last is None else last + alignment.shifts.get(held.state.index, 0.0)
