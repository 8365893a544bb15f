"""A shell that ends at any command of a round: of logs that are rotated before it is back no line is lost or twice."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from perfmon.core.model import Block
from perfmon.sources.remote.files import Files
from perfmon.sources.remote.follow import HostLogs
from perfmon.sources.remote.reader import Item
from perfmon.sources.shell import LocalRunner, Output, RunnerError

_ROUNDS = 6
"""After so many all is read that is there."""


class _Run:
    """A log, and what is done to it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.log = folder / "run.log"
        self.count = 0
        self.write(300)

    def write(self, count: int = 3) -> None:
        with self.log.open("a") as file:
            file.write("".join(f"2026-03-01 10:00:00 step {self.count + at} finished\n" for at in range(count)))
        self.count += count

    def _shifted(self) -> Path:
        for number in (3, 2, 1):
            for end in ("", ".gz"):
                part = Path(f"{self.log}.{number}{end}")
                if part.exists():
                    part.rename(f"{self.log}.{number + 1}{end}")
        return Path(f"{self.log}.1")

    def renamed(self) -> None:
        part = self._shifted()
        self.write()
        self.log.rename(part)
        self.write()

    def packed(self) -> None:
        self.renamed()
        part = Path(f"{self.log}.1")
        Path(f"{part}.gz").write_bytes(gzip.compress(part.read_bytes()))
        part.unlink()

    def copied(self) -> None:
        part = self._shifted()
        self.write()
        shutil.copyfile(self.log, part)
        os.truncate(self.log, 0)
        self.write()

    def synced(self) -> None:
        copy = self.log.with_name(".copy")
        shutil.copyfile(self.log, copy)
        copy.replace(self.log)
        self.write()


def _unchanged(run: _Run) -> None:
    """Nothing happens to the log."""


class _Mortal(LocalRunner):
    """A shell that ends at one of its commands."""

    left: int

    async def run(self, script: str, *, timeout_s: float = 20.0) -> Output:
        type(self).left -= 1
        if not self.left:
            await self.close()
        return await super().run(script, timeout_s=timeout_s)


async def _lines(folder: Path, deadly: int, ways: tuple[Callable[[_Run], None], ...]) -> tuple[list[str], int]:
    """The lines that are read, while the shell ends at its command of this number, and how many there are."""
    run, items = _Run(folder), list[Item]()
    logs = HostLogs("box", [str(run.log)], None)
    _Mortal.left = 0

    async def emit(some: list[Item]) -> None:
        items.extend(some)

    runner = await _Mortal.open()
    first = await Files.open(runner)
    files: Files | None = first
    await logs.round(first, emit)
    ways[0](run)
    _Mortal.left = deadly
    done = [*ways[1:], *[_unchanged] * _ROUNDS]
    for way in done:
        try:
            files = files or await Files.open(runner)
            await logs.round(files, emit)
        except* RunnerError:
            await runner.close()
            runner, files = await _Mortal.open(), None
        way(run)
    await runner.close()
    data = b"".join(item.data for _, item in items if isinstance(item, Block))
    return data.decode().splitlines(), run.count


_WAYS = {
    "renamed": (_Run.renamed,) * 2,
    "packed": (_Run.packed, _Run.renamed),
    "copied": (_Run.copied,) * 3,
    "synced": (_Run.synced,) * 3,
}


@pytest.mark.slow
@pytest.mark.parametrize("ways", _WAYS.values(), ids=_WAYS)
async def test_a_shell_that_ends_at_any_moment(ways: tuple[Callable[[_Run], None], ...], tmp_path: Path) -> None:
    deadly = 0
    while not deadly or _Mortal.left <= 0:  # until it is not reached any more
        deadly += 1
        read, count = await _lines(tmp_path / str(deadly), deadly, ways)
        assert sorted(read) == sorted(f"2026-03-01 10:00:00 step {at} finished" for at in range(count)), deadly
    assert deadly > 20
