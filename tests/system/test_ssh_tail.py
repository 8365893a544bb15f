"""Logs of a real SSH server, followed through rotation and truncation: no line lost, none twice."""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from remotely import Writer, following, until
from sshd import AVAILABLE, Sshd, ran

from perfmon.core.model import Block
from perfmon.core.text import format_bytes
from perfmon.sources.discovery import LogFile
from perfmon.sources.remote.files import Files, InodeOwners
from perfmon.sources.remote.host import RemoteMachine
from perfmon.sources.remote.model import Phase
from perfmon.sources.remote.reader import Item, LogReader, state_of
from perfmon.sources.shell import LocalRunner, RunnerError

pytestmark = [pytest.mark.system, pytest.mark.skipif(not AVAILABLE, reason="needs sshd")]
SHELLS = ["dash", "bash", "busybox sh"]


@pytest.fixture(scope="module", params=SHELLS)
def any_sshd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A server on which `sh` is this one, and nothing is there but it and coreutils or BusyBox."""
    words = request.param.split()
    program = shutil.which(words[0])
    if program is None:
        pytest.skip(f"needs {words[0]}")
    folder = tmp_path_factory.mktemp("sshd")
    tools = folder / "bin"
    tools.mkdir()
    if len(words) > 1:
        for name in ("sh", "stat", "dd", "head", "tail", "find", "gzip", "bzip2", "xz", "date", "sleep", "ls"):
            (tools / name).symlink_to(program)
    else:
        (tools / "sh").symlink_to(program)
    made = Sshd(folder, forced=f'PATH={tools}:$PATH; eval "$SSH_ORIGINAL_COMMAND"')
    made.start()
    yield made
    made.stop()


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A server that a test may treat badly."""
    made = Sshd(tmp_path / "sshd", extra="")
    made.start()
    yield made
    made.stop()


async def test_what_is_there_and_what_comes_byte_for_byte(any_sshd: Sshd, tmp_path: Path) -> None:
    log = tmp_path / "it's $(touch bad) `x` [a]*.log"
    data = bytes([9, 10, *range(32, 127), *range(128, 256)]) * 400 + b"\n"
    log.write_bytes(b"head of a log\n" * 2000 + data * 30)
    async with following(any_sshd, f"{tmp_path}/it's $(touch bad) `x` *.log") as (seen, host):
        await until(lambda: host.logs.caught_up)
        for _ in range(3):
            with log.open("ab") as file:
                file.write(data)
        await until(lambda: len(seen.of(".log")) == log.stat().st_size, seen.notices)
        assert seen.of(".log") == log.read_bytes()
        assert seen.notices == []
    assert os.listdir(tmp_path) == [log.name]


