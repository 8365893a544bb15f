"""Follows logs while they grow: everything that SOURCEs name, and what appears there later; here or in a thread."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path

from perfmon.core import Block, Notice

from ..batch import read_blocks
from ..discovery import STDIN, LogFile, distinct, listed, log_file, logs_of
from ..spec import ARCHIVES, Kind, Spec, parse_spec
from ..thread_queue import ThreadQueue
from .file_reader import PipeTail
from .rotation import InodeRegistry, is_part_of
from .tail import Tail
from .wakeups import Waker

_BACKSTOP_S = 5.0
"""New logs are looked for this often where the kernel reports them."""
_QUICK_S = 0.002
"""A look that takes no longer costs less than having a thread look."""
_PACE_S, _FLOOD_PACE_S = 0.24, 0.09
"""Rounds over busy logs are this far apart: more is not visible. In a flood, where reading takes a while, less."""
_FLOOD_BYTES = 1 << 19
_TURN_BYTES = 1 << 19
"""Bytes that a round reads before it hands them on."""
_AHEAD = 8 << 20
"""Bytes that are read before anyone takes them: text may be gone by then."""
_STOP_S = 1.0
"""Longest wait for the thread: a file system may hang."""
Item = tuple[LogFile, Block | Notice]


class Follower:
    """All logs that SOURCEs name, as they grow; to the end where all are pipes or read once.

    Each log begins with what exists already (`history`), or with the line that is unfinished now. Logs are followed
    by name. After a "rotated" or "truncated" notice the line numbers and offsets of a log start from 1 and 0. Lines
    of one log come in order, none is lost that was still there to be read, none comes twice; compressed files and
    archives are read once, at the start. `polling` True uses no inotify, None only where the file system serves it.
    """

    def __init__(
        self,
        specs: Sequence[str],
        history: bool | int,
        poll_s: float = 0.25,
        polling: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`history` is True for all of it, or the most bytes of each log. Raises UsageError for a wrong SOURCE."""
        self._specs = [parse_spec(text) for text in specs]
        self._history = history
        self._clock = clock
        self._waker = Waker(poll_s, polling=polling)
        self._poll_s = poll_s
        self._known = InodeRegistry(clock)
        self._tails: dict[Path, Tail] = {}
        self._pipes: list[PipeTail] = []
        self._passed: set[Path] = set()
        """Compressed files, which are not followed."""
        self._behind: dict[Tail, int] = {}
        """Bytes of each that are not read yet; what has read everything is not among them."""
        self._all_behind = 0
        self._next_scan = 0.0
        self._scan_s = inf
        """Seconds that the last look for logs took."""
        self._round_at = float("-inf")
        self._pace_s = _PACE_S
        self._turning = False
        """A round has begun: something was read that is not yielded yet."""
        self.caught_up = False
        """All that was there at the start has been read."""

    async def items(self) -> AsyncIterator[Item]:
        """Yield everything, in rounds: logs with something new get a turn, then all wait.

        Raises InputError, before the first item, for an archive that cannot be read.
        """
        once = await asyncio.to_thread(self._sort_specs)
        async for item in self._round(first=True):
            yield item
        for log in once if self._history is True else ():
            async for item in _read_once(log):
                yield item
        while self._specs or any(not pipe.ended for pipe in self._pipes):
            if not any(tail.more for tail in self._everyone()):
                self.caught_up = True
                await self._rest()
            async for item in self._round():
                yield item
        self.caught_up = True

    @property
    def behind(self) -> int:
        """Bytes of the followed files that were there when they had their last turn and are not read yet.

        From any thread.
        """
        return self._all_behind

    def changed_at(self, log: LogFile) -> float | None:
        """Modification time of a followed file in seconds since 1970, at its last look; None if it is not open.

        From any thread.
        """
        tail = self._tails.get(log.path)
        stream = tail.stream if tail is not None else None
        return None if stream is None or not stream.known_changed_ns else stream.known_changed_ns / 1e9

    def finish(self) -> Iterator[Item]:
        """Yield the last lines that have no end, unless lines before them were not yielded: following has ended."""
        for tail in self._tails.values() if not self._turning else ():
            yield from tail.finish()
        for pipe in self._pipes:
            if not pipe.ended:
                yield from ((pipe.log, item) for item in pipe.cutter.finish())

    def close(self) -> None:
        """Release everything."""
        self._waker.close()
        for pipe in self._pipes:
            pipe.close()
        self._known.close()

    def _everyone(self) -> list[Tail | PipeTail]:
        return [*self._tails.values(), *self._pipes]

    def _sort_specs(self) -> list[LogFile]:
        """Take pipes and what is read once out of the SOURCEs; the latter are returned."""
        once: list[LogFile] = []
        left: list[Spec] = []
        for spec in self._specs:
            if spec.kind is Kind.STDIN or _is_pipe(spec.path):
                log = LogFile("stdin", STDIN) if spec.kind is Kind.STDIN else log_file(Path(spec.path))
                self._pipes.append(PipeTail(log, self._waker.wake))
            elif spec.kind in (Kind.COMPRESSED, Kind.BUNDLE, Kind.RECORDING):
                once += logs_of(spec)
            else:
                left.append(spec)
                once += [log for log in listed([spec]).logs if log.compression]
        self._specs = left
        return distinct(once)

    async def _round(self, *, first: bool = False) -> AsyncIterator[Item]:
        if self._specs and (first or self._waker.listing_changed or self._clock() >= self._next_scan):
            for item in await self._scan(first):
                yield item
        self._round_at = self._clock()
        for pipe in self._pipes:
            if pipe.more or pipe.look():
                async for item in pipe.advance():
                    yield item
        turns = deque(map(self._turn, self._tails.values()))
        size, self._turning = 0, True
        while turns:
            # Where a file system may hang nothing else shall wait for it; elsewhere a thread's turn costs more than it.
            items = await asyncio.to_thread(_some, turns) if self._waker.polling else _some(turns)
            for item in items:
                size += _size_of(item[1])
                yield item
            if turns:
                await asyncio.sleep(0)
        self._turning = False
        if size > _FLOOD_BYTES or any(tail.more for tail in self._everyone()):
            await asyncio.sleep(0)  # after a little data no other task has to wait; ignored data counts, too
        self._pace_s = _FLOOD_PACE_S if size > _FLOOD_BYTES else _PACE_S

    def _turn(self, tail: Tail) -> Iterator[Item]:
        """Yield what is new in one log (blocking)."""
        try:
            if tail.more or tail.look():
                for item in tail.advance():
                    self._count(tail)
                    yield item
        except OSError as error:
            yield from tail.fail(error)
        self._count(tail)

    def _count(self, tail: Tail) -> None:
        """Update the bytes behind; other logs are not looked at again."""
        behind = tail.behind
        self._all_behind += behind - self._behind.pop(tail, 0)
        if behind:
            self._behind[tail] = behind

    async def _rest(self) -> None:
        """Wait until something changes, but longer after a round that a busy log would cost a turn a line."""
        await self._waker.wait()
        early = self._round_at + self._pace_s - self._clock()
        if 0.0 < early <= self._pace_s:
            await asyncio.sleep(early)
        self._waker.collect()

    async def _scan(self, first: bool) -> list[Item]:
        began = self._clock()
        self._waker.listing_changed = False
        if self._waker.polling or self._scan_s > _QUICK_S:
            listing = await asyncio.to_thread(listed, self._specs)
        else:
            listing = listed(self._specs)
        self._scan_s = self._clock() - began
        pace = self._poll_s if self._waker.polling else _BACKSTOP_S
        self._next_scan = began + max(pace, 10 * self._scan_s)
        await self._waker.watch(listing.folders)
        notices: list[Item] = []
        for log in listing.logs:
            if log.path not in self._tails and log.path not in self._passed:
                notices += self._admit(log, first)
        return notices

    def _admit(self, log: LogFile, first: bool) -> list[Item]:
        path = log.path
        if log.compression:
            self._passed.add(path)
            if first or any(is_part_of(path, other) for other in self._tails):
                return []
            if log.compression == ARCHIVES:
                return [(log, item) for item in read_blocks(log) if isinstance(item, Notice)]
            text = f"{log.name}: new compressed file: compressed files are only read at the start"
            return [(log, Notice(text, "appeared"))]
        history = self._history if first else True
        self._tails[path] = Tail(log, self._known, self._clock, history=history, new=not first)
        return []


