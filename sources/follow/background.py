"""Logs followed in a thread of their own: what is written is read, however long its evaluation takes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

from ..thread_queue import ThreadQueue
from .follower import Follower, Item

_AHEAD = 8 << 20
"""Bytes that are read before anyone takes them: text may be gone by then."""
_STOP_S = 1.0
"""Longest wait for the thread: a file system may hang."""


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
