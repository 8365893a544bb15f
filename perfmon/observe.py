"""A run without a screen: what its logs hold now, or what they come to hold within some seconds."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfmon.sources.blocks import Block, Cutter, Notice
from perfmon.sources.files import STDIN, LogFile, discover
from perfmon.sources.follow import Follower

from .alignment import align
from .config import Config
from .errors import UsageError
from .model import TimeBase
from .picture import Picture
from .session import Options, Progress, Session, read
from .snapshot import Snapshot
from .store import SourceState

TAIL = 4 << 20
"""The most bytes of a log, from its end, that a glance reads."""
_GLANCE = 64 << 20
"""The most bytes that it reads in all."""
_POLL_S = 0.25
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen."""

    snapshot: Snapshot
    picture: Picture | None = None
    """What only a monitor knows: alerts, freshness."""
    watched_s: float = 0.0
    """How long the logs were followed once all that they held was read."""
    interrupted: bool = False
    """It was ended with Ctrl+C before its time."""


def observe(
    specs: Sequence[str],
    config: Config,
    window: str | None = None,
    for_s: float | None = None,
    progress: Progress | None = None,
    following: Callable[[], None] = lambda: None,
) -> Observed:
    """Reads what the logs hold, then follows them for `for_s` seconds (None: not at all).

    `window` is what is judged, back from the last line (`10m`; None: everything). Interrupted while it follows, it
    tells what it has seen; while it still reads, KeyboardInterrupt leaves it. `following` is called once all that was
    there has been read. Raises UsageError and InputError.
    """
    if for_s is None:
        session = read(Options(specs=tuple(specs), jobs=config.jobs, config=config), progress)
        return Observed(_judged(session, window))
    discover(specs)  # what does not exist, or holds nothing, is told at once
    return _Watch(specs, config, for_s, following).run(window)


def glance(specs: Sequence[str], config: Config, window: str | None = None) -> tuple[Snapshot, int]:
    """What the last TAIL bytes of each log tell, and how many logs were cut short or left out for that.

    Of compressed logs and archives nothing is read: their ends cannot be had without all the rest. Raises UsageError
    and InputError.
    """
    logs = discover(specs)
    if any(log.path == STDIN for log in logs):
        raise UsageError("standard input cannot be looked at again and again: name files, or start a monitor")
    session, short = Session(config), 0
    most = min(TAIL, _GLANCE // len(logs))
    for log in logs:
        state = session.add_source(log.name)
        whole = log.compression is None and log.member is None and _read_end(session, state, log, most)
        short += not whole
    return _judged(session, window), short


def _read_end(session: Session, state: SourceState, log: LogFile, most: int) -> bool:
    """Feeds the end of a log; whether that was all of it."""
    cutter = Cutter(counted=False)
    try:
        with log.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - most)
            file.seek(start)
            data = file.read(most)
    except OSError as error:
        session.notice(state, Notice(f"{log.name}: cannot be read: {error.strerror}", "lost"))
        return False
    if start:
        data = data[data.find(b"\n") + 1 :]
    for item in (*cutter.feed(data), *cutter.finish()):
        _take(session, state, item)
    return start == 0


def _judged(session: Session, window: str | None) -> Snapshot:
    """The diagnosis of the window; of everything where no line has a clock."""
    timed = window is not None and align(session.store).base is not TimeBase.NONE
    return session.snapshot(since=window if timed else None)


def _take(session: Session, state: SourceState, item: Block | Notice) -> None:
    if isinstance(item, Notice):
        session.notice(state, item)
    else:
        session.feed(state, item)


class _Watch:
    """Reads to the present, then goes on for a while."""

    def __init__(self, specs: Sequence[str], config: Config, for_s: float, following: Callable[[], None]) -> None:
        self._specs, self._for_s, self._following = specs, for_s, following
        self._session = Session(config)
        self._states: dict[LogFile, SourceState] = {}
        self._live_since: float | None = None

    def run(self, window: str | None) -> Observed:
        """Until the time is over, every log has ended, or Ctrl+C."""
        interrupted = False
        try:
            asyncio.run(self._follow())
        except KeyboardInterrupt:
            if self._live_since is None:
                raise
            interrupted = True
        began = self._live_since
        watched = 0.0 if began is None else time.monotonic() - began
        return Observed(_judged(self._session, window), None, watched, interrupted)

    async def _follow(self) -> None:
        follower = Follower(list(self._specs), True, _POLL_S, None, time.monotonic)
        try:
            async with asyncio.timeout(None) as limit:
                alarm = asyncio.create_task(self._set_alarm(follower, limit))
                try:
                    async for log, item in follower.items():
                        _take(self._session, self._state(log), item)
                finally:
                    alarm.cancel()
        except TimeoutError:
            pass  # the time is over
        finally:
            await follower.close()

    async def _set_alarm(self, follower: Follower, limit: asyncio.Timeout) -> None:
        """The time counts from the moment at which all that was there has been read."""
        while not follower.caught_up:  # noqa: ASYNC110 - a follower tells nobody when it has
            await asyncio.sleep(_LOOK_S)
        self._live_since = time.monotonic()
        self._following()
        limit.reschedule(asyncio.get_running_loop().time() + self._for_s)

    def _state(self, log: LogFile) -> SourceState:
        if log not in self._states:
            self._states[log] = self._session.add_source(log.name)
        return self._states[log]