def _some(turns: deque[Iterator[Item]]) -> list[Item]:
    """Take items of the first turns, up to a few megabytes; finished turns are removed (blocking)."""
    items: list[Item] = []
    size = 0
    while turns and size < _TURN_BYTES:
        item = next(turns[0], None)
        if item is None:
            turns.popleft()
            continue
        items.append(item)
        size += _size_of(item[1])
    return items


def _size_of(item: Block | Notice) -> int:
    return len(item.data) if isinstance(item, Block) else 0


def _is_pipe(path: str) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


async def _read_once(log: LogFile) -> AsyncIterator[Item]:
    blocks = read_blocks(log, 1 << 20)
    while (item := await asyncio.to_thread(next, blocks, None)) is not None:
        yield log, item


class BackgroundFollower:
    """A `Follower` that does not wait for the thread that takes its items."""

    def __init__(self, specs: Sequence[str], history: bool | int, *, polling: bool | None = None) -> None:
        """Raises UsageError for a wrong SOURCE."""
        self._follower = Follower(specs, history, polling=polling)
        self._queue: ThreadQueue[Item] = ThreadQueue(_AHEAD)
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._cancel: Callable[[], None] = lambda: None
        self._unended: list[Item] = []
        self._history_size: int | None = None
        """Number of items of the history, once it was read."""
        self.changed_at = self._follower.changed_at

    def items(self) -> AsyncIterator[Item]:
        """Start to read; yield everything as `Follower.items`, and raise what that raises."""
        self._thread = threading.Thread(target=self._run, name="perfmon-follow", daemon=True)
        self._thread.start()
        self._started.wait()
        return self._queue.take()

    @property
    def caught_up(self) -> bool:
        """All that was there at the start has been read and taken, and its last item is done with."""
        if self._history_size is None and self._follower.caught_up:
            self._history_size = self._queue.put_count
        return self._history_size is not None and self._queue.done_count >= self._history_size

    @property
    def behind(self) -> int:
        """Bytes that were there at the last look and are not taken yet."""
        return self._follower.behind + self._queue.size

    def finish(self) -> list[Item]:
        """End reading; return what was not taken yet, and the last lines that have no end."""
        self._stop()
        items, self._unended = [*self._queue.drain(), *self._unended], []
        return items

    def close(self) -> None:
        """Release everything."""
        self._stop()
        if self._thread is None or not self._thread.is_alive():
            self._follower.close()  # a thread that failed at its start did not

    def _stop(self) -> None:
        self._cancel()
        if self._thread is not None:
            self._thread.join(_STOP_S)

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._read())
        except Exception as error:  # also where no descriptor is left for a loop
            self._queue.end(error)
        finally:
            self._started.set()

    async def _read(self) -> None:
        loop, reading = asyncio.get_running_loop(), asyncio.current_task()
        assert reading is not None  # noqa: S101

        def cancel() -> None:
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(reading.cancel)

        self._cancel = cancel
        self._started.set()
        try:
            async for item in self._follower.items():
                await self._queue.put([item])
            self._queue.end()
        except asyncio.CancelledError:
            self._unended = list(self._follower.finish())
        finally:
            self._follower.close()
