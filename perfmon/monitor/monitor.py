"""Runs a session in a thread of its own and publishes its state."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from perfmon.core import Config, PerfmonError
from perfmon.logbuffer import LogBuffer
from perfmon.sources.follow import wait_for_event
from perfmon.viewmodel import AlertKey, MonitorState, TimeRange, empty_picture

if TYPE_CHECKING:
    from .feeds import Feed
    from .hang_watch import HangSources
    from .worker import Watch


Listener = Callable[[MonitorState], None]
PERIOD_S = 0.5
_SLOW_S = 2.0
_TOGETHER_S = 0.01
"""Least time between two notifications of new lines."""
_READY, _PATIENCE, _CALM, _SILENT = 0.75, 1.25, 2.0, 4.0
"""Shares of a period: from when on a picture is made with the next news, by when it is made without any, by when
where there was none for a while, and by when where logs have been silent for long."""
_LONG_S = 10.0
"""Logs that are silent for so long are likely to stay so for some seconds more."""
_TELL_S = 3.0
_TURN_S = 0.05
"""Time of reading before pictures have their turn."""
_LOOK_S = 0.05
"""Interval of checking whether the history was read."""
_WAY_S = 0.04
_END_S = 1.0
"""Longest wait for the end of reading."""
_MEMORY_MB = 7
"""Some hours of a run in full, and the rest of it thinned: a monitor stays open for days."""
_NOTICES = 20


class Monitor:
    """Watches a run.

    All public methods may be called from any thread and return at once; their effect is in a later picture.
    `wake` and the listeners are called in the monitor's thread and must not block.
    """

    def __init__(
        self,
        feed: Callable[[], Feed],
        config: Config,
        *,
        window_s: float = 600.0,
        memory_mb: int | None = None,
    ) -> None:
        """`memory_mb` is what the store may keep, where the configuration leaves it open."""
        self.config = replace(config, memory_mb=config.memory_mb or memory_mb or _MEMORY_MB)
        self.window_s = window_s
        self.logbook = LogBuffer()
        self.picture = empty_picture(window_s)
        self.failed: PerfmonError | Exception | None = None
        """The error that ended the monitor, if it ended by itself."""
        self.together = False
        """What is watched are several runs, by their folders."""
        self.unfound = ""
        """Reason why the sources hold no logs."""
        self.listeners: list[Listener] = []
        """Called with every picture after an evaluation, and with one now and then without."""
        self.notices: deque[str] = deque(maxlen=_NOTICES)
        self._feed_of = feed
        self._time_range = TimeRange()
        self._wake: Callable[[], None] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake_event: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._period_s = PERIOD_S
        self._pictured_at = self._read_at = self._woken_at = 0.0
        self._new_lines = False
        self._published_at = time.monotonic()  # listeners soon get the state of a run without output, too
        self._way_until = 0.0
        self._watch: Watch | None = None
        self.feed: Feed | None = None
        """The feed, once the thread has made it: it contains the controls of a replay."""
        self._requests: deque[Callable[[Watch], object]] = deque()

    # --- life -------------------------------------------------------------------------------------------------
    def start(self, wake: Callable[[], None] | None = None) -> None:
        """Start the thread; `wake` is called after every new picture and new log lines."""
        if wake is not None:
            self._wake = wake
        self._thread = threading.Thread(target=self._run, name="perfmon-monitor", daemon=True)
        self._thread.start()

    def stop(self, patience_s: float = 2.0) -> None:
        """Stop the thread and close the recording. Returns when that is done, or after `patience_s`."""
        self._stopping.set()
        self._wake_thread()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(patience_s)

    def abandon(self) -> None:
        """Close the recording of a process that is about to exit (in the monitor's thread)."""
        if self._watch is not None:
            self._watch.close()

    @property
    def running(self) -> bool:
        """The thread is at work."""
        return self._thread is not None and self._thread.is_alive()

    # --- requests -------------------------------------------------------------------------------------------------
    def look(
        self, end: float | None, span_s: float | None, columns: int, charted: tuple[str, ...] = (), points: int = 0
    ) -> None:
        """Set the part of the axis in view: `span_s` seconds (None: as much as is judged) up to `end` (None: now), and
        the lanes that are shown as charts, in so many points."""
        shown = TimeRange(end, None if span_s is None else max(1.0, span_s), max(1, columns), charted, points)
        if shown != self._time_range:
            self._time_range = shown
            self._wake_thread()

    def give_way(self) -> None:
        """Pause reading and judging for a moment: a key was pressed, and the screen needs the same core."""
        self._way_until = time.monotonic() + _WAY_S

    def slow(self, slow: bool) -> None:
        """Make fewer pictures, while the screen is not visible."""
        self._period_s = _SLOW_S if slow else PERIOD_S
        self._wake_thread()

    def judge_window(self, seconds: float) -> None:
        """Set the analysis window in seconds."""
        self.window_s = seconds
        self.ask(lambda watch: watch.judge_window(seconds))

    def toggle_baseline(self) -> None:
        """Learn thresholds from this run, or use those given again."""
        self.ask(lambda watch: watch.toggle_baseline())

    def ack(self, key: AlertKey) -> None:
        """Acknowledge an alert."""
        self.ask(lambda watch: watch.alerts.ack(key))

    def silence(self, key: AlertKey, seconds: float) -> None:
        """Silence an alert for so long."""
        self.ask(lambda watch: watch.silence(key, seconds))

    def undo(self, key: AlertKey) -> None:
        """Undo acknowledgement and silence."""
        self.ask(lambda watch: watch.alerts.undo(key))

    def allow(self, sources: HangSources) -> None:
        """Use sources that touch a run, once it hangs."""
        self.ask(lambda watch: watch.allow(sources))

    def record(self, path: str) -> None:
        """Start a recording; a failure becomes a notice."""
        self.ask(lambda watch: watch.record(path))

    def toggle_recording(self, path: str) -> None:
        """Stop the current recording, or start one; an existing file is kept."""
        self.ask(lambda watch: watch.record(path, toggle=True))

    def stop_recording(self) -> None:
        """Stop the recording."""
        self.ask(lambda watch: watch.stop_recording())

    def finish(self) -> None:
        """Read the last lines that have no end: the monitor is about to be stopped."""
        self.ask(lambda watch: watch.finish())

    def ask(self, what: Callable[[Watch], object]) -> None:
        """Run `what` in the monitor's thread, before the next picture."""
        self._requests.append(what)
        self._wake_thread()

    # --- the thread -------------------------------------------------------------------------------------------
    def _wake_thread(self) -> None:
        loop, event = self._loop, self._wake_event
        if loop is not None and event is not None:
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(event.set)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except* PerfmonError as group:
            self.failed = next(_leaves(group))
        except* Exception as group:
            self.failed = next(_leaves(group))
        self._wake()

    async def _main(self) -> None:
        from .worker import Watch

        self._loop, self._wake_event = asyncio.get_running_loop(), asyncio.Event()
        feed = self.feed = self._feed_of()
        self._watch = watch = Watch(feed, self.config, self.window_s, self.logbook, self.notices)
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(self._read(feed, watch))
            try:
                await self._publish(feed, watch, reading)
            finally:
                reading.cancel()
                watch.finish()
                watch.close()
                await asyncio.wait([reading], timeout=_END_S)  # before what it reads is closed
                await feed.close()

    async def _read(self, feed: Feed, watch: Watch) -> None:
        from .feeds import ResetMarker

        loop, turned = asyncio.get_running_loop(), 0.0
        async with aclosing(feed.items()) as items:  # type: ignore[type-var]  # all are generators
            async for log, item in items:
                if not watch.take(log, item):
                    continue  # the next picture is soon enough for readings
                now = self._read_at = time.monotonic()
                if now < self._way_until:
                    await asyncio.sleep(self._way_until - now)
                elif self._new_lines and now - turned >= _TURN_S:
                    await asyncio.sleep(0)  # a flood gives more at one go than is read between two pictures
                    turned = time.monotonic()
                if not isinstance(item, ResetMarker) and not self._new_lines:
                    # Once the feed rests: items that come together are notified once.
                    self._new_lines, turned = True, now
                    loop.call_later(max(0.0, self._woken_at + _TOGETHER_S - now), self._notify_new_lines)
        watch.ended = True

    def _notify_new_lines(self) -> None:
        """Notify the screen of new lines, together with a picture if that is due soon."""
        self._new_lines = False
        now = self._woken_at = time.monotonic()
        if now - self._pictured_at >= _READY * self._period_s and self._wake_event is not None:
            self._wake_event.set()
        else:
            self._wake()

    async def _publish(self, feed: Feed, watch: Watch, reading: asyncio.Task[None]) -> None:
        """Publish a picture at every period, and at once on a request."""
        assert self._wake_event is not None  # noqa: S101
        while not self._stopping.is_set():
            while self._requests:
                self._requests.popleft()(watch)
            began = time.monotonic()
            if began < self._way_until:
                await asyncio.sleep(self._way_until - began)
            judged = watch.judge_if_due(began)
            picture = watch.picture(self._time_range, self.picture.number + 1)
            if self.together or self.unfound:
                picture = replace(picture, together=self.together, unfound=self.unfound)
            self.picture = picture
            self._pictured_at = began
            self._wake()
            if judged or began - self._published_at >= _TELL_S:
                self._published_at = began
                for listener in self.listeners:
                    listener(self.picture)
            if reading.done():
                reading.result()
            self._wake_event.clear()
            if self._requests or self._stopping.is_set():
                continue
            await self._rest(feed, began + self._patience(began, watch) * self._period_s)

    def _patience(self, now: float, watch: Watch) -> float:
        """By when to make the next picture, in periods."""
        if watch.steered or self._read_at >= now - self._period_s:
            return _PATIENCE
        # Without new lines only clocks, ages and readings change.
        return _SILENT if 0.0 < self._read_at < now - _LONG_S and self._period_s == PERIOD_S else _CALM

    async def _rest(self, feed: Feed, until: float) -> None:
        """Wait until the next picture is due, a request comes, or the history was read."""
        assert self._wake_event is not None  # noqa: S101
        if feed.caught_up:
            await wait_for_event(self._wake_event, max(0.05, until - time.monotonic()))
            return
        while not self._wake_event.is_set() and not feed.caught_up:
            try:
                async with asyncio.timeout(min(max(0.05, until - time.monotonic()), _LOOK_S)):
                    await self._wake_event.wait()
            except TimeoutError:
                if time.monotonic() >= until:
                    return


def _leaves(group: BaseExceptionGroup[Exception]):  # type: ignore[no-untyped-def]
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
