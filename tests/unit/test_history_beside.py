"""A long history is scanned by two processes, and nobody can tell that from what comes of it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfmon.config import Config
from perfmon.monitor import FollowFeed, Monitor, ahead
from perfmon.monitor.ahead import Ahead
from perfmon.session import Session
from perfmon.sources import beside
from perfmon.sources.beside import Beside
from perfmon.sources.blocks import Block, Cutter
from perfmon.sources.scan import Scanned, Scanner
from perfmon.sources.unread import Stretch, Unread

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not beside.available(), reason="needs Linux and two cores")]
_PATIENCE_S = 60.0


def log(updates: int, seed: int = 1) -> bytes:
    """Weight updates that go on over many lines, some of them slow, between lines that say nothing."""
    chance, lines, t = random.Random(seed), list[str](), 1000.0
    for number in range(updates):
        url, clock = (
            "http://10.0.0.1:8000",
            f"2026-03-01 {8 + number // 3600 % 12:02}:{number // 60 % 60:02}:{number % 60:02}",
        )
        queue = chance.choice((12.5, 80.0, 13_400.0))
        lines += [
            f"{clock} INFO [weights][{number:08x}] client.send url={url} path=/m/step_{number} t={t:.6f}",
            *(f"{clock} DEBUG rollout {chance.randrange(10**6)} finished" for _ in range(chance.randrange(40))),
            f"{clock} INFO [weights][{number:08x}] client.done wall_ms={queue + 500:.1f} rpc_ms=500.0 "
            f"queue_ms={queue:.1f} t={t + (queue + 500) / 1e3:.6f}",
        ]
        if not number % 7:
            lines.append(f"{clock} INFO [ckpt] write.done step={number} write_ms=nan")
        t += 1.0
    return "".join(line + "\n" for line in lines).encode()


def blocks(data: bytes, size: int = 60_000) -> list[Block]:
    """The blocks of a log that is read in pieces."""
    cutter = Cutter()
    cut = [item for at in range(0, len(data), size) for item in cutter.feed(data[at : at + size])]
    return [block for block in (*cut, *cutter.finish()) if isinstance(block, Block)]


def told(session: Session) -> object:
    """All that a session makes of what it was fed."""
    return session.snapshot()


def directly(cut: list[Block]) -> Session:
    session = Session(Config())
    state = session.add_source("orchestrator.log")
    for block in cut:
        session.feed(state, block)
    return session


def stretches(path: Path, data: bytes, size: int = 60_000) -> list[Stretch]:
    """The stretches of a log that holds `data`, which nobody has read."""
    path.write_bytes(data)
    with path.open("rb") as file:
        unread = Unread(file.fileno(), 0, 1)
    cut = blocks(data, size)
    return [Stretch(unread, block.offset, len(block.data), block.data[-64:]) for block in cut]


def until_up(process: Beside, stretch: Stretch) -> None:
    """Offers a stretch until it is taken."""
    until = time.monotonic() + _PATIENCE_S
    while not process.offer(stretch):
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture
def process() -> Iterator[Beside]:
    held = Beside(Session(Config()).scanner)
    yield held
    held.close()


def test_it_finds_what_is_found_here(process: Beside, tmp_path: Path) -> None:
    scanner, found = Session(Config()).scanner, list[Scanned | None]()
    one, other = stretches(tmp_path / "one.log", log(2000)), stretches(tmp_path / "other.log", log(900, 2))
    cut = [*one[:5], *other[:3], *one[5:], *other[3:]]
    for stretch in cut:
        while not process.offer(stretch):
            if process.pending:
                found.append(process.take())
    while process.pending:
        found.append(process.take())
    assert found == [scanner.scan(stretch.read(), stretch.offset, 0) for stretch in cut]
    assert sum(len(scanned.records) for scanned in found if scanned) > 2900


def test_it_has_so_much_to_do_at_most(process: Beside, tmp_path: Path) -> None:
    (small,) = stretches(tmp_path / "a.log", b"x\n")
    until_up(process, small)
    while process.offer(small):
        pass
    assert process.pending == 8
    assert process.take() is not None
    assert process.offer(small)


def test_of_a_text_that_was_replaced_nothing_is_told(process: Beside, tmp_path: Path) -> None:
    first, second = stretches(tmp_path / "a.log", log(200), 20_000)[:2]
    until_up(process, first)
    assert process.take()
    (tmp_path / "a.log").write_bytes(log(200, 3))
    assert process.offer(second)
    assert process.take() == Scanned([], 0, 0)
    assert second.read() == b""
    (tmp_path / "a.log").write_bytes(b"")
    assert process.offer(second)
    assert process.take() == Scanned([], 0, 0)


def test_lines_are_counted_where_nobody_has_yet(tmp_path: Path) -> None:
    cut = stretches(tmp_path / "a.log", log(2000))
    unread, lines = cut[0].unread, [block.line for block in blocks(log(2000))]
    assert [unread.line_at(stretch.offset) for stretch in cut] == lines
    unread.passed(cut[0].size, lines[1] - lines[0])
    assert [unread.line_at(stretch.offset) for stretch in cut[1:]] == lines[1:]
    assert [stretch.block().line for stretch in cut[1:]] == lines[1:]


def test_a_log_may_be_closed_before_its_stretches_are_read(tmp_path: Path) -> None:
    data = log(40)
    (only,) = stretches(tmp_path / "a.log", data, len(data))
    (tmp_path / "a.log").unlink()
    assert only.read() == data


def test_formats_of_a_user_are_known_there_too(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'schema = 1\nid = "mine"\ntitle = "mine"\n'
        '[[pattern]]\nid = "q"\nneedles = ["my queue"]\nregex = "my queue (?P<v>[0-9.]+)"\n'
        'emit = [{ metric = "queue_ms", field = "v", unit = "ms" }]\n'
        '[[pattern.sample]]\ntext = "my queue 5.5"\ngives = { queue_ms = 5.5 }\n'
    )
    scanner = Session(Config(format_dirs=(tmp_path,))).scanner
    held = Beside(scanner)
    try:
        (only,) = stretches(tmp_path / "a.log", b"my queue 17.25\n")
        until_up(held, only)
        assert held.take() == scanner.scan(only.read(), 0, 0)
        assert scanner.scan(only.read(), 0, 0).records
    finally:
        held.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_session_hears_the_same(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_WORTH_BYTES", 0)
    chance, cut = random.Random(seed), blocks(log(3000, seed))
    unread, heard = stretches(tmp_path / "a.log", log(3000, seed)), list[int]()
    session = Session(Config())
    state = session.add_source("orchestrator.log")
    history = Ahead(session)
    for block, stretch in zip(cut, unread, strict=True):
        item = block if block is cut[0] else stretch
        if item is block:
            stretch.unread.passed(stretch.size, len(block.data.splitlines()))
        history.take(state, item, 1, lambda scanned: heard.append(scanned.lines))
        if chance.random() < 0.2:
            time.sleep(0.02)  # the other process is up, or ready, at some time
        if chance.random() < 0.05:
            history.settle()
    history.settle()
    history.close()
    whole = directly(cut)
    assert told(session) == told(whole)
    assert sum(heard) == state.lines
    assert (state.lines, state.bytes, state.notes) == (
        whole.store.sources[0].lines,
        whole.store.sources[0].bytes,
        whole.store.sources[0].notes,
    )


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_nothing_is_lost_with_the_process(how: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_WORTH_BYTES", 0)
    monkeypatch.setattr(beside, "_PATIENCE_S", 0.3)
    cut = blocks(log(3000))
    session = Session(Config())
    state = session.add_source("orchestrator.log")
    history = Ahead(session)
    for number, stretch in enumerate(stretches(tmp_path / "a.log", log(3000))):
        history.take(state, stretch, 1, lambda _: None)
        other = history._beside
        if number == 0:
            until = time.monotonic() + _PATIENCE_S
            while other is not None and not other._up() and time.monotonic() < until:
                time.sleep(0.01)
        elif number == 5 and other is not None:
            os.kill(other._process.pid, how)
    history.settle()
    assert history._beside is None
    assert told(session) == told(directly(cut))


def test_it_comes_up_in_a_folder_with_another_perfmon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "perfmon").mkdir()
    (tmp_path / "perfmon" / "__init__.py").write_text("raise SystemExit('not ours')\n")
    (tmp_path / "struct.py").write_text("raise SystemExit('not ours')\n")
    monkeypatch.chdir(tmp_path)
    held = Beside(Session(Config()).scanner)
    try:
        until_up(held, *stretches(tmp_path / "a.log", b"x\n"))
    finally:
        held.close()


def test_a_thousand_logs_may_be_open(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < 2048:
        pytest.skip("needs 2048 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(most, 2048), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        late = Beside(Session(Config()).scanner)
        try:
            until_up(late, *stretches(tmp_path / "a.log", b"x\n"))
            assert late.take() == Scanned([], 1, 2)
        finally:
            late.close()
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def test_nobody_waits_for_it_to_come_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has to know is more than a pipe holds, and it reads nothing before it has begun."""
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(slow))
    took = list[bool]()

    def begin() -> None:
        held = Beside(Session(Config()).scanner)
        took.append(held.offer(*stretches(tmp_path / "a.log", b"x\n")))
        held.close()

    thread = threading.Thread(target=begin, daemon=True)
    thread.start()
    thread.join(_PATIENCE_S / 4)
    assert took == [False]