async def test_lines_arrive_whole_and_once_while_they_are_written(any_sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(10)
    async with following(any_sshd, writer.path) as (seen, _):
        await writer.go_on(1.0)
        await writer.arrived(seen)


async def test_a_last_line_without_an_end_is_given_out_once(any_sshd: Sshd, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(b"step 1\nValueError: no more")
    async with following(any_sshd, log) as (seen, host):
        await until(lambda: seen.of(".log") == b"step 1\nValueError: no more\n", seen.items)
        with log.open("ab") as file:
            file.write(b"\nstep 2")
        await until(lambda: all(tail.text.print.position == 33 for tail in host.logs.tails.values() if tail.text))
        (tail,) = host.logs.tails.values()
        seen.items += tail.finish()
        assert tail.finish() == []
    assert seen.of(".log") == b"step 1\nValueError: no more\nstep 2"


async def test_rotation_by_name_many_times(any_sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(10)
    async with following(any_sshd, tmp_path) as (seen, _):
        for at in range(6):
            await writer.go_on(0.15)
            writer.path.rename(tmp_path / f"run.log.{6 - at}")
        await writer.go_on(0.3)
        await writer.arrived(seen)
        assert any(notice.kind == "rotated" for notice in seen.notices)


async def test_a_slow_writer_still_writes_to_the_rotated_file(any_sshd: Sshd, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    with path.open("a") as slow:
        print("line 0", file=slow, flush=True)
        async with following(any_sshd, path) as (seen, _):
            await until(lambda: "line 0" in seen.lines)
            path.rename(tmp_path / "run.log.1")
            path.write_text("line 2\n")
            await until(lambda: "line 2" in seen.lines)
            print("line 1", file=slow, flush=True)
            await until(lambda: "line 1" in seen.lines)
            assert sorted(seen.lines) == ["line 0", "line 1", "line 2"]
            assert seen.of("run.log (rotated)") == b"line 1\n"


async def test_deleted_and_made_anew(any_sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    async with following(any_sshd, writer.path) as (seen, _):
        await until(lambda: [notice.kind for notice in seen.notices] == ["gone"])
        for _ in range(4):
            await writer.go_on(0.1)
            await until(lambda: f"line {writer.count - 1} of the run" in seen.lines)
            writer.path.unlink()
        writer.write(5)
        await writer.arrived(seen)


async def test_a_link_is_pointed_elsewhere_and_back(any_sshd: Sshd, tmp_path: Path) -> None:
    link = tmp_path / "latest.log"
    first, second = Writer(tmp_path / "attempt_1.log"), Writer(tmp_path / "attempt_2.log")

    def point(to: Writer) -> None:
        (tmp_path / "new").symlink_to(to.path)
        (tmp_path / "new").rename(link)

    first.write(5)
    point(first)
    async with following(any_sshd, link) as (seen, _):
        await until(lambda: len(seen.lines) == 5)
        second.count = 1000
        second.write(5)
        first.write(2)
        point(second)
        await until(lambda: "line 1004 of the run" in seen.lines, seen.notices)
        second.write(1)
        first.write(3)
        point(first)
        first.write(4)
        await until(lambda: "line 13 of the run" in seen.lines and "line 1005 of the run" in seen.lines, seen.lines)
        assert [line for line in seen.lines if int(line.split()[1]) < 1000] == first.lines
        assert [line for line in seen.lines if int(line.split()[1]) >= 1000] == second.lines[1000:]


async def test_truncated_in_place_with_a_copy(any_sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(5)
    async with following(any_sshd, writer.path) as (seen, _):
        await until(lambda: len(seen.lines) == 5)
        for at in range(4):
            writer.write(200)
            if at % 2:
                await until(lambda: f"line {writer.count - 1} of the run" in seen.lines)
            writer.write(3)
            shutil.copy(writer.path, tmp_path / f"run.log.{at}")
            os.truncate(writer.path, 0)
            writer.write(50)
            await until(lambda: f"line {writer.count - 1} of the run" in seen.lines, seen.notices)
        await writer.arrived(seen)


async def test_in_a_folder_a_copy_in_an_older_part_is_not_read_again(sshd: Sshd, tmp_path: Path) -> None:
    writer, part = Writer(tmp_path / "run.log"), tmp_path / "run.log.1"
    part.write_text("line of an earlier day\n")
    writer.write(200)
    async with following(sshd, tmp_path) as (seen, host):
        await until(lambda: host.logs.caught_up)
        for _ in range(3):
            part.write_bytes(writer.path.read_bytes())
            os.truncate(writer.path, 0)
            writer.write(200)
            await until(lambda: f"line {writer.count - 1} of the run" in seen.lines, seen.notices)
        assert [line for line in seen.lines if line.endswith("of the run")] == writer.lines


async def test_replaced_by_a_copy_of_itself_with_more_lines(sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(200)
    async with following(sshd, writer.path) as (seen, host):
        await until(lambda: host.logs.caught_up and len(seen.lines) == 200)
        for _ in range(3):
            copy = tmp_path / ".run.log.Xy12ab"
            copy.write_bytes(writer.path.read_bytes())
            whole, writer.path = writer.path, copy
            writer.write(50)
            copy.replace(whole)
            writer.path = whole
            await writer.arrived(seen)


async def test_history_is_bounded_and_begins_with_a_whole_line(any_sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(50_000)
    async with following(any_sshd, writer.path, history=200_000) as (seen, host):
        await until(lambda: host.logs.caught_up)
        writer.write(3)
        await until(lambda: seen.lines and seen.lines[-1] == writer.lines[-1])
        assert 190_000 < len(seen.of("run.log")) <= 200_100
        assert seen.lines == writer.lines[-len(seen.lines) :]
        assert "skipped the first" in seen.notices[0].text


async def test_no_history(any_sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(50_000)
    async with following(any_sshd, writer.path, history=0) as (seen, host):
        await until(lambda: host.logs.caught_up)
        writer.write(3)
        await until(lambda: len(seen.lines) >= 3)
        assert seen.lines == writer.lines[-3:]


async def test_folders_patterns_and_logs_that_appear(any_sshd: Sshd, tmp_path: Path) -> None:
    for name in ("a/logs/x.log", "b/c/logs/y.log", "a/checkpoint-1/z.log", "a/.h/w.log", "a/logs/model.bin"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")
    async with following(any_sshd, tmp_path, f"{tmp_path}/**/logs/*.log") as (seen, host):
        await until(lambda: host.logs.caught_up and len(seen.lines) == 2, seen.lines)
        (tmp_path / "b" / "new.log").write_text("new\n")
        await until(lambda: "new" in seen.lines)
        assert sorted(seen.lines) == ["a/logs/x.log", "b/c/logs/y.log", "new"]


async def test_folders_without_end_hold_nothing_up(any_sshd: Sshd, tmp_path: Path) -> None:
    maze, writer = tmp_path / "maze", Writer(tmp_path / "run.log")
    maze.mkdir()
    writer.write(5)
    for name in "abc":
        (maze / name).symlink_to(maze)
    writer.path.with_name("two\nlines.log").write_text("left out")
    async with following(any_sshd) as (seen, host):
        assert host.files is not None
        await host.files.runner.run('t="timeout 1"')
        host.logs.paths[:] = [str(tmp_path)]
        await until(lambda: len(seen.lines) == 5)
        assert host.state.reconnects == 0
        result = [notice.text for notice in seen.notices if "not followed" in notice.text]
        assert "a name with a line break" in result[0]
        # The search of BusyBox does not know loops.
        assert [why for why in result[1:] if "too many files to search" not in why] == []


async def test_what_cannot_be_read_is_told(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "real.log").write_bytes(gzip.compress(b"x" * 1000))
    (tmp_path / "link.log").symlink_to(tmp_path / "real.log")
    async with following(sshd, tmp_path / "link.log", "/dev/null", "/nowhere/x.log") as (seen, _):
        await until(lambda: len(seen.notices) == 3, seen.notices)
        result = " ".join(sorted(notice.text for notice in seen.notices))
        assert "no log" in result
        assert "does not exist yet" in result


@pytest.fixture
def as_nobody(tmp_path: Path) -> Iterator[Sshd]:
    """A server on which a user that owns nothing is logged in."""
    nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups " if os.geteuid() == 0 else ""
    made = Sshd(tmp_path / "sshd", forced=f'exec {nobody}sh -c "$SSH_ORIGINAL_COMMAND"')
    for folder in (tmp_path, *tmp_path.parents):
        if folder.name.startswith(("test_", "popen", "pytest-", "perfmon-tests-")):
            folder.chmod(0o755)
    made.start()
    yield made
    made.stop()


async def test_a_log_that_may_not_be_read_until_it_may(as_nobody: Sshd, tmp_path: Path) -> None:
    log = tmp_path / "secret.log"
    log.write_text("line 0\n")
    log.chmod(0)
    async with following(as_nobody, log) as (seen, _):
        await until(lambda: [notice.kind for notice in seen.notices] == ["lost"], seen.notices)
        assert "permission denied" in seen.notices[0].text
        log.chmod(0o644)
        await until(lambda: seen.lines == ["line 0"])


@pytest.mark.parametrize("held_open", [True, False])
async def test_a_log_that_may_not_be_read_for_a_while(as_nobody: Sshd, tmp_path: Path, held_open: bool) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(30)
    async with following(as_nobody, writer.path) as (seen, host):
        await until(lambda: len(seen.lines) == 30)
        if not held_open:
            (tail,) = host.logs.tails.values()
            assert host.files is not None
            assert tail.text is not None
            assert tail.text.handle is not None
            tail.text.handle = replace(tail.text.handle, slot=None)
        for times in (1, 2):
            writer.path.chmod(0)
            writer.write(20)
            await until(lambda times=times: len(seen.notices) == times, seen.notices)  # type: ignore[misc]
            writer.path.chmod(0o644)
            writer.write(20)
            await writer.arrived(seen)
        assert [notice.text.partition("run.log: ")[2] for notice in seen.notices] == [
            "cannot be read (permission denied): retrying"
        ] * 2


async def test_a_shell_that_hangs_holds_nobody_up(sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    async with following(sshd, writer.path) as (seen, host):
        other = await RemoteMachine(host).runner()
        hanging = asyncio.create_task(other.run("sleep 30", timeout_s=0.5))
        writer.write(3)
        await writer.arrived(seen)
        with pytest.raises(RunnerError, match="no answer"):
            await hanging
        assert other.closed
        assert host.state.phase is Phase.LIVE


async def test_more_logs_than_a_shell_can_hold_open(any_sshd: Sshd, tmp_path: Path) -> None:
    writers = [Writer(tmp_path / f"{at}.log") for at in range(20)]
    for writer in writers:
        writer.write(3)
    async with following(any_sshd, *(writer.path for writer in writers)) as (seen, host):
        await until(lambda: host.logs.caught_up)
        for writer in writers:
            writer.path.rename(f"{writer.path}.1")
            writer.write(4)
        await until(lambda: len(seen.lines) == 20 * 7, len(seen.lines))
        for writer in writers:
            assert seen.of(f"/{writer.path.name}").decode().splitlines() == writer.lines


async def test_nothing_is_left_behind(sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(3)
    async with following(sshd, writer.path) as (seen, _):
        await until(lambda: len(seen.lines) == 3)
    await until(lambda: not sshd.sessions(), "sessions")
    assert sorted(os.listdir(tmp_path)) == ["run.log", "sshd"]


async def test_the_clock_of_a_host_is_estimated(sshd: Sshd, tmp_path: Path) -> None:
    async with following(sshd, tmp_path) as (_, host):
        clock = host.state.clock
        assert clock is not None
        assert abs(clock.seconds) <= clock.uncertainty_s + 0.01


async def test_many_logs_are_rotated_right_after_they_were_written(any_sshd: Sshd, tmp_path: Path) -> None:
    """More than a plain shell holds open: their last lines are found under the names of their parts."""
    writers = [Writer(tmp_path / f"{at}.log") for at in range(12)]
    for writer in writers:
        writer.write(3)
    async with following(any_sshd, *(writer.path for writer in writers)) as (seen, host):
        await until(lambda: host.logs.caught_up and len(seen.lines) == 36)
        for part in range(4, 0, -1):
            for at, writer in enumerate(writers):
                writer.write(11)
                writer.path.rename(f"{writer.path}.{part}")
                writer.write(5 + at)
            await asyncio.sleep(0.12)
        total = sum(writer.count for writer in writers)
        await until(lambda: len(seen.lines) >= total, lambda: (len(seen.lines), total))
        for writer in writers:
            assert seen.of(f"/{writer.path.name}").decode().splitlines() == writer.lines
        assert not [notice for notice in seen.notices if notice.kind == "lost"]


def packed(path: Path) -> None:
    """Compresses a part as logrotate does."""
    subprocess.run(["gzip", str(path)], check=True)


async def test_parts_are_compressed_while_disconnected(any_sshd: Sshd, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "run.log"
    log.parent.mkdir()
    before = Writer(Path(f"{log}.9"))
    before.write(3)
    os.utime(before.path, (1e9, 1e9))
    packed(before.path)
    writer = Writer(log)
    writer.write(100)
    async with following(any_sshd, log) as (seen, host):
        await until(lambda: len(seen.lines) == 100)
        writer.write(5)
        await until(lambda: len(seen.lines) == 105)
        await asyncio.to_thread(any_sshd.stop)
        for part in (3, 2, 1):
            writer.write(20_000)
            log.rename(f"{log}.{part}")
            if part != 2:
                packed(Path(f"{log}.{part}"))
            writer.write(7)
        await asyncio.to_thread(any_sshd.start)
        await writer.arrived(seen)
        assert host.state.reconnects == 1
        assert not [notice.text for notice in seen.notices if notice.kind == "lost"]
        assert sum("reading run.log" in notice.text for notice in seen.notices) == 2


@pytest.mark.parametrize("tool", ["bzip2", "xz", "zstd"])
async def test_parts_are_compressed_otherwise_while_disconnected(any_sshd: Sshd, tmp_path: Path, tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"needs {tool}")
    writer = Writer(tmp_path / "run.log")
    writer.write(100)
    async with following(any_sshd, writer.path) as (seen, _):
        await until(lambda: len(seen.lines) == 100)
        await asyncio.to_thread(any_sshd.stop)
        for part in (2, 1):
            writer.write(20_000)
            writer.path.rename(f"{writer.path}.{part}")
            ran(tool, "-q", *(["--rm"] if tool == "zstd" else []), f"{writer.path}.{part}")
            writer.write(7)
        await asyncio.to_thread(any_sshd.start)
        await writer.arrived(seen)
        assert not [notice.text for notice in seen.notices if notice.kind == "lost"]


async def test_a_part_that_this_host_cannot_unpack_is_told_with_what_is_missing(sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(100)
    async with following(sshd, writer.path) as (seen, host):
        await until(lambda: len(seen.lines) == 100)
        assert host.files is not None
        await host.files.runner.run('T(){ [ "$1" != zstd ]; }')  # as where it is not installed
        writer.write(50)
        writer.path.rename(f"{writer.path}.2")
        writer.path.with_name("run.log.1.zst").write_bytes(b"(\xb5/\xfd whatever")
        writer.write(50)
        await until(lambda: seen.lines[-1:] == writer.lines[-1:], seen.notices)
        assert seen.lines == writer.lines
        (result,) = [notice.text for notice in seen.notices if notice.kind == "lost"]
        assert result.endswith("run.log.1.zst (13 B) cannot be decompressed: no zstd there")


async def test_a_part_that_cannot_be_unpacked_is_told_with_its_size(sshd: Sshd, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.log")
    writer.write(100)
    async with following(sshd, writer.path) as (seen, _):
        await until(lambda: len(seen.lines) == 100)
        size = writer.path.stat().st_size
        await asyncio.to_thread(sshd.stop)
        writer.write(50)
        for part in (2, 1):
            writer.path.rename(f"{writer.path}.{part}")
            packed(Path(f"{writer.path}.{part}"))
            os.truncate(f"{writer.path}.{part}.gz", 100)  # the disk was full
            writer.write(50)
        await asyncio.to_thread(sshd.start)
        await until(lambda: seen.lines[-1:] == writer.lines[-1:], seen.notices)
        assert seen.lines == writer.lines[:100] + writer.lines[-50:]
        lost = [notice.text for notice in seen.notices if "cannot be decompressed" in notice.text]
        assert len(lost) == 2
        result = " ".join(notice.text for notice in seen.notices)
        assert f"the old file after the first {format_bytes(size)}" in result
        for part, text in zip((2, 1), lost, strict=True):
            assert f"run.log.{part}.gz (100 B) cannot be decompressed" in text


async def test_a_log_is_compressed_while_its_parts_are_looked_for(sshd: Sshd, tmp_path: Path) -> None:
    writer, further = Writer(tmp_path / "run.log"), Writer(tmp_path / "next")
    writer.write(30)
    async with following(sshd, writer.path) as (seen, host):
        await until(lambda: len(seen.lines) == 30)
        writer.count = further.count = 50
        further.write(5)
        further.path.rename(tmp_path / "next.1")
        writer.count = 30
        assert host.files is not None
        # The log is rotated once more at the very moment at which perfmon looks for what was rotated before.
        await host.files.runner.run(
            f"cd '{tmp_path}'; stat(){{ case $* in *run.log.2*) if [ -e next.1 ]; then mv run.log run.log.1; "
            'gzip run.log.1; mv next.1 run.log; fi;; esac; command stat "$@"; }'
        )
        fresh = Writer(tmp_path / "fresh")
        fresh.count = 30
        fresh.write(20)
        writer.path.rename(f"{writer.path}.2")
        fresh.path.rename(writer.path)
        writer.count = 55
        await writer.arrived(seen)
        assert writer.path.with_name("run.log.1.gz").exists()


@pytest.mark.parametrize("moment", [1, 2, 3])
@pytest.mark.parametrize("held_open", [True, False])
@pytest.mark.parametrize("then", ["gzip run.log.1", "mv run.log.1 run.log.2"])
async def test_a_part_is_moved_at_any_moment_of_its_search(
    sshd: Sshd, tmp_path: Path, moment: int, held_open: bool, then: str
) -> None:
    """At the first, second ... time at which perfmon looks at it under its name."""
    writer = Writer(tmp_path / "run.log")
    writer.path.write_text("log 1\n")
    writer.write(30)
    async with following(sshd, writer.path) as (seen, host):
        await until(lambda: host.logs.caught_up and len(seen.lines) == 31)
        assert host.files is not None
        if not held_open:  # as where a plain shell follows many logs
            (tail,) = host.logs.tails.values()
            assert tail.text is not None
            assert tail.text.handle is not None
            tail.text.handle = replace(tail.text.handle, slot=None)
            host.files._free.clear()
        await host.files.runner.run(
            f"cd {tmp_path}; n=0; look(){{ [ -e run.log.1 ] && n=$((n+1)) && [ $n = {moment} ] && {then}; }};"
            'stat(){ command stat "$@"; case $* in *run.log.1*) look;; esac; }'
        )
        writer.write(50)
        writer.path.rename(tmp_path / "run.log.1")
        writer.path.write_text("log 2\n")
        writer.write(5)
        await until(lambda: writer.lines[-1] in seen.lines, seen.notices)
        assert [line for line in seen.lines if not line.startswith("log")] == writer.lines
        assert not [notice for notice in seen.notices if notice.kind == "lost"]


async def test_many_logs_are_compressed_right_after_they_were_rotated(any_sshd: Sshd, tmp_path: Path) -> None:
    writers = [Writer(tmp_path / f"{at}.log") for at in range(12)]
    for at, writer in enumerate(writers):
        writer.path.write_text(f"log {at}\n")
        writer.write(3)
    async with following(any_sshd, *(writer.path for writer in writers)) as (seen, host):
        await until(lambda: host.logs.caught_up and len(seen.lines) == 48)
        for part in (2, 1):
            for at, writer in enumerate(writers):
                writer.write(11)
                writer.path.rename(f"{writer.path}.{part}")
                packed(Path(f"{writer.path}.{part}"))
                writer.path.write_text(f"log {at}\n")
                writer.write(5)
            await asyncio.sleep(0.3)
        await until(
            lambda: all(
                seen.of(f"/{w.path.name}").endswith(f"line {w.count - 1} of the run\n".encode()) for w in writers
            ),
            len(seen.lines),
        )
        for at, writer in enumerate(writers):
            message = [line for line in seen.of(f"/{writer.path.name}").decode().splitlines() if line != f"log {at}"]
            assert message == writer.lines
        assert not [notice for notice in seen.notices if notice.kind == "lost"]


async def test_a_text_that_waits_to_be_read_is_no_missed_part_of_its_log(tmp_path: Path) -> None:
    """It was opened, then the connection was lost, and by now it is a part: it is looked for, and is the one found."""
    log = tmp_path / "run.log"
    part = Writer(Path(f"{log}.1"))
    part.write(30)
    Writer(log).write(1)
    items: list[Item] = []
    runner = await LocalRunner.open()
    try:
        files = await Files.open(runner)
        reader = LogReader(LogFile("run.log", Path("ssh:/box"), str(log)), str(log), InodeOwners())
        text = await reader._claimed(files, str(part.path), items)
        assert text is not None
        text.since_s = 0.0
        now = await state_of(files, text)
        assert now is not None
        await reader._read(files, text, now, items)
    finally:
        await runner.close()
    data = b"".join(item.data for _, item in items if isinstance(item, Block))
    assert data.decode().splitlines() == part.lines


async def test_a_copy_that_takes_long_is_left_alone(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large log on a slow disk: the copy is half written for longer than any doubt lasts."""
    monkeypatch.setattr("perfmon.sources.remote.reader.CERTAIN_S", 0.5)
    (tmp_path / "logs").mkdir()
    part, log = Writer(tmp_path / "logs" / "run.log.1"), Writer(tmp_path / "logs" / "run.log")
    part.path.write_text("an older part\n")
    log.write(500)
    async with following(sshd, tmp_path / "logs") as (seen, host):
        await until(lambda: host.logs.caught_up and len(seen.lines) == 501)
        data = log.path.read_bytes()
        with part.path.open("wb", buffering=0) as copy:
            for begin in range(0, len(data), len(data) // 16):
                copy.write(data[begin : begin + len(data) // 16])
                log.write(1)  # it is read: so the copy was looked at
                await until(lambda: log.lines[-1] in seen.lines)
            copy.write(log.path.read_bytes()[len(data) :])
        os.truncate(log.path, 0)
        log.write(5)
        await until(lambda: log.lines[-1] in seen.lines)
        assert sorted(seen.lines) == sorted(["an older part", *log.lines])
