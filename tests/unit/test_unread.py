"""Stretches that nobody reads at first are the lines that reading them gives."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from pathlib import Path

import pytest

from perfmon.sources import stream
from perfmon.sources.blocks import Block, Notice
from perfmon.sources.follow import Follower
from perfmon.sources.unread import Stretch

_SIZE = 5000
Told = list[tuple[int, int, bytes]]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no test needs much of a log."""
    monkeypatch.setattr(stream, "CHUNK", 4096)
    monkeypatch.setattr(stream, "STRETCH", _SIZE)
    monkeypatch.setattr(stream, "_LONG", 30_000)


def text(seed: int, size: int = 300_000) -> bytes:
    """Lines of all kinds: empty, long, with frames of progress bars, not UTF-8."""
    chance, lines = random.Random(seed), [b"2026-03-01 10:00:00 begins " + b"x" * 300]
    while sum(map(len, lines)) < size:
        kind = chance.randrange(60)
        length = chance.randrange(9000) if kind == 0 else chance.randrange(120)
        lines.append(b"\r".join([b"a\xff" * (length // 4)] * 2) if kind == 1 else b"%d" % kind * (length // 2))
    return b"\n".join(lines) + chance.choice((b"", b"\n", b"\nunfinished"))


async def told(path: Path, *, unread: bool, late: bool = False) -> tuple[Told, list[str], int]:
    """(offset, number, bytes) of all lines that a follower gives, its notices, how many stretches there were."""
    follower = Follower([str(path)], True, 0.05, True, asyncio.get_running_loop().time, unread=unread)
    items: list[Block | Stretch] = []
    notices, end = list[str](), path.read_bytes().rfind(b"\n") + 1  # noqa: ASYNC240
    async with aclosing(follower.items()) as given:  # type: ignore[type-var]  # it is a generator
        async with asyncio.timeout(60):
            while sum(map(_end, items[-1:])) < end:
                _, item = await anext(given)
                if isinstance(item, Notice):
                    notices.append(item.text)
                elif isinstance(item, Stretch) and not late:
                    items.append(item.block())
                else:
                    items.append(item)
    await follower.close()
    stretches = sum(isinstance(item, Stretch) for item in items)
    lines: Told = []
    for item in items:
        block = item if isinstance(item, Block) else item.block()
        offset, number = block.offset, block.line
        for line in block.data.split(b"\n")[:-1]:
            lines.append((offset, number, line))
            offset, number = offset + len(line) + 1, number + 1
    return lines, notices, stretches


def _end(item: Block | Stretch) -> int:
    return item.offset + (item.size if isinstance(item, Stretch) else len(item.data))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("late", [False, True])
async def test_they_are_the_lines_that_are_read(tmp_path: Path, seed: int, late: bool) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(text(seed))
    expected, *_ = await told(path, unread=False)
    lines, notices, stretches = await told(path, unread=True, late=late)
    assert lines == expected
    assert notices == []
    assert not late or stretches > 20


async def test_a_short_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(text(1, 29_000)[:29_000] + b"\n")
    _, _, stretches = await told(tmp_path / "a.log", unread=True, late=True)
    assert stretches == 0


async def test_nobody_who_did_not_ask_is_given_any(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(text(1))
    _, _, stretches = await told(tmp_path / "a.log", unread=False, late=True)
    assert stretches == 0


async def test_a_log_that_is_truncated_meanwhile_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(text(1))
    follower = Follower([str(path)], True, 0.05, True, asyncio.get_running_loop().time, unread=True)
    last, notices, read = Block(b"", 0, 1), list[str](), 0
    async with aclosing(follower.items()) as given:  # type: ignore[type-var]  # it is a generator
        async with asyncio.timeout(60):
            while last.data != b"the new text\n":
                _, item = await anext(given)
                if isinstance(item, Notice):
                    notices.append(item.kind)
                    continue
                read += isinstance(item, Stretch)
                if read == 5:
                    path.write_bytes(b"the new text\n")
                if isinstance(item, Stretch) and read >= 5:
                    assert item.read() == b""
                elif isinstance(item, Block):
                    last = item
    await follower.close()
    assert "truncated" in notices
    assert (last.offset, last.line) == (0, 1)
