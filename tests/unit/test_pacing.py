"""Pollers are requested at their pace, and what hangs or fails is told and delays nothing else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from polled import Collected, gone, paced, until

from perfmon.sources.http_client import ReplyError, get, parse_url
from perfmon.sources.pollers import scheduler
from perfmon.sources.pollers.base import LocalMachine
from perfmon.sources.pollers.reading import Area, NotAvailableError, PollError, Reading


class Asks:
    """A poller that does what it is given."""

    def __init__(self, name: str, what: Callable[[], Awaitable[float]], every_s: float = 0.05) -> None:
        self.name, self.every_s = name, every_s
        self.requested = self.closed = 0
        self._what = what

    async def poll(self) -> Sequence[Reading]:
        """One value."""
        self.requested += 1
        return [Reading(Area.VALUE, self.name, {"value": await self._what()})]

    async def close(self) -> None:
        """Counts."""
        self.closed += 1


async def one() -> float:
    """Answers at once."""
    return 1.0


def states(result: Collected, name: str) -> list[str]:
    """What became of a poller, in order."""
    return [reading.words["state"] for reading in result.readings(Area.POLLER, name)]


async def test_each_is_asked_again_and_again() -> None:
    poller = Asks("one", one)
    result = await paced(LocalMachine(), [poller], lambda result: len(result.readings(Area.VALUE)) >= 4)
    assert states(result, "one") == ["ok"]
    assert poller.closed == 1
    log, block = result.items[0]
    assert log.name == f"poll:/{LocalMachine().name}/one"
    assert block.line == 1
    sizes = [(block.offset, len(block.data)) for _, block in result.items]
    assert all(at + size == after for (at, size), (after, _) in pairwise(sizes))


async def test_a_process_that_sleeps_delays_nothing_and_is_stale(tmp_path: Path) -> None:
    mark = tmp_path / "pid"

    async def sleeps() -> float:
        async for _ in LocalMachine().lines(f"echo $$ >{mark}; sleep 600"):
            pass
        return 1.0

    stuck, quick = Asks("stuck", sleeps), Asks("quick", one)
    result = await paced(LocalMachine(), [stuck, quick], lambda result: "stale" in states(result, "stuck"))
    before = len(result.readings(Area.VALUE, "quick"))
    assert before >= 3
    assert stuck.requested == 1, "what has not answered is not asked again"
    reading = result.readings(Area.POLLER, "stuck")[0]
    assert reading.values["age_s"] >= 0.1
    assert reading.words["why"].startswith("no_answer_for")
    await until(lambda: gone(int(mark.read_text())))


async def test_a_server_that_never_answers_is_told_to_fail() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    machine = LocalMachine()

    async def asks() -> float:
        try:
            return float(len((await get(machine.opener, parse_url(f"http://127.0.0.1:{port}/"), timeout_s=0.3)).body))
        except ReplyError as error:
            raise PollError(f"port {port}: {error}") from None

    result = await paced(
        machine, [Asks("url", asks), Asks("quick", one)], lambda result: "failed" in states(result, "url")
    )
    assert "stale" in states(result, "url"), "it was silent for more than three periods before"
    assert f"port_{port}:_no_answer_for_0.3_s" in {one.words["why"] for one in result.readings(Area.POLLER, "url")}
    assert len(result.readings(Area.VALUE, "quick")) >= 2
    server.close()


async def test_what_hangs_for_too_long_is_let_go_and_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "DEADLINE_S", 0.2)
    monkeypatch.setattr(scheduler, "_LONGEST_S", 0.1)

    async def hangs() -> float:
        if poller.requested == 1:
            await asyncio.Event().wait()
        return 1.0

    poller = Asks("hangs", hangs, every_s=0.02)
    result = await paced(LocalMachine(), [poller], lambda result: "ok" in states(result, "hangs"))
    assert states(result, "hangs")[-2:] == ["failed", "ok"]


async def test_what_blocks_a_thread_delays_nothing() -> None:
    release = time.monotonic() + 0.5

    async def blocks() -> float:
        await asyncio.to_thread(lambda: time.sleep(max(0.0, release - time.monotonic())))
        return 1.0

    blocked, quick = Asks("driver", blocks), Asks("quick", one)
    result = await paced(LocalMachine(), [blocked, quick], lambda result: "ok" in states(result, "driver"))
    assert states(result, "driver")[0] == "stale"
    names = [reading.name for reading in result.readings(Area.VALUE)]
    assert names.index("driver") >= 3, "the others answered meanwhile"


async def test_what_is_absent_is_told_once() -> None:
    async def absent() -> float:
        raise NotAvailableError("no nvidia-smi here: install the driver")

    poller = Asks("gpu", absent)
    result = await paced(
        LocalMachine(), [poller, Asks("one", one)], lambda result: len(result.readings(Area.VALUE)) >= 5
    )
    assert states(result, "gpu") == ["absent"]
    assert poller.requested == 1
    assert result.readings(Area.POLLER, "gpu")[0].words["why"] == "no_nvidia-smi_here:_install_the_driver"


async def test_that_it_still_is_absent_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "ABSENT_RETRY_S", 0.02)
    monkeypatch.setattr(scheduler, "_REPEAT_S", 0.1)

    async def absent() -> float:
        raise NotAvailableError("no driver")

    poller = Asks("gpu", absent)
    result = await paced(LocalMachine(), [poller], lambda result: len(states(result, "gpu")) >= 3)
    assert set(states(result, "gpu")) == {"absent"}
    assert poller.requested > len(states(result, "gpu"))


async def test_a_fault_of_a_poller_is_its_own_and_mends() -> None:
    async def broken() -> float:
        if poller.requested < 3:
            raise ValueError("token=0123456789abcdef0123 \x1b[31mis odd")
        return 1.0

    poller = Asks("broken", broken)
    result = await paced(LocalMachine(), [poller, Asks("one", one)], lambda result: "ok" in states(result, "broken"))
    assert states(result, "broken") == ["failed", "failed", "ok"]
    assert not any("0123456789abcdef0123" in line or "\x1b" in line for line in result.lines)


async def test_two_of_one_name_have_a_log_each() -> None:
    result = await paced(LocalMachine(), [Asks("x", one), Asks("x", one)], lambda result: len(result.items) >= 4)
    assert len({log for log, _ in result.items}) == 2


async def test_lines_of_a_command_come_as_they_are_printed_and_end_with_it() -> None:
    seen = [line async for line in LocalMachine().lines("printf 'a\\nb  \\n'; printf c")]
    assert seen == [b"a", b"b  ", b"c"]


async def test_of_a_command_nothing_is_left_when_nobody_reads_it() -> None:
    lines = LocalMachine().lines("sleep 600 & echo $!; wait")
    first = int(await anext(lines))
    assert not gone(first)
    await lines.aclose()  # type: ignore[attr-defined]
    await until(lambda: gone(first))
