"""State of the monitor's thread: the session, its alerts, the state of its logs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from perfmon.alerting import AlertManager
from perfmon.clocks import Alignment, align, axis_moved
from perfmon.core import AUTO, BUILTIN, WATCHED, Block, Config, Notice, Progress, TimeBase
from perfmon.diagnosis import Diagnosis
from perfmon.logbuffer import LogBuffer
from perfmon.pipeline import Session
from perfmon.sources import ARCHIVES, LogFile
from perfmon.viewmodel import Alert, AlertKey, Board, MonitorState, Now, RunState, TimelineBuilder, Viewport

from .feeds import Feed, ResetMarker
from .hang_watch import HangWatch
from .ingest import Ingest, SourceList, WatchedLog, ended_where_silent, last_of
from .recorder import Past, Recorder
from .scheduling import LONGEST_WINDOW_S, DutyCycleLimiter, EvaluationScheduler, RunClock, day_known, judged_s
from .source_health import files_open_to_write, is_awaited, since_when, with_present

if TYPE_CHECKING:
    from perfmon.diagnosis import Part
    from perfmon.viewmodel import TimeRange, Transition

    from .hang_watch import HangSources

_POLLS_S = 5.0
"""Without logs, readings are judged at this interval; otherwise with the logs, or after a while without output."""
_AHEAD_S = 1.0
"""The clock may be this much ahead of the present, which waits for the next line."""
_FAR = 2
"""Times the size of the log buffer."""
_ALIGNING, _DRAWING = 0.01, 0.1
"""Largest share of a core for aligning clocks, and for the timeline while the history is read."""


class Watch:
    """The run as it is being watched; used by the monitor's thread alone."""

    def __init__(
        self, feed: Feed, config: Config, window_s: float, logbook: LogBuffer, notices: deque[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`clock`, in seconds, measures the work, which is spaced by its cost; the run's own time is the feed's."""
        self.ended = False
        """Nothing more will come."""
        self._feed, self._config, self._window_s, self._judged_s = feed, config, window_s, window_s
        self._logbook, self._notices, self._clock = logbook, notices, clock
        self._recorder = Recorder(notices)
        self._most_behind = 0
        self._begin()

    def _begin(self) -> None:
        self.session = Session(self._config)
        self.alerts = AlertManager(self._window_s)
        self._build_board()
        self._logbook.packs = self.session.scanner.packs
        self._ingest = Ingest(self.session, self._feed, self._clock)
        self._logs = self._ingest.logs
        self._present = RunClock(self._window_s)
        self._pace = EvaluationScheduler(played=self._feed.player is not None)
        self._snapshot: Diagnosis | None = None
        self._alerts: tuple[Alert, ...] = ()
        self._alignment, self._aligned = align(self.session.store), -1
        self._aligning, self._drawing = DutyCycleLimiter(_ALIGNING), DutyCycleLimiter(_DRAWING)
        self._source_list = SourceList(self.session, self._logbook.levels, self._clock)
        self._hangs = HangWatch(self.session, self._ingest, self._feed, self._clock)
        self._drawn: Board | None = None
        self._dated: set[int] = set()
        self._run_has_time, self._baseline_note = False, ""
        self._history_dated = self._first_full_pass_done = self._fresh_lines = False
        self._pending_polls, self._polls_counted_at = 0, float("-inf")

    def _build_board(self) -> None:
        self._bands = self.session.knowledge.bands
        self._board = TimelineBuilder(self.session.store, self.session.recent, self._bands)

    def finish(self) -> None:
        """Take in the last lines that have no end: following ends."""
        for log, item in self._feed.finish():
            self.take(log, item)

    def close(self) -> None:
        """Closes what is being recorded, and ends the search for dumps."""
        self._recorder.end()
        self._hangs.close()

    # --- what comes in ------------------------------------------------------------------------------------------
    def take(self, log: LogFile, item: Block | Notice | ResetMarker) -> bool:
        """Take in the next item of the feed; return False for a poller's."""
        if isinstance(item, ResetMarker):
            self._logbook.clear()
            self._begin()
            return True
        if log.compression == ARCHIVES and isinstance(item, Notice):
            self._notices.append(item.text)  # a folder, and no log of the run
            return True
        self._recorder.take(log.name, item, self._feed.clock())
        held = self._ingest.log(log)
        if isinstance(item, Notice):
            self.session.notice(held.state, item)
            if item.kind in ("lost", "capped", "rotated", "truncated", "gone"):
                self._notices.append(item.text)
            return True
        if held.state.polled:
            self._ingest_poll(held, item)
            return False
        path = log.path if log.member is None and log.compression is None else None
        clock, live = self.session.clock(held.state), self._feed.caught_up
        behind, lines, size = 0 if live or self.steered else self._feed.behind, held.state.lines, held.state.bytes
        self._ingest.ingest(held, item, self._present, self._alignment.shifts.get(held.state.index, 0.0))
        # Of a long history the ring keeps the end alone: all that comes before is not even cut into pieces.
        if behind > _FAR * self._logbook.budget and not self._logbook.keeps(held.state.index):
            read = held.state.lines - lines, held.state.bytes - size
            self._logbook.skipped(held.state.index, held.shown, *read, path)
        else:
            self._logbook.append(held.state.index, held.shown, item, clock, path, live=live)
        held.health.arrived(self._feed.clock(), self._feed.caught_up)
        self._fresh_lines = True
        return True

    def _ingest_poll(self, held: WatchedLog, block: Block) -> None:
        """Take in a poller's readings: they are judged with the next lines of the run."""
        before, fresh, now = self.session.store.version, held.state.last is None, self._clock()
        fresh |= self._ingest.ingest_poll(held, block, self._present)
        if not fresh and self._aligned == before:
            self._aligned = self.session.store.version
        if fresh or (now - self._polls_counted_at >= _POLLS_S and not self._ingest.run_sources):
            self._polls_counted_at = now
        else:
            self._pending_polls += self.session.store.version - before
        self._fresh_lines = True

    def _now(self) -> float | None:
        """The present on the axis, with all that has arrived."""
        clock, present = self._feed.clock(), self._present
        if self._fresh_lines:
            self._fresh_lines = False
            newest = max(
                (t for one in self._timed_sources() if (t := last_of(one, self._alignment)) is not None), default=None
            )
            if newest is not None and not self._history_dated:
                present.loaded(newest)
            elif newest is not None:
                present.arrived(newest, clock)
        if self._feed.caught_up and not self._history_dated:
            self._history_dated = True
            self._date_history(clock)
        return present.now(clock, over=self._run_over)

    def _timed_sources(self) -> list[WatchedLog]:
        """The logs that define the present: those of the run, if any of them has times."""
        sure = self._ingest.trusted_sources()
        if not any(held.state.last is not None for held in self._ingest.run_sources):
            return sure
        if not self._run_has_time:
            self._start_run_time()
        return [held for held in sure if not held.state.polled]

    def _start_run_time(self) -> None:
        """Start the present from the first time of the run: until now it was that of the pollers' clock."""
        self._run_has_time = True
        if self._present.newest is None:
            return
        self._present = RunClock(self._window_s)
        self.alerts = AlertManager(self._window_s)
        self._pace = EvaluationScheduler(played=self._feed.player is not None)  # what is known is judged again, at once
        for held in self._logs.values():
            held.state.ahead_s = None

    def _date_history(self, clock: float) -> None:
        """Date the end of the history by the last writes to the files."""
        player, opened = self._feed.player, cache(files_open_to_write)
        times = self._ingest.date_by_mtimes(self._alignment, copies=player is None)  # logs without clocks have some now
        timed = {id(held) for held in self._timed_sources()}
        ends = self._ingest.date_tails(times)
        for held, changed in times:
            end, shift = ends.get(held.state.index), self._alignment.shifts.get(held.state.index, 0.0)
            last = last_of(held, self._alignment) if end is None else end + shift
            if last is not None and id(held) in timed:
                waited = player is not None and changed >= player.timeline.start
                if player is None and clock - changed >= self._window_s:  # one of less needs no proof
                    waited = is_awaited(held.path, held.state, self.session.store, clock - changed, opened)
                self._present.written(last, changed, clock, waited=waited)
            held.health.arrived(changed, live=False)

    def _align(self) -> Alignment:
        if dated_now := self._ingest.find_days():
            self._aligned, self._fresh_lines = -1, True
            self._dated -= dated_now
        version, began = self.session.store.version, self._clock()
        if version == self._aligned or self._ingest.has_doubtful_clock():
            return self._alignment
        sources = self.session.store.sources
        dated = {state.index for state in sources if state.first is not None and not state.polled}
        # A log that is not aligned yet, or whose true time came just now, may be hours away, or years.
        if dated != self._dated or self.session.store.moves or self._aligning.due(began):
            before, self._alignment = self._alignment, self.session.lay()
            self._aligned = self.session.store.version
            self._aligning.done(began, self._clock() - began)
            self._logbook.align(self._alignment.shifts)
            moved, self._dated = axis_moved(before, self._alignment, self._dated, self.session.store.moves), dated
            self.session.store.moves = {}
            if moved:
                self._present.move(moved)
                self.alerts.shift(moved)
        return self._alignment

    # --- requests -----------------------------------------------------------------------------------------------
    def judge_window(self, seconds: float) -> None:
        """Set the analysis window in seconds."""
        self._window_s = self._judged_s = self._present.window_s = seconds
        self._pace = EvaluationScheduler(played=self._feed.player is not None)

    def allow(self, sources: HangSources) -> None:
        """Use sources that touch a run that hangs."""
        self._hangs.allow(sources)

    def silence(self, key: AlertKey, seconds: float) -> None:
        """Silences an alert from the present on."""
        clock = self._feed.clock()
        if (now := self._present.now(clock)) is not None:
            actual = self._present.actual(clock)
            self.alerts.silence(key, now + seconds, None if actual is None else actual + seconds)

    def record(self, path: str, *, toggle: bool = False) -> None:
        """Begin a recording; with `toggle` end the current one instead, if there is one."""
        begin = self._recorder.toggle if toggle else self._recorder.begin
        begin(path, [held.shown for held in self._logs.values()], self._feed.clock(), self._past())

    def _past(self) -> Past:
        """The lines of the log pane: a recording starts with them."""
        return Past(self._logbook.held(), [(held.shown, changed) for held, changed in self._ingest.mtimes()])

    def stop_recording(self) -> None:
        """Ends a recording."""
        self._recorder.end()

    # --- what goes out --------------------------------------------------------------------------------------------
    @property
    def steered(self) -> bool:
        """Time is a replay's: it may go faster than the clock."""
        return self._feed.player is not None

    def judge_if_due(self, clock: float) -> bool:
        """Judge the window if there is something new and it is time; return True if it did."""
        self._notices += self._hangs.step()
        version, present = self.session.store.version - self._pending_polls, self._present.actual(self._feed.clock())
        open_still = self._ingest.has_doubtful_clock() or self._ingest.dates_pending()
        fresh = (self._feed.caught_up or self.ended) and not self._first_full_pass_done
        due = self._pace.due(clock, version, still=self._still) or self._pace.stall_begins(self._snapshot, present)
        if not version or not (fresh or due) or open_still:
            return False
        if fresh:  # windows judged until now were apart, with unjudged time between them
            self._first_full_pass_done, self.alerts = True, self.alerts.fresh_copy()
        began = self._clock()
        if self._feed.caught_up and not self._history_dated:
            self._align()
            self._now()  # dates the logs that have no clocks: with these it is another axis
            self._aligned = -1
        alignment = self._align()
        now = self._now()
        if now is None:  # no line has a clock: everything is judged, in order
            self._snapshot = self.session.snapshot(detail=WATCHED)
            now = self._snapshot.run.end
        else:
            awaited = self._present.awaited(self._feed.clock()) if self._history_dated else None
            self._judged_s = self._to_judge_s(now)
            self._snapshot = self.session.present((now - self._judged_s, now), alignment, awaited)
            if fresh:
                self._judge_past(self._snapshot, alignment, now, awaited)
        self._judge_all_if_over(alignment, now)
        actual = self._actual(now)
        if actual is not None and any(held.state.polled for held in self._logs.values()):
            of_now = self.session.present((actual - self._judged_s, actual), alignment, actual)
            self._snapshot = with_present(self._snapshot, of_now, self.session.knowledge.signatures)
        self._apply_baseline()
        if not self.steered:
            self._notices += self._hangs.watch(self._snapshot, alignment.shifts)
        self._notices += self._ingest.clock_notes()
        self._ingest.note_rhythms()
        # That the logs of a run that is over are silent is no news.
        stale_s, silent = (None, {}) if self._run_over else (self._stale_s(), self._silent())
        self._alerts = self.alerts.update(self._snapshot, now, stale_s, silent, actual)
        self._pace.judged(clock, self._clock() - began, version, now if actual is None else actual)
        return True

    def _judge_past(self, judged: Diagnosis, alignment: Alignment, now: float, awaited: float | None) -> None:
        """Find in all that was read when that began which holds now: no window shows more than itself."""

        def of_last(seconds: float) -> Diagnosis:
            return self.session.present((now - seconds, now), alignment, awaited)

        begin = self._ingest.first(alignment)
        if begin is None or not judged.findings or begin >= now - self._judged_s:
            return
        self.alerts.update(since_when(judged, of_last, now - begin, self._clock), now, None)
        if (needed_s := self._to_judge_s(now)) > self._judged_s:
            self._judged_s = needed_s
            self._snapshot = of_last(needed_s)

    def _to_judge_s(self, now: float) -> float:
        """The window; each reaches back to what came before logs fell silent, progress stopped or a loss diverged."""
        run = None if self._snapshot is None else self._snapshot.run
        times = [now, *([] if self._present.newest is None else [self._present.newest])]
        if run is not None and run.state in (Progress.STALLED, Progress.SILENT) and run.since is not None:
            times.append(run.since)
        lasting = {one.id for one in self.session.knowledge.signatures if one.kind == "fault" and one.lost is not None}
        times += [max(began, now - LONGEST_WINDOW_S) for began in self.alerts.begun(lasting)]
        return judged_s(self._window_s, self.session.store.progress.usual_step_s(), now - min(times))

    @property
    def _run_over(self) -> bool:
        """The run has ended, by its own logs."""
        return self._snapshot is not None and self._snapshot.run.state in (Progress.FINISHED, Progress.FAILED)

    def _judge_all_if_over(self, alignment: Alignment, now: float) -> None:
        """Judge a run that has ended as a whole, up to its end: neither its last minutes nor the time since then."""
        begin, end = self._ingest.first(alignment), self._present.newest
        if begin is None or end is None or begin >= end or self.steered or not self._run_over:
            return
        ended = self._snapshot is not None and self._snapshot.run.state is Progress.FINISHED
        awaited = None if ended else self._present.awaited(self._feed.clock())
        # From the start of all: a span may have begun before the first line.
        self._snapshot = self.session.present((float("-inf"), min(now, end)), alignment, awaited)

    def _actual(self, now: float) -> float | None:
        """The present time, if it is ahead of `now`, which waits for the run."""
        actual = self._present.actual(self._feed.clock()) if self._history_dated and not self.ended else None
        return actual if actual is not None and actual > now + _AHEAD_S else None

    def toggle_baseline(self) -> None:
        """Learn thresholds from this run, or use those given again; all is judged by them at once."""
        learns = self.session.config.baseline == BUILTIN
        self.session.use_baseline(AUTO if learns else BUILTIN)
        self._config, self._baseline_note = self.session.config, ""
        self._notices.append(
            "learning thresholds from the start of this run" if learns else "thresholds: built-in and your files"
        )
        self._pace = EvaluationScheduler(played=self._feed.player is not None)

    def _apply_baseline(self) -> None:
        """Apply learned thresholds, and report that."""
        note = self.session.baseline_note
        if note and note != self._baseline_note:
            self._baseline_note = note
            self._notices.append(note)
        if self.session.knowledge.bands is not self._bands:
            self._build_board()

    def _stale_s(self) -> float | None:
        """Age of the newest line, if every log is silent for longer than usual."""
        return None if not self._history_dated or self.ended else self._ingest.stale_s(self._present)

    def _silent(self) -> dict[str, float]:
        """The logs and pollers that are stale, and the time of their last output."""
        return {} if not self._history_dated or self.ended else self._ingest.silent(self._present, self._alignment)

    def picture(self, shown: TimeRange, number: int) -> MonitorState:
        """Build the current state."""
        from perfmon.viewmodel import viewport

        store, clock, player = self.session.store, self._feed.clock(), self._feed.player
        self._recorder.keep_up()
        alignment, now = self._align(), self._now()
        known = now if now is not None else 0.0 if self._snapshot is None else self._snapshot.run.end
        begin, ticks = self._ingest.first(alignment), self.alerts.transitions()
        port = viewport(shown, known, self._shown_s, begin, over=self._over or self._run_over)
        board = self._drawn_board(port, known, ticks, shown)
        overview = None if now is None else self._board.overview(begin, known, shown.columns, alignment, ticks)
        actual = self._actual(known)
        live = self._feed.caught_up and not self.steered and not self.ended
        sources = self._source_list.statuses(self._ingest.run_sources, clock, alignment, over=self._over, live=live)
        sources = ended_where_silent(sources) if self._run_over else sources
        kinds = set() if self.steered else {held.state.kind for held in self._ingest.run_sources}
        dated, yearless = day_known(known, alignment.base, kinds)
        return MonitorState(
            number=number, state=self._state(), time_base=alignment.base if store.sources else TimeBase.NONE, now=known,
            window_s=self._judged_s, snapshot=self._snapshot,
            alerts=self._alerts if self._snapshot is None else self.alerts.alerts(known, actual),
            board=board, sources=sources, lines=sum(source.lines for source in sources),
            lines_per_s=sum(source.lines_per_s for source in sources), progress=self._progress(),
            stale_s=self._stale_s(), recording=self._recorder.state(clock),
            position_s=None if player is None else player.position_s,
            duration_s=None if player is None else player.duration_s, speed=None if player is None else player.speed,
            notices=tuple(self._notices), seen=self.session.seen(alignment), links=self._feed.hosts, actual=actual,
            begin=begin, unjudged_s=self._unjudged_s(), collectives=self._feed.collectives, overview=overview,
            dated=dated, yearless=yearless, judged_until=self._pace.judged_until(store.version - self._pending_polls),
        )  # fmt: skip

    @property
    def _shown_s(self) -> float:
        """Seconds that are judged: of a run that is over, all of it."""
        run = None if self._snapshot is None else self._snapshot.run
        return self._judged_s if run is None else max(self._judged_s, run.end - run.start)

    def _unjudged_s(self) -> float | None:
        if self._snapshot is None or not self._first_full_pass_done or self._still:
            return None
        return self._pace.behind_s(self._clock(), self.session.store.version - self._pending_polls)

    def parts(self) -> tuple[Part, ...]:
        """Statistics of every metric of the window by log and group."""
        alignment, now = self._align(), self._now()
        return self.session.parts((None, None) if now is None else (now - self._judged_s, now), alignment)

    def _drawn_board(self, viewport: Viewport, known: float, ticks: tuple[Transition, ...], shown: TimeRange) -> Board:
        """The current timeline; while the history is read a slightly older one, if it is expensive."""
        began = self._clock()
        if self._drawn is None or self._feed.caught_up or self._drawing.due(began):
            version = self.session.store.version - self._pending_polls
            now = Now(viewport, known, self._alignment, self._snapshot, ticks, version, shown.charted, shown.points)
            self._drawn = self._board.build(now)
            self._drawing.done(began, self._clock() - began)
        return self._drawn

    @property
    def _over(self) -> bool:
        """Nothing more will come, unless a replay is rewound."""
        player = self._feed.player
        return self.ended or (player is not None and player.ended)

    @property
    def _still(self) -> bool:
        """Time does not pass."""
        player = self._feed.player
        return self._over or (player is not None and player.paused)

    def _state(self) -> RunState:
        if self._over:
            return RunState.ENDED
        player = self._feed.player
        if player is not None:
            return RunState.PAUSED if player.paused else RunState.REPLAY
        return RunState.LIVE if self._feed.caught_up else RunState.LOADING

    def _progress(self) -> float | None:
        """Share of the history that was read."""
        if self._feed.caught_up:
            return None
        behind = self._feed.behind
        read = sum(held.state.bytes for held in self._logs.values())
        self._most_behind = max(self._most_behind, behind + read)
        return 0.0 if not self._most_behind else 1.0 - behind / self._most_behind
