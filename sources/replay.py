"""Plays what was recorded, or made up, as if it happened now: at any speed, forwards and backwards."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfmon.core import Block, Notice
from perfmon.recording import Recording

from .blocks import TimedItem, together
from .discovery import LogFile

# --- The position of a replay on its time axis: speed, pause and seeks. May be used from any thread ---

SLOWEST, FASTEST = 0.1, 1000.0


class PlaybackControl:
    """A position that moves with a clock, in seconds of the timeline.

    It is worked out of the moment at which it last changed its pace, so it does not drift, and it never passes what
    has not been handed over yet (`upcoming`).
    """

    def __init__(self, speed: float, clock: Callable[[], float], *, paused: bool) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._since, self._from_s = clock(), 0.0
        self._speed = _possible(speed)
        self._paused = paused
        self._goal: float | None = None
        self._to_next = False
        self._upcoming = 0.0
        self._rewind = False

    @property
    def speed(self) -> float:
        """Seconds of the timeline a second: 0.1 to 1000 (others are cut to that), or infinite."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        with self._lock:
            self._stand_at(self.position())
            self._speed = _possible(speed)
        self._changed()

    @property
    def paused(self) -> bool:
        """Time stands still, but for a seek or step."""
        return self._paused

    @property
    def seeking(self) -> bool:
        """A seek or step is under way: items come at full speed."""
        return self._goal is not None or self._to_next or self._rewind

    def pause(self) -> None:
        """Time stands still, once a seek or step that is under way is done."""
        with self._lock:
            self._stand_at(self.position())
            self._paused = True
        self._changed()

    def resume(self) -> None:
        """Time passes again."""
        with self._lock:
            self._stand_at(self.position())
            self._paused = False
        self._changed()

    def seek(self, at_s: float) -> None:
        """Everything up to `at_s` at once, from the beginning when that is earlier than the position."""
        with self._lock:
            self._rewind = self._rewind or at_s < self.position()
            self._goal, self._to_next = at_s, False
        self._changed()

    def step(self, seconds: float | None = None) -> None:
        """Everything of the next `seconds` at once, or all of the next moment that has any; then a pause."""
        with self._lock:
            self.pause()
            if seconds is None:
                self._to_next = True
            else:
                self._goal = (self._from_s if self._goal is None else self._goal) + max(0.0, seconds)
        self._changed()

    def _changed(self) -> None:
        """Called after each command."""

    def take_rewind(self) -> float | None:
        """The position of a rewind that is due, once."""
        with self._lock:
            if not self._rewind:
                return None
            self._rewind, self._upcoming = False, 0.0
            self._stand_at(0.0)
            return 0.0 if self._goal is None else self._goal

    def position(self) -> float:
        """Everything up to here has been handed over."""
        with self._lock:
            if self._goal is not None:
                return self._from_s if self._rewind else min(max(self._from_s, self._upcoming), self._goal)
            return self._from_s if self._paused else max(self._from_s, min(self._by_clock(), self._upcoming))

    def due(self, next_s: float | None, end_s: float) -> float:
        """Up to which moment items may be handed over; `next_s` is that of the next one, None when there is none."""
        with self._lock:
            self._upcoming = end_s if next_s is None else next_s
            if self._to_next and self._goal is None:
                self._to_next, self._goal = False, self._upcoming
            if self._goal is not None and (next_s is None or next_s > self._goal):
                self._stand_at(min(self._goal, end_s) if next_s is None else self._goal)
                self._goal = None
            if self._goal is not None:
                return self._goal
            return -math.inf if self._paused else self._by_clock()

    def delay(self) -> float | None:
        """Seconds until the upcoming moment; None: for ever, unless something is changed."""
        with self._lock:
            if self.seeking:
                return 0.0
            if self._paused:
                return None
            return max(0.0, self._upcoming - self._by_clock()) / self._speed

    def _by_clock(self) -> float:
        elapsed = self._clock() - self._since
        return math.inf if math.isinf(self._speed) else self._from_s + elapsed * self._speed

    def _stand_at(self, position: float) -> None:
        self._from_s, self._since = position, self._clock()


def _possible(speed: float) -> float:
    if math.isnan(speed) or speed <= 0:
        raise ValueError(f"{speed}: no speed")
    return speed if math.isinf(speed) else min(max(speed, SLOWEST), FASTEST)


_TURN = 1 << 20
"""Bytes that are handed over before others have their turn."""
_TICK_S = 0.02
"""However fast time goes, items are handed over in goes that are this far apart."""
_AT_MOST_S = 3600.0
_TOGETHER_S = 10.0
"""However fast time goes, no log is handed over so much further than the others: they would seem to be silent."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Items with their moments."""

    path: Path
    """Path that stands for the place of the logs; nothing is read there."""
    start: float
    """Seconds since 1970 at which it begins."""
    duration_s: float
    items: Callable[[], Iterator[TimedItem]]
    """All items in the order of their moments, again with each call."""


