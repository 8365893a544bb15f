"""Logs that grow, rotate, shrink, vanish and move: every line that was written arrives, once, in order."""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from following import follow

from perfmon.core.errors import UsageError
from perfmon.core.model import Block, Notice
from perfmon.sources.discovery import LogFile
from perfmon.sources.follow.follower import Follower
from perfmon.sources.follow.rotation import InodeRegistry
from perfmon.sources.follow.tail import Tail

pytestmark = pytest.mark.slow

PATIENCE_S = 10.0


class Reader:
    """Collects what `follow` gives."""

    def __init__(self) -> None:
        self.items: list[tuple[str, Block | Notice]] = []
        self.arrived = asyncio.Event()

    def lines(self, name: str | None = None) -> list[str]:
        blocks = [item for log, item in self.items if isinstance(item, Block) and name in (None, log)]
        return b"".join(block.data for block in blocks).decode().splitlines()

    def reported(self) -> list[str]:
        return [item.kind for _, item in self.items if isinstance(item, Notice)]

    async def until(self, met: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not met():
                await self.arrived.wait()
                self.arrived.clear()

    async def has(self, lines: list[str]) -> None:
        """Waits for as many lines, and a moment for lines too many."""
        with suppress(TimeoutError):
            await self.until(lambda: len(self.lines()) >= len(lines))
        assert self.lines() == lines
        await asyncio.sleep(0.06)
        assert self.lines() == lines


@asynccontextmanager
async def following(*specs: str | Path, polling: bool = False, history: bool = True) -> AsyncIterator[Reader]:
    reader = Reader()
    items = follow([str(spec) for spec in specs], history=history, poll_s=0.05, polling=polling)

    async def collect() -> None:
        async for log, item in items:
            reader.items.append((log.name, item))
            reader.arrived.set()

    task = asyncio.create_task(collect())
    try:
        yield reader
    finally:
        if task.done():
            task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await items.aclose()  # type: ignore[attr-defined]


class Writer:
    """Writes numbered lines and knows them all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []

    def write(self, count: int = 50, to: Path | None = None) -> None:
        new = [f"line {len(self.lines) + number} of {self.path.name}" for number in range(count)]
        self.lines += new
        with (to or self.path).open("a") as file:
            file.write("".join(f"{line}\n" for line in new))


@asynccontextmanager
async def busy(writer: Writer) -> AsyncIterator[None]:
    """A log that has something new in every round."""

    async def write() -> None:
        while True:
            writer.write(1)
            await asyncio.sleep(0.03)

    writing = asyncio.create_task(write())
    try:
        yield
    finally:
        writing.cancel()


def compress(path: Path) -> None:
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))


def open_files() -> set[str]:
    links = Path("/proc/self/fd").iterdir()
    return {os.path.realpath(link) for link in links}


@pytest.fixture(params=[False, True], ids=["inotify", "polling"])
def polling(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def log(tmp_path: Path) -> Writer:
    writer = Writer(tmp_path / "a.log")
    writer.write()
    return writer


async def test_a_log_grows(log: Writer, polling: bool) -> None:
    async with following(log.path, polling=polling) as reader:
        await reader.has(log.lines)
        for _ in range(5):
            log.write()
            await reader.has(log.lines)
    blocks = [item for _, item in reader.items if isinstance(item, Block)]
    text = log.path.read_bytes()
    for block in blocks:
        assert text[block.offset :].startswith(block.data)
        assert block.line == text.count(b"\n", 0, block.offset) + 1


async def test_an_unfinished_line_waits_for_its_end(log: Writer, polling: bool) -> None:
    async with following(log.path, polling=polling) as reader:
        await reader.has(log.lines)
        with log.path.open("ab", buffering=0) as file:
            file.write(b"half a ")
            await asyncio.sleep(0.15)
            assert reader.lines() == log.lines
            file.write(b"line\n")
        await reader.has([*log.lines, "half a line"])


async def test_a_log_that_appears_while_others_are_busy(log: Writer, tmp_path: Path) -> None:
    """Events of folders come through among those of a log that every round has something of."""
    (tmp_path / "below").mkdir()
    fresh = (Writer(tmp_path / "b.log"), Writer(tmp_path / "below" / "c.log"))
    async with following(tmp_path) as reader:
        async with busy(log):
            for writer in fresh:
                await asyncio.sleep(2.0)  # by now nobody listens, and there was more than one look
                writer.write()
                name = str(writer.path)
                await reader.until(lambda writer=writer, name=name: reader.lines(name) == writer.lines)  # type: ignore[misc]
        await reader.until(lambda: reader.lines(str(log.path)) == log.lines)


async def test_a_log_that_a_pattern_matches_appears_in_a_new_folder(log: Writer, tmp_path: Path) -> None:
    """The folder was there before the log was, and nothing that is watched changes with it: found now and then."""
    fresh = Writer(tmp_path / "run" / "out.log")
    async with following(log.path, tmp_path / "*" / "out.log") as reader, busy(log):
        await asyncio.sleep(2.0)
        fresh.path.parent.mkdir()
        await asyncio.sleep(2.0)
        fresh.write()
        await reader.until(lambda: reader.lines(str(fresh.path)) == fresh.lines)


@pytest.mark.parametrize("kind", ["binary", "hole"])
async def test_others_have_their_turns_while_what_is_no_text_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Nothing comes of it that could be handed on, however long it is."""
    monkeypatch.setattr("perfmon.sources.follow.file_reader.CHUNK", 4096)
    path = tmp_path / "a.log"
    path.write_bytes(b"\x7fELF\2\1\1" if kind == "binary" else b"")
    with path.open("r+b") as file:
        file.seek(4 << 20)
        file.write(b"\nthe end\n" if kind == "hole" else b"\0")
    follower = Follower([str(path)], True, 0.05, None, time.monotonic)
    turns = 0

    async def read() -> None:
        async for _ in follower.items():
            pass

    async def others() -> None:
        nonlocal turns
        while not follower.caught_up:
            turns += follower.behind > 0
            await asyncio.sleep(0)

    reading = asyncio.create_task(read())
    try:
        async with asyncio.timeout(PATIENCE_S):
            await others()
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        follower.close()
    assert turns > 100


async def test_frames_of_a_progress_bar_arrive_before_their_line_ends(log: Writer) -> None:
    async with following(log.path) as reader:
        with log.path.open("ab", buffering=0) as file:
            file.write(b" 10%\r 20%\r 30%")
        await reader.has([*log.lines, " 10%", " 20%"])


async def test_renamed_the_rest_of_the_old_file_comes_before_the_new_one(log: Writer, polling: bool) -> None:
    async with following(log.path, polling=polling) as reader:
        await reader.has(log.lines)
        for turn in range(3):
            log.write(7)
            old = log.path.with_name(f"a.log.{turn}")
            os.rename(log.path, old)
            log.write(3, to=old)
            log.write()
            await reader.has(log.lines)
    assert reader.reported().count("rotated") == 3


async def test_line_numbers_begin_anew_after_a_rotation(log: Writer) -> None:
    async with following(log.path) as reader:
        await reader.has(log.lines)
        os.rename(log.path, log.path.with_name("a.log.1"))
        log.write()
        await reader.has(log.lines)
    last = reader.items[-1][1]
    assert isinstance(last, Block)
    assert (last.offset, last.line) == (0, 1)


async def test_a_writer_that_keeps_the_renamed_file_open_loses_nothing(log: Writer, polling: bool) -> None:
    async with following(log.path, polling=polling) as reader:
        await reader.has(log.lines)
        with log.path.open("a", buffering=1) as file:
            os.rename(log.path, log.path.with_name("a.log.1"))
            log.path.touch()
            await asyncio.sleep(0.2)
            file.write("late one\n")
        await reader.has([*log.lines, "late one"])
        with log.path.with_name("a.log.1").open("a") as file:
            Writer(log.path).write(1)
            await reader.has([*log.lines, "late one", "line 0 of a.log"])
            file.write("even later\n")
        await reader.has([*log.lines, "late one", "line 0 of a.log", "even later"])


async def test_rotated_twice_between_two_looks(log: Writer) -> None:
    async with following(log.path) as reader:
        await reader.has(log.lines)
        os.rename(log.path, log.path.with_name("a.log.1"))
        log.write()
        os.rename(log.path.with_name("a.log.1"), log.path.with_name("a.log.2"))
        os.rename(log.path, log.path.with_name("a.log.1"))
        log.write()
        await reader.has(log.lines)


async def test_copied_and_truncated(log: Writer, polling: bool) -> None:
    async with following(log.path, polling=polling) as reader:
        await reader.has(log.lines)
        for turn in range(3):
            log.write(9)
            shutil.copyfile(log.path, log.path.with_name(f"a.log.{turn}"))
            os.truncate(log.path, 0)
            log.write(5)
            await reader.has(log.lines)
    assert reader.reported().count("truncated") == 3


async def test_a_copy_in_an_older_part_is_not_read_again(log: Writer) -> None:
    part = Writer(log.path.with_name(f"{log.path.name}.1"))
    part.write()
    async with following(log.path.parent) as reader:
        await reader.until(lambda: len(reader.lines()) == len(part.lines) + len(log.lines))
        for _ in range(2):
            log.write()
            await reader.until(lambda: len(reader.lines()) == len(part.lines) + len(log.lines))
            shutil.copyfile(log.path, part.path)  # the same file as before, with another text
            os.truncate(log.path, 0)
            log.write()
            await reader.until(lambda: len(reader.lines()) == len(part.lines) + len(log.lines))
        await asyncio.sleep(0.3)
        assert sorted(reader.lines()) == sorted(part.lines + log.lines)


def test_a_copy_that_is_still_being_written_is_left_alone_each_time(tmp_path: Path) -> None:
    log, part, now = tmp_path / "a.log", tmp_path / "a.log.1", 100.0
    registry = InodeRegistry(lambda: now)
    text = b"".join(b"%d is a line of the run\n" % at for at in range(1000))
    log.write_bytes(text)
    stream = registry.claim(log, "log")
    assert stream is not None
    stream.skip_history()
    for _ in range(3):
        part.write_bytes(text[:5000])
        assert registry.claim(part, "part") is None
        part.write_bytes(text)
        assert registry.claim(part, "part") is None
        now += 3600.0
    part.write_bytes(b"something else\n" * 2000)
    assert registry.claim(part, "part") is not None
    registry.close()


async def test_replaced_by_a_copy_of_itself_with_more_lines(log: Writer) -> None:
    log.write()
    before = len(log.lines)
    async with following(log.path) as reader:
        await reader.has(log.lines)
        copy = log.path.with_name("copy")
        shutil.copyfile(log.path, copy)
        log.write(to=copy)
        os.replace(copy, log.path)
        await reader.has(log.lines)
        assert [item.line for _, item in reader.items if isinstance(item, Block)] == [1, before + 1]


async def test_rewritten_in_place_to_a_greater_size(log: Writer, polling: bool) -> None:
    async with following(log.path, polling=polling) as reader:
        await reader.has(log.lines)
        os.truncate(log.path, 0)
        log.write(500)
        await reader.has(log.lines)
    assert "truncated" in reader.reported()


async def test_truncated_under_a_writer_that_keeps_its_place(log: Writer) -> None:
    with log.path.open("r+b", buffering=0) as file:
        file.seek(0, os.SEEK_END)
        async with following(log.path) as reader:
            await reader.has(log.lines)
            os.truncate(log.path, 0)
            file.write(b"after the hole\n")
            await reader.until(lambda: len(reader.lines()) > len(log.lines))
            assert reader.lines()[-1].lstrip("\0") == "after the hole"


async def test_deleted_and_created_again(log: Writer, polling: bool) -> None:
    async with following(log.path, polling=polling) as reader:
        await reader.has(log.lines)
        for _ in range(3):
            log.write(5)
            log.path.unlink()
            await reader.has(log.lines)
            log.write()
            await reader.has(log.lines)
    assert reader.reported().count("rotated") == 3


async def test_a_link_is_pointed_elsewhere(tmp_path: Path, polling: bool) -> None:
    first, second = Writer(tmp_path / "one"), Writer(tmp_path / "two")
    link = tmp_path / "latest.log"
    first.write()
    link.symlink_to(first.path)
    async with following(link, polling=polling) as reader:
        await reader.has(first.lines)
        second.write()
        os.symlink(second.path, tmp_path / "new")
        os.replace(tmp_path / "new", link)
        await reader.has(first.lines + second.lines)
        second.write()
        await reader.has(first.lines + second.lines)


async def test_a_linked_directory_is_pointed_elsewhere(tmp_path: Path, polling: bool) -> None:
    for attempt in ("attempt_1", "attempt_2"):
        (tmp_path / attempt).mkdir()
    first, second = Writer(tmp_path / "attempt_1/train.log"), Writer(tmp_path / "attempt_2/train.log")
    other = Writer(tmp_path / "attempt_2/other.log")
    first.write()
    (tmp_path / "latest").symlink_to("attempt_1")
    async with following(tmp_path / "latest", polling=polling) as reader:
        await reader.has(first.lines)
        second.write()
        (tmp_path / "new").symlink_to("attempt_2")
        os.replace(tmp_path / "new", tmp_path / "latest")
        await reader.has(first.lines + second.lines)
        other.write()
        await reader.has(first.lines + second.lines + other.lines)


async def test_files_that_appear_later(tmp_path: Path, polling: bool) -> None:
    (tmp_path / "logs").mkdir()
    named, below, matched = (Writer(tmp_path / name) for name in ("named.log", "logs/deep/er/b.log", "x1.err"))
    async with following(named.path, tmp_path / "logs", tmp_path / "x*.err", polling=polling) as reader:
        await asyncio.sleep(0.1)
        named.write()
        await reader.has(named.lines)
        below.path.parent.mkdir(parents=True)
        below.write()
        await reader.has(named.lines + below.lines)
        matched.write()
        await reader.has(named.lines + below.lines + matched.lines)
    assert reader.reported().count("appeared") == 3


async def test_in_a_followed_directory_rotation_is_not_read_twice(tmp_path: Path, polling: bool) -> None:
    log = Writer(tmp_path / "a.log")
    log.write()
    async with following(tmp_path, polling=polling) as reader:
        await reader.has(log.lines)
        for turn in range(3):
            for older in range(turn, 0, -1):
                os.rename(tmp_path / f"a.log.{older}", tmp_path / f"a.log.{older + 1}")
            if turn % 2:
                os.rename(log.path, tmp_path / "a.log.1")
            else:
                shutil.copyfile(log.path, tmp_path / "a.log.1")
                os.truncate(log.path, 0)
            log.write(20 + turn)
            await reader.has(log.lines)
        compress(tmp_path / "a.log.1")
        log.write()
        await reader.has(log.lines)


async def test_without_history_only_new_lines_come_with_their_true_numbers(log: Writer) -> None:
    with log.path.open("a") as file:
        file.write("unfin")
    async with following(log.path, history=False) as reader:
        await asyncio.sleep(0.2)
        with log.path.open("a") as file:
            file.write("ished\nnew\n")
        await reader.has(["unfinished", "new"])
    first = reader.items[0][1]
    assert isinstance(first, Block)
    assert first.line == 51


async def test_a_huge_line_is_capped_while_it_is_written(log: Writer) -> None:
    async with following(log.path) as reader:
        with log.path.open("ab") as file:
            for _ in range(100):
                file.write(b"x" * 100_000)
            file.write(b"\nafter\n")
        await reader.until(lambda: reader.lines()[-1:] == ["after"])
    assert reader.reported() == ["capped"]
    assert len(reader.lines()[-2]) == 1 << 20


async def test_compressed_logs_are_read_at_the_start(tmp_path: Path, log: Writer) -> None:
    compress(log.path)
    log.path.unlink()
    async with following(tmp_path) as reader:
        await reader.has(log.lines)


async def test_a_named_pipe_is_followed_to_its_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    async with following(tmp_path / "pipe") as reader:
        await asyncio.sleep(0.1)
        with (tmp_path / "pipe").open("w") as file:
            file.write("one\ntwo")
        await reader.has(["one", "two"])


@pytest.mark.parametrize("redirected", [False, True])
def test_standard_input_is_followed_to_its_end(tmp_path: Path, log: Writer, redirected: bool) -> None:
    program = (
        "import asyncio, sys\nfrom perfmon.sources.follow import Follower\n"
        "async def main():\n"
        "    async for _, item in Follower(['-'], True).items(): sys.stdout.buffer.write(item.data)\n"
        "asyncio.run(main())"
    )
    command = [sys.executable, "-c", program]
    with log.path.open("rb") as file:
        if redirected:
            done = subprocess.run(command, stdin=file, stdout=subprocess.PIPE, check=True, timeout=PATIENCE_S)
        else:
            done = subprocess.run(command, input=file.read(), stdout=subprocess.PIPE, check=True, timeout=PATIENCE_S)
    assert done.stdout == log.path.read_bytes()


async def test_many_writers_rotations_and_truncations_at_once(tmp_path: Path, polling: bool) -> None:
    logs = [Writer(tmp_path / f"rank{rank}.log") for rank in range(6)]
    for log in logs:
        log.write(40)
    async with following(tmp_path / "*.log", polling=polling) as reader:
        await reader.until(lambda: len(reader.lines()) == 240)
        for turn in range(30):
            for rank, log in enumerate(logs):
                log.write(40)
                if (turn + rank) % 7 == 3:
                    os.rename(log.path, log.path.with_suffix(f".log.{turn}"))
            await asyncio.sleep(0.01)
        expected = sum(len(log.lines) for log in logs)
        await reader.until(lambda: len(reader.lines()) >= expected)
        await asyncio.sleep(0.2)
    assert sorted(reader.lines()) == sorted(line for log in logs for line in log.lines)
    for log in logs:
        mine = [line for line in reader.lines() if line.endswith(f"of {log.path.name}")]
        assert mine == log.lines


async def test_a_wrong_spec_fails_before_anything_starts(log: Writer) -> None:
    with pytest.raises(UsageError):
        await anext(follow([str(log.path), "ssh://host/x"]))


async def test_cancelling_leaves_no_thread_and_no_file_open(log: Writer) -> None:
    threads = threading.active_count()
    for delay in (0.0, 0.001, 0.01, 0.1):
        async with following(log.path, log.path.parent):
            await asyncio.sleep(delay)
    await asyncio.sleep(0.2)
    assert str(log.path) not in open_files()
    idle = [thread for thread in threading.enumerate() if thread.name.startswith(("asyncio_", "AnyIO"))]
    assert threading.active_count() <= threads + len(idle)


class Hand:
    """A follower whose looks a test takes one by one."""

    def __init__(self, *specs: Path) -> None:
        self.follower = Follower([str(spec) for spec in specs], history=True, polling=True)
        self.lines: list[str] = []

    async def look(self, *, first: bool = False) -> None:
        """One round over all logs."""
        if first:
            self.follower._sort_specs()
        for again in range(3):
            self.follower._next_scan = 0.0
            async for _, item in self.follower._round(first=first and not again):
                self.lines += item.data.decode().splitlines() if isinstance(item, Block) else []


@pytest.mark.parametrize("folder", [False, True])
async def test_what_comes_and_goes_between_two_looks_is_read_once(tmp_path: Path, folder: bool) -> None:
    """Of one file name after the other: each history is done between two looks."""

    def rename(log: Path, number: int) -> None:
        log.rename(f"{log}.{number}")

    def copy(log: Path, number: int) -> None:
        shutil.copyfile(log, f"{log}.{number}")
        os.truncate(log, 0)

    def synced(log: Path) -> None:
        shutil.copyfile(log, log.with_name(".hidden"))
        log.with_name(".hidden").replace(log)

    def a_copy_that_is_not_finished(log: Writer) -> None:
        rename(log.path, 1)
        log.write(3)
        shutil.copyfile(log.path, f"{log.path}.2")  # and before it is emptied comes the look

    def an_empty_file_is_renamed_once_it_is_full(log: Writer) -> None:
        rename(log.path, 1)
        log.path.touch()

    def then(log: Writer) -> None:
        log.write(4)
        rename(log.path, 2)
        log.path.touch()

    def replaced_and_renamed(log: Writer) -> None:
        synced(log.path)
        log.write(5)
        rename(log.path, 1)
        log.write(2)

    def a_few_lines_are_replaced(log: Writer) -> None:
        rename(log.path, 1)
        log.path.write_text("")
        log.lines.append("2026-03-02 10:00:00 began")
        log.path.write_text("2026-03-02 10:00:00 began\n")

    def emptied_twice(log: Writer) -> None:
        log.write(6)
        copy(log.path, 1)
        log.write(7)
        copy(log.path, 2)
        log.write(1)

    histories: list[list[Callable[[Writer], None]]] = [
        [a_copy_that_is_not_finished, lambda log: os.truncate(log.path, 0), lambda log: log.write(2)],
        [an_empty_file_is_renamed_once_it_is_full, then, lambda log: log.write(1)],
        [replaced_and_renamed],
        [a_few_lines_are_replaced, lambda log: synced(log.path), lambda log: log.write(1)],
        [emptied_twice],
        [lambda log: copy(log.path, 1), emptied_twice],
    ]
    for number, history in enumerate(histories):
        place = tmp_path / str(number)
        place.mkdir()
        log = Writer(place / "a.log")
        log.write(40)
        hand = Hand(place if folder else log.path)
        await hand.look(first=True)
        for step in history:
            step(log)
            await hand.look()
        hand.follower.close()
        assert sorted(hand.lines) == sorted(log.lines), number


@pytest.mark.parametrize("part_is_there", [False, True])
def test_a_copy_that_takes_long_is_left_alone(tmp_path: Path, part_is_there: bool) -> None:
    """A large log on a slow disk: the copy is half written for longer than any doubt lasts."""
    log = Writer(tmp_path / "a.log")
    part = Writer(log.path.with_name("a.log.1"))
    if part_is_there:
        part.write()
    log.write(2000)
    now, known = [0.0], InodeRegistry(lambda: now[0])
    tails = [
        Tail(LogFile(one.name, one), known, lambda: now[0], history=True, new=False) for one in (log.path, part.path)
    ]
    lines: list[str] = []

    def look() -> None:
        now[0] += 1.0
        for tail in tails:
            for _ in range(3):
                for _, item in tail.advance():
                    lines.extend(item.data.decode().splitlines() if isinstance(item, Block) else [])

    look()
    data = log.path.read_bytes()
    with part.path.open("wb", buffering=0) as copy:
        for begin in range(0, len(data), len(data) // 8):
            copy.write(data[begin : begin + len(data) // 8])
            look()
    os.truncate(log.path, 0)
    log.write(5)
    for _ in range(4):
        look()
    known.close()
    assert sorted(lines) == sorted(log.lines + part.lines)


def test_a_copy_is_known_by_its_text_whatever_number_its_file_has(log: Writer, tmp_path: Path) -> None:
    """The number of a file that is gone is given to the next one: here it is the same file with another text."""
    registry, part = InodeRegistry(time.monotonic), Writer(tmp_path / f"{log.path.name}.1")
    part.write()
    old, stream = registry.claim(part.path, "part"), registry.claim(log.path, "log")
    for read in (old, stream):
        assert read is not None
        read.read()
    assert old is not None
    registry.release(old)
    part.path.write_bytes(log.path.read_bytes())
    assert registry.claim(part.path, "part") is None
    part.path.write_text("of another log\n")
    again = registry.claim(part.path, "part")
    assert again is not None
    assert again.read()[0] == b"of another log\n"
    registry.close()