@pytest.mark.parametrize("stopped", [False, True])
def test_it_ends_with_whoever_started_it(stopped: bool) -> None:
    code = (
        "from perfmon.config import Config; from perfmon.session import Session\n"
        "from perfmon.sources.beside import Beside\n"
        "held = Beside(Session(Config()).scanner)\n"
        "while not held._up(): pass\n"
        "print(held._process.pid, flush=True); input()"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert _alive(pid)
    if stopped:
        os.kill(pid, signal.SIGSTOP)
    parent.kill()
    parent.communicate(timeout=20)
    until = time.monotonic() + _PATIENCE_S
    while _alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_monitor_shows_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, started = tmp_path / "orchestrator.log", list[Beside]()
    path.write_bytes(log(9000) * 3)
    assert path.stat().st_size > 24_000_000

    def start(scanner: Scanner) -> Beside:
        started.append(Beside(scanner))
        return started[-1]

    monkeypatch.setattr(ahead, "Beside", start)
    shown = []
    for worth in (1 << 40, 0):
        monkeypatch.setattr(ahead, "_WORTH_BYTES", worth)
        monitor = Monitor(lambda: FollowFeed([str(path)]), Config())
        monitor.start()
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until and (monitor.picture.progress is not None or monitor.picture.snapshot is None):
            time.sleep(0.05)
        picture = monitor.picture
        monitor.stop()
        assert picture.snapshot is not None
        (source,) = picture.sources
        shown.append((picture.lines, source.bytes, source.events, source.patterns, source.notes, source.skipped))
        assert monitor.failed is None
    assert shown[0] == shown[1]
    (process,) = started
    assert process._process.returncode is not None
