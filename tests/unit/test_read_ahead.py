"""Logs are read while an evaluation takes long, or nobody takes what was read."""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from perfmon.core.model import Block, Notice
from perfmon.monitor.composite_feeds import PollingFeed
from perfmon.monitor.feeds import Feed, FollowFeed, ResetMarker
from perfmon.sources.discovery import LogFile
from perfmon.sources.pollers.request import PollRequest
from perfmon.sources.thread_queue import ThreadQueue

_PATIENCE_S = 30.0
_LINE = "2026-03-01 08:00:00 INFO step {} finished\n"
Stream = AsyncIterator[tuple[LogFile, Block | Notice | ResetMarker]]


def _text(*numbers: int) -> str:
    return "".join(map(_LINE.format, numbers))


def _busy_until(true: Callable[[], object]) -> None:
    """Let no task of this thread run, as an evaluation does."""
    end = time.monotonic() + _PATIENCE_S
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


async def _next_text(items: Stream) -> str:
    async for _, item in items:
        if isinstance(item, Block):
            return item.data.decode()
    return ""


def _polled(path: Path) -> Feed:
    return PollingFeed(FollowFeed([str(path)]), [PollRequest("host")])


def test_a_log_that_is_emptied_during_an_evaluation_was_read(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(_text(1))

    async def watched() -> tuple[str, str]:
        feed = FollowFeed([str(path)])
        async with aclosing(feed.items()) as items:  # type: ignore[type-var]
            assert await _next_text(items) == _text(1)
            with path.open("a") as log:
                log.write(_text(2))
            _busy_until(lambda: feed.behind)
            path.write_text("")
            with path.open("a") as log:
                log.write(_text(3))
            texts = await _next_text(items), await _next_text(items)
        await feed.close()
        return texts

    assert asyncio.run(watched()) == (_text(2), _text(3))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the half made loop
def test_a_thread_that_cannot_start_ends_the_feed(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(_text(1))

    async def watched() -> None:
        feed = FollowFeed([str(path)])
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            items = feed.items()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with pytest.raises(OSError, match="Too many open files"):
            await anext(items)
        await feed.close()

    asyncio.run(watched())
    gc.collect()


@pytest.mark.parametrize("of", [lambda path: FollowFeed([str(path)]), _polled])
def test_what_was_read_and_not_taken_comes_at_the_end(of: Callable[[Path], Feed], tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(_text(1))

    async def watched() -> str:
        feed = of(path)
        async with aclosing(feed.items()) as items:  # type: ignore[type-var]
            assert await _next_text(items) == _text(1)
            with path.open("a") as log:
                log.write(_text(2) + "INFO step 3 is und")
            _busy_until(lambda: feed.behind)
            rest = [item.data for log, item in feed.finish() if isinstance(item, Block) and log.path == path]
        await feed.close()
        return b"".join(rest).decode()

    assert asyncio.run(watched()).splitlines() == [*_text(2).splitlines(), "INFO step 3 is und"]


def test_the_history_is_read_once_its_last_item_is_done_with(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(_text(1))

    async def watched() -> None:
        feed = FollowFeed([str(path)])
        async with aclosing(feed.items()) as items:  # type: ignore[type-var]
            assert await _next_text(items) == _text(1)
            assert not feed.caught_up
            following = asyncio.ensure_future(_next_text(items))
            await asyncio.sleep(0)  # it asks for the next item
            _busy_until(lambda: feed.caught_up)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        await feed.close()

    asyncio.run(watched())


def test_reading_waits_for_whoever_takes_far_less() -> None:
    log, size = LogFile("a.log", Path("a.log")), 1000

    async def handed_over() -> tuple[int, int]:
        queue: ThreadQueue[tuple[LogFile, Block]] = ThreadQueue(10 * size)
        put, taken = 0, 0

        async def fill() -> None:
            nonlocal put
            for put in range(1, 101):
                await queue.put([(log, Block(b"x" * size, 0, put))])
            queue.end()

        filling = asyncio.create_task(fill())
        await asyncio.sleep(0)
        first = put
        async for _ in queue.take():
            taken += 1
            await asyncio.sleep(0)
            assert put - taken <= 11
        await filling
        return first, taken

    first, taken = asyncio.run(handed_over())
    assert first <= 11
    assert taken == 100


def test_one_that_waits_for_room_is_woken_whatever_another_one_puts_meanwhile() -> None:
    log = LogFile("run.log", Path("/run.log"))

    async def handed_over() -> int:
        queue: ThreadQueue[tuple[LogFile, Block]] = ThreadQueue(1000)
        many = [(log, Block(b"x" * 300, 0, 0)) for _ in range(4)]
        waits = asyncio.create_task(queue.put(many))
        await asyncio.sleep(0)
        items, taken = queue.take(), 0
        async with aclosing(items):
            async for _ in items:
                taken += 1
                if taken == 2:  # less than the limit, more than the half at which room is made
                    other = asyncio.create_task(queue.put([(log, Block(b"y", 0, 0))]))
                    await asyncio.sleep(0)
                if taken == 5:
                    break
        async with asyncio.timeout(_PATIENCE_S):
            await waits
            await other
        return taken

    assert asyncio.run(handed_over()) == 5