@dataclass(frozen=True, slots=True)
class Rewound:
    """A marker: discard all earlier items; all comes again from the start, at once up to `to_s`."""

    to_s: float


PlayerItem = tuple[LogFile, Block | Notice] | Rewound


def timeline_of(recording: Recording) -> Timeline:
    """The timeline of a recording."""

    def items() -> Iterator[TimedItem]:
        return ((frame.at_s, frame.log, frame.item) for frame in recording.frames())

    return Timeline(recording.path, recording.header.start, recording.duration_s, items)


class Player(PlaybackControl):
    """Plays a timeline: iterate over it once, and control it while that runs.

    All but the iteration may be used from any thread. Blocks of a log that adjoin and are due together come as one.
    With `linger` the iteration continues at the end, for a seek may follow; else it ends there. `clock` gives seconds,
    `sleep` waits for some.
    """

    def __init__(
        self,
        timeline: Timeline,
        *,
        speed: float = 1.0,
        paused: bool = False,
        linger: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(speed, clock, paused=paused)
        self.timeline = timeline
        self._linger = linger
        self._sleep = sleep
        self._logs: dict[str, LogFile] = {}
        self._ready: deque[TimedItem] = deque()
        self._source: Iterator[TimedItem] = iter(())
        self._next: TimedItem | None = None
        self._last_s = 0.0
        self._last_by_log: dict[str, float] = {}
        self._begun = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()

    # --- where it is --------------------------------------------------------------------------------------------
    @property
    def position_s(self) -> float:
        """Everything up to here has been handed over."""
        return min(self.position(), self.duration_s)

    @property
    def duration_s(self) -> float:
        """Length of the timeline in seconds."""
        return max(self.timeline.duration_s, self._last_s)

    def last_item_s(self, log: LogFile) -> float | None:
        """Time of the last item of a log that was handed over; None before the first."""
        return self._last_by_log.get(log.name)

    @property
    def handed_s(self) -> float:
        """Time of the last item that was handed over: during a seek ahead of, or behind, the position."""
        return max(self._last_by_log.values(), default=0.0)

    @property
    def ended(self) -> bool:
        """Everything has been handed over, and its time is over."""
        over = self._begun and self._next_s() is None and not self.seeking
        return over and self.position_s >= self.duration_s

    # --- steering -----------------------------------------------------------------------------------------------
    def seek(self, at_s: float) -> None:
        """Go to a position: forwards at full speed, backwards by a `Rewound` and then at full speed."""
        super().seek(min(max(0.0, at_s), self.duration_s))

    def _changed(self) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nothing waits any more
                loop.call_soon_threadsafe(self._wake.set)

    # --- playing ------------------------------------------------------------------------------------------------
    async def __aiter__(self) -> AsyncIterator[PlayerItem]:
        """Everything at its time. Raises InputError when a recording is gone."""
        self._loop = asyncio.get_running_loop()
        self._open()
        while True:
            self._wake.clear()
            to_s = self.take_rewind()
            if to_s is not None:
                self._open()
                yield Rewound(to_s)
            due = self.due(self._next_s(), self.duration_s)
            if not self._ready:
                self._gather(due if self.seeking else min(due, (self._next_s() or 0.0) + _TOGETHER_S))
            if self._ready and due > -math.inf:
                _, name, item = self._ready.popleft()
                yield self._log(name), item
                if not self._ready:
                    await asyncio.sleep(0)
            elif self.ended and not self._linger:
                return
            else:
                await self._wait()

    def _open(self) -> None:
        self._begun = True
        self._ready.clear()
        self._last_by_log.clear()
        self._source = self.timeline.items()
        self._next = next(self._source, None)

    def _next_s(self) -> float | None:
        """Time of the next item; None if there is none."""
        if self._ready:
            return self._ready[0][0]
        return None if self._next is None else self._next[0]

    def _gather(self, due: float) -> None:
        """Take what is due from the timeline."""
        items: list[TimedItem] = []
        size = 0
        while self._next is not None and self._next[0] <= due and size < _TURN:
            items.append(self._next)
            self._last_s = max(self._last_s, self._next[0])
            self._last_by_log[self._next[1]] = self._next[0]
            size += len(self._next[2].data) if isinstance(self._next[2], Block) else 0
            self._next = next(self._source, None)
        self._ready.extend(together(items))

    def _log(self, name: str) -> LogFile:
        if name not in self._logs:
            self._logs[name] = LogFile(name, self.timeline.path, name)
        return self._logs[name]

    async def _wait(self) -> None:
        """Until the next item is due or a command comes."""
        delay = None if self.ended else self.delay()
        waiters: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._wake.wait())]
        if delay is not None:
            waiters.append(asyncio.ensure_future(self._sleep(min(max(delay, _TICK_S), _AT_MOST_S))))
        try:
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiters:
                waiter.cancel()
            await asyncio.gather(*waiters, return_exceptions=True)
