"""A log of each of a thousand ranks: what is done for one must not be done for all of them each time."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing
from pathlib import Path

import pytest

from perfmon.sources.follow.file_reader import Stream
from perfmon.sources.follow.follower import Follower
from perfmon.sources.follow.rotation import is_part_of, names_of_logs
from perfmon.tui.render.logs import short_names

_LOGS = 60


@pytest.mark.parametrize(
    ("name", "logs"),
    [
        ("a.log", set()),
        ("worker-0001.log", set()),
        ("a.log.1", {"a.log"}),
        ("a.log-20260101", {"a.log"}),
        ("a.log.2.gz", {"a.log"}),
        ("a.log.old", {"a.log"}),
        ("a.log.2026-01-01", {"a.log", "a.log.2026", "a.log.2026-01"}),
        ("a.1.2", {"a", "a.1"}),
        (".1", set()),
    ],
)
def test_what_a_file_may_be_a_part_of(name: str, logs: set[str]) -> None:
    assert names_of_logs(name) == logs
    assert all(is_part_of(Path("logs", name), Path("logs", log)) for log in logs)
    assert not any(is_part_of(Path("logs", name), Path("other", log)) for log in logs)


async def test_each_is_asked_for_its_size_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(_LOGS):
        (tmp_path / f"rank-{number}.log").write_bytes(b"x" * 99 + b"\n")
    requests, size = Counter[Path](), Stream.size

    def counted(self: Stream) -> int:
        requests[self.path] += 1
        return size(self)

    monkeypatch.setattr(Stream, "size", counted)
    follower = Follower([str(tmp_path)], True, 0.05, True, asyncio.get_running_loop().time)
    behind = []
    async with aclosing(follower.items()) as given:  # type: ignore[type-var]  # it is a generator
        for _ in range(_LOGS):
            await anext(given)
            behind.append(follower.behind)
    follower.close()
    assert behind[-1] == 0
    assert len(requests) == _LOGS
    assert max(requests.values()) < 8


async def test_what_is_behind_is_what_was_not_read(tmp_path: Path) -> None:
    sizes = {"a.log": 3 << 20, "b.log": 6 << 20, "c.log": 100}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(b"x" * 99 + b"\n" if size == 100 else (b"x" * 63 + b"\n") * (size // 64))
    follower = Follower([str(tmp_path)], True, 0.05, True, asyncio.get_running_loop().time)
    read, seen = 0, []
    async with aclosing(follower.items()) as given:  # type: ignore[type-var]  # it is a generator
        while read < sum(sizes.values()):
            _, item = await anext(given)
            read += len(getattr(item, "data", b""))
            seen.append(follower.behind)
    follower.close()
    assert max(seen) > 4 << 20
    assert seen[-1] == 0


def test_many_names_are_told_apart() -> None:
    alike = {number: f"run/rank_{number}/stdout.log" for number in range(300)}
    assert short_names(alike) == {number: f"rank_{number}" for number in range(300)}
    odd = {0: "a/x.log", 1: "b/x.log", 2: "x.log", 3: "b/c/x.log", 4: "y.log"}
    assert short_names(odd) == {0: "a", 1: "b", 2: "x", 3: "c", 4: "y"}
