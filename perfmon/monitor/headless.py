"""A run without a screen: its logs as they are, or followed for some seconds."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from perfmon.clocks import align
from perfmon.core import BUILTIN, Block, Config, Notice, TimeBase, UsageError, parse_duration
from perfmon.diagnosis import Diagnosis
from perfmon.logbuffer import LogBuffer
from perfmon.pipeline import MEMORY_MB, Options, Progress, Session, read
from perfmon.sources import ARCHIVES, STDIN, LineSplitter, LogFile, discover
from perfmon.viewmodel import MonitorState, RunState, TimeRange

from .feeds import Feed, FollowFeed
from .monitor import Monitor
from .worker import Watch

TAIL = 4 << 20
"""The most bytes of a log, from its end, that `glance` reads."""
_GLANCE = 64 << 20
"""The most bytes that it reads in all."""
_EVERYTHING_S = 1e8
_TIMELINE_S, _COLUMNS = 600.0, 200
"""Of the timeline only the last weight updates are shown."""
_LOOK_S = 0.5
_PATIENCE_S = 10.0
_PASSES = 2
"""The first judgement shows that a run stands still or is over, and so which time the second one judges."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The result of `observe`."""

    snapshot: Diagnosis
    picture: MonitorState | None = None
    """Alerts and freshness; None if nothing was followed."""
    watched_s: float = 0.0
    """Time for which the logs were followed after their history."""
    interrupted: bool = False
    """Ended with Ctrl+C before its time."""
    logbook: LogBuffer | None = None
    """The newest lines, if there is a picture."""


def observe(
    specs: Sequence[str],
    config: Config,
    window: str | None = None,
    for_s: float | None = None,
    progress: Progress | None = None,
    following: Callable[[], None] = lambda: None,
    columns: int | None = None,
    feed: Callable[[], Feed] | None = None,
) -> Observed:
    """Read the logs, then follow them for `for_s` seconds (None: not at all).

    `window` is judged, back from the last line (`10m`; None: everything). An interrupt while following ends it early;
    while the history is read it raises KeyboardInterrupt. `following` is called after the history. With `columns`
    there is a picture even if nothing is followed, and its timeline has so many. `feed` replaces `specs`.
    Raises UsageError and InputError.
    """
    if feed is None and for_s is None and columns is None:
        session = read(Options(specs=tuple(specs), jobs=config.jobs, config=config), progress)
        return Observed(_judged(session, window))
    if specs or feed is None:
        discover(specs)  # raises at once for what does not exist or is empty
    return _Watch(specs, config, window, for_s, columns, feed).run(following)


class OneShot(NamedTuple):
    """The result of `glance`."""

    picture: MonitorState
    """As a monitor that was started now would show it; its snapshot is None where nothing was recognised."""
    short: int
    """Number of logs of which only the end was read."""
    unread: int
    """Number of logs that were not read."""


def glance(
    specs: Sequence[str],
    config: Config,
    window: str | None = None,
    polled: Sequence[tuple[LogFile, Block]] = (),
) -> OneShot:
    """Diagnose the last TAIL bytes of each log, and what pollers have just read, as a monitor does.

    Compressed logs, archives and recordings are not read: their ends cannot be had without all the rest. Raises
    UsageError and InputError.
    """
    logs = discover(specs) if specs or not polled else []
    if any(log.path == STDIN for log in logs):
        raise UsageError("standard input cannot be read repeatedly: name files, or start a monitor")
    files = [log for log in logs if log.compression is None and log.member is None]
    unread = sum(log.compression != ARCHIVES for log in logs) - len(files)
    ends = _Ends()
    window_s = _EVERYTHING_S if window is None else parse_duration(window)
    # The ends of logs do not show how the run began: nothing can be learned from them.
    watch = Watch(ends, replace(config, baseline=BUILTIN), window_s, LogBuffer(), deque())
    most = min(TAIL, _GLANCE // max(1, len(files)))
    short = sum(not _read_end(watch, log, most) for log in files)
    for log, block in polled:
        watch.take(log, block)
    ends.read = True
    for _ in range(_PASSES):
        watch.judge_window(window_s)  # it is due again
        watch.judge_if_due(time.monotonic())
    picture = watch.picture(TimeRange(), 1)
    watch.close()
    return OneShot(picture, short, unread)


class _Ends(Feed):
    """The ends of files, all of which were there at the start."""

    read = False

    def clock(self) -> float:
        return time.time()

    @property
    def caught_up(self) -> bool:
        return self.read

    def changed_at(self, log: LogFile) -> float | None:
        with suppress(OSError):
            return log.path.stat().st_mtime
        return None


def _read_end(watch: Watch, log: LogFile, most: int) -> bool:
    """Read the end of a log; return True if that was all of it."""
    cutter = LineSplitter()
    try:
        with log.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - most)
            file.seek(start)
            data = file.read(most)
    except OSError as error:
        watch.take(log, Notice(f"{log.name}: cannot be read: {error.strerror}", "lost"))
        return False
    if start:
        data = data[data.find(b"\n") + 1 :]
    for item in (*cutter.feed(data), *cutter.finish()):
        watch.take(log, item)
    return start == 0


