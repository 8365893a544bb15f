"""A thread that does one thing after the other: for libraries whose calls may take as long as they like."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")
_Job = tuple[Callable[[], T], asyncio.AbstractEventLoop, "asyncio.Future[T]"]


class Worker(Generic[T]):
    """One thread, and at most one job in it.

    It is a daemon: a driver that never answers keeps no program from ending, as a thread of an executor would.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[_Job[T] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pending: asyncio.Future[T] | None = None

    @property
    def busy(self) -> bool:
        """A job has not come back yet."""
        return self._pending is not None and not self._pending.done()

    async def ask(self, job: Callable[[], T]) -> T:
        """What `job` gives or raises. May be cancelled; the job goes on then, and who asks next gets its answer.

        So however often nobody waits any longer, there is never a second call beside one that hangs.
        """
        if self._pending is None:
            self._pending = self._start(job)
        pending = self._pending
        try:
            return await asyncio.shield(pending)
        finally:
            if pending.done() and self._pending is pending:
                self._pending = None

    async def stop(self, last: Callable[[], T], timeout_s: float = 1.0) -> None:
        """Does a last thing, unless a call hangs, and ends the thread once it is free."""
        if self._thread is None:
            return
        if not self.busy:
            done, _ = await asyncio.wait([self._start(last)], timeout=timeout_s)
            for future in done:
                future.exception()  # who stops does not care how it went
        self._jobs.put(None)
        self._thread = None

    def _start(self, job: Callable[[], T]) -> asyncio.Future[T]:
        if self._thread is None:
            self._thread = threading.Thread(target=_work, args=(self._jobs,), name=self._name, daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        future.add_done_callback(_seen)
        self._jobs.put((job, loop, future))
        return future


def _seen(future: asyncio.Future[T]) -> None:
    """What went wrong while nobody waited is no news for the event loop."""
    if not future.cancelled():
        future.exception()


def _work(jobs: SimpleQueue[_Job[T] | None]) -> None:
    while (job := jobs.get()) is not None:
        do, loop, future = job
        try:
            tell, told = _give, do()
        except Exception as error:  # it is raised where somebody waits
            tell, told = _raise, error  # type: ignore[assignment]  # what it tells goes with how
        try:
            loop.call_soon_threadsafe(tell, future, told)
        except RuntimeError:  # the loop has ended meanwhile
            return


def _give(future: asyncio.Future[T], told: T) -> None:
    if not future.done():
        future.set_result(told)


def _raise(future: asyncio.Future[T], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
