"""The last line of a log may never get its end: it is read all the same, once, live as offline and in a recording."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmon.cli import main
from perfmon.core import masked
from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.monitor.headless import observe
from perfmon.pipeline.offline import Options, examine
from perfmon.pipeline.session import Session
from perfmon.recording.format import open_recording
from perfmon.sources.blocks import UNFINISHED_S, LineSplitter
from perfmon.sources.follow.follower import Follower

DEATH = b'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\nValueError: no more samples'
STEPS = b"".join(b"2026-03-02 08:%02d:00 INFO step %d/100 loss=2.5\n" % (at, at) for at in range(20))


class _Clocked:
    """A follower with a clock of its own, and the blocks that it gave."""

    def __init__(self, path: Path) -> None:
        self.now = 1000.0
        self.blocks: list[Block] = []
        self._follower = Follower([str(path)], True, 0.01, True, lambda: self.now)
        self._task = asyncio.ensure_future(self._collect())

    async def _collect(self) -> None:
        async for log, item in self._follower.items():
            assert isinstance(item, Block), log
            self.blocks.append(item)

    async def until(self, met: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not met():
                self.now += 0.01
                await asyncio.sleep(0.002)

    @property
    def text(self) -> bytes:
        return b"".join(block.data for block in self.blocks)

    async def close(self) -> list[Block]:
        rest = [item for _, item in self._follower.finish() if isinstance(item, Block)]
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._follower.close()
        return rest


def _put(path: Path, data: bytes) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(data)


async def test_it_is_given_out_once_after_some_seconds(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    _put(path, b"step 1\nstep 2")
    follower = _Clocked(path)
    await follower.until(lambda: follower.text == b"step 1\nstep 2\n")
    began = follower.now
    await follower.until(lambda: follower.now > began + 2 * UNFINISHED_S)
    assert follower.text == b"step 1\nstep 2\n"
    _put(path, b"\nstep 3\n")
    await follower.until(lambda: follower.text.endswith(b"3\n"))
    assert [(block.data, block.offset, block.line) for block in follower.blocks] == [
        (b"step 1\n", 0, 1),
        (b"step 2\n", 7, 2),
        (b"step 3\n", 14, 3),
    ]
    assert await follower.close() == []


async def test_what_grows_waits(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    _put(path, b"loading ")
    follower = _Clocked(path)
    for _ in range(6):
        _put(path, b".")
        began = follower.now
        await follower.until(lambda: follower.now > began + 0.5 * UNFINISHED_S)  # noqa: B023
    assert follower.text == b""
    assert [(block.data, block.final) for block in await follower.close()] == [(b"loading " + b"." * 6, True)]


@pytest.mark.parametrize("rest", [b'{"step": 12, "loss"', b"x" * 4096])
async def test_half_of_a_record_waits_for_the_other(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "train.log"
    _put(path, rest)
    follower = _Clocked(path)
    began = follower.now
    await follower.until(lambda: follower.now > began + 2 * UNFINISHED_S)
    assert follower.text == b""
    _put(path, b": 3.0}\n")
    await follower.until(lambda: follower.text == rest + b": 3.0}\n")
    await follower.close()


def _old(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    os.utime(path, (1_772_438_000, 1_772_438_000))


def test_a_death_without_a_newline_is_the_same_followed_recorded_and_offline(tmp_path: Path) -> None:
    log, recorded = tmp_path / "train.log", tmp_path / "run.pmrec"
    _old(log, STEPS + DEATH)
    offline = examine(Options((str(log),)))[0]
    assert offline.verdict is not None
    assert (offline.run.state.value, offline.verdict.signature) == ("failed", "run-failed")
    watched = observe([str(log)], Config(), for_s=0.0).snapshot
    assert watched.verdict is not None
    assert (watched.run.state.value, watched.verdict.sentence) == ("failed", offline.verdict.sentence)
    assert main(["record", str(log), "-o", str(recorded), "--for", "1s"]) == 0
    again = examine(Options((str(recorded),)))[0]
    assert again.verdict is not None
    assert (again.run.state.value, again.verdict.sentence) == ("failed", offline.verdict.sentence)


def test_what_ends_within_the_last_seconds_is_recorded(tmp_path: Path) -> None:
    log, recorded = tmp_path / "train.log", tmp_path / "run.pmrec"
    log.write_bytes(STEPS + DEATH)
    assert main(["record", str(log), "-o", str(recorded), "--for", "0.1s"]) == 0
    data = b"".join(f.item.data for f in open_recording(recorded).frames() if isinstance(f.item, Block))
    assert data == STEPS + DEATH


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=4), st.booleans())
def test_wherever_it_is_released_the_steps_are_those_of_the_whole_log(ends: list[int], late: bool) -> None:
    """Released after whole lines whose newline comes later, or never."""

    def steps(pauses: list[int], text: bytes) -> tuple[object, ...]:
        session, cutter = Session(Config()), LineSplitter(frames=True)
        state = session.add_source("train.log")
        for number, line in enumerate(text.splitlines(keepends=True)):
            for item in cutter.feed(line.rstrip(b"\n")) + (cutter.release() if number in pauses else []):
                session.add(state, item)
            for item in cutter.feed(line[len(line.rstrip(b"\n")) :]):
                session.add(state, item)
        for item in cutter.finish():
            session.add(state, item)
        run = session.snapshot().run
        return run.state.value, run.goal, state.lines, run.runs

    text = STEPS if late else STEPS + DEATH
    assert steps(ends, text) == steps([], text)


@pytest.mark.parametrize(
    "line", [b"with api_key=correcthorsebattery and more", b"Authorization: Bearer abcdef.ghi-1234 sent"]
)
def test_the_rest_of_a_credential_stays_hidden_after_a_pause_within_it(line: bytes) -> None:
    whole = masked(line)
    secret = re.search(rb"\*+", whole)
    assert secret is not None
    for at in range(secret.start(), secret.end()):
        for again in range(at + 8, secret.end()):
            cutter = LineSplitter()
            items = [*cutter.feed(line[:at]), *cutter.release(), *cutter.feed(line[at:again]), *cutter.release()]
            items += [*cutter.feed(line[again:]), *cutter.feed(b"\nnext api_key\n=words\n")]
            data = b"".join(item.data for item in items if isinstance(item, Block)).replace(b"\n", b"")
            assert data[at:] == (whole + b"next api_key=words")[at:]