def _judged(session: Session, window: str | None) -> Diagnosis:
    """Diagnose the window; everything if no line has a clock."""
    timed = window is not None and align(session.store).base is not TimeBase.NONE
    return session.snapshot(since=window if timed else None)


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Treat SIGTERM (job cancelled) and SIGHUP (terminal closed) like Ctrl+C: the report is still written."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    taken = [number for number, known in before.items() if known is not signal.SIG_IGN]  # nohup is respected
    for number in taken:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])


class _Watch:
    """A monitor without a screen: reads the history, then continues for a while."""

    def __init__(
        self, specs: Sequence[str], config: Config, window: str | None, for_s: float | None, columns: int | None,
        feed: Callable[[], Feed] | None = None,
    ) -> None:  # fmt: skip
        self._specs, self._config, self._window, self._for_s = specs, config, window, for_s
        self._window_s = _EVERYTHING_S if window is None else parse_duration(window)
        self._monitor = Monitor(
            feed or (lambda: FollowFeed(specs)), config, window_s=self._window_s, memory_mb=MEMORY_MB
        )
        self._columns, self._own_feed = columns, feed is not None
        self._monitor.look(None, min(self._window_s, _TIMELINE_S), columns or _COLUMNS)
        self._updated = threading.Event()
        self._judged = threading.Event()
        self._monitor.listeners.append(lambda _: self._judged.set())

    def run(self, following: Callable[[], None]) -> Observed:
        """Run until the time is over, every log has ended, or Ctrl+C or SIGTERM."""
        self._monitor.start(self._updated.set)
        interrupted = False
        try:
            self._until(lambda picture: picture.state is not RunState.LOADING)
            began = time.monotonic()
            try:
                with _terminated_like_interrupted():
                    if self._for_s is not None:
                        following()
                        self._until(lambda picture: picture.state is RunState.ENDED, self._for_s)
            except KeyboardInterrupt:
                interrupted = True
            watched = time.monotonic() - began
            self._monitor.finish()
            picture = self._last()
        finally:
            self._monitor.stop()
        return Observed(picture.snapshot or self._read(), picture, watched, interrupted, self._monitor.logbook)

    def _until(self, done: Callable[[MonitorState], bool], for_s: float = float("inf")) -> None:
        end = time.monotonic() + for_s
        while not done(self._monitor.picture) and (left := end - time.monotonic()) > 0:
            if self._monitor.failed is not None:
                raise self._monitor.failed
            self._updated.wait(min(left, _LOOK_S))
            self._updated.clear()

    def _last(self) -> MonitorState:
        """State after a new evaluation: the last one may be a second old."""
        known = self._monitor.picture.snapshot
        if self._columns is not None and known is not None:  # on display: all that is judged is shown
            self._monitor.look(None, min(self._window_s, max(1.0, known.run.wall_s)), self._columns)
        self._judged.clear()
        self._monitor.judge_window(self._window_s)
        self._judged.wait(_PATIENCE_S if known is not None else 0.0)
        return self._monitor.picture

    def _read(self) -> Diagnosis:
        """Diagnose without a monitor that had something to judge: the report lists the logs all the same."""
        if self._own_feed:
            return _judged(Session(self._config), self._window)
        return _judged(read(Options(specs=tuple(self._specs), jobs=1, config=self._config)), self._window)
