"""Lines of known shapes say what the general way says; ranges and numbers do not depend on where a block is cut."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from leg_lines import KNOWN, NOISE, leg_lines

from perfmon.sources import parallel
from perfmon.sources.blocks import in_use
from perfmon.sources.formats.loader import load_packs
from perfmon.sources.scan.block_times import LineCount
from perfmon.sources.scan.scanner import Scanner
from perfmon.sources.scan.search import CompiledSearch

PACKS = tuple(load_packs())
LINES = st.lists(st.one_of(leg_lines(), leg_lines(), NOISE), max_size=12)
LOGS = LINES.map(lambda lines: "\n".join([*lines, ""]).encode())


def _scanned(scanner: Scanner, data: bytes) -> Any:
    scanned = scanner.scan(data, 1000, 5)
    return repr((scanned.records, scanned.lines, sorted(scanned.recognised.items()), sorted(scanned.problems)))


def _forget(scanner: Scanner) -> None:
    if isinstance(scanner.search, CompiledSearch):
        scanner.search.forget_phases()


@pytest.fixture(scope="module", params=["compiled", "plain"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both ways of finding lines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERFMON_NATIVE", "1" if request.param == "compiled" else "0")
        if request.param == "compiled" and not in_use():
            pytest.skip("the search is not compiled here")
        yield request.param


@pytest.fixture(scope="module")
def trained(way: str) -> Scanner:
    scanner = Scanner(PACKS)
    scanner.scan(KNOWN)
    assert not isinstance(scanner.search, CompiledSearch) or scanner.search.templates.lines
    return scanner


@pytest.fixture(scope="module")
def plain(way: str) -> Scanner:
    return Scanner(PACKS)


@pytest.fixture(scope="module")
def warm(way: str) -> Scanner:
    return Scanner(PACKS)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=LOGS)
@example(data=KNOWN)
@example(data=KNOWN.rstrip(b"\n"))
@example(data=KNOWN + KNOWN)
def test_a_known_shape_is_read_like_any_line(trained: Scanner, plain: Scanner, data: bytes) -> None:
    _forget(plain)
    assert _scanned(trained, data) == _scanned(plain, data)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lines=st.lists(leg_lines(), min_size=1, max_size=8))
@example(lines=["10:00:01    INFO [weights][aa] rpc.start op=w[rollout] trunc_pct=41.5 t=1"])
@example(lines=[f"\x1b][1m\x1b[22m{KNOWN.decode().splitlines()[0]}"])
def test_a_line_is_read_alike_whatever_was_learned_before(
    way: str, warm: Scanner, plain: Scanner, lines: list[str]
) -> None:
    """So nothing depends on which process, or which block, met a line first."""
    for scanner in (warm, plain):
        _forget(scanner)
    warm.scan("\n".join(lines).encode())
    for line in lines:
        assert _scanned(warm, line.encode() + b"\n") == _scanned(plain, line.encode() + b"\n")
        _forget(plain)


def test_lines_of_known_templates_take_the_short_way(trained: Scanner, monkeypatch: pytest.MonkeyPatch) -> None:
    if not isinstance(trained.search, CompiledSearch):
        pytest.skip("only the compiled search has templates")
    monkeypatch.setattr(trained, "patterns", [])
    assert trained.scan(KNOWN).recognised == {trained.template_pattern: 5}


@given(lines=st.lists(st.binary(max_size=4).map(lambda raw: raw.replace(b"\n", b"")), max_size=20), data=st.data())
def test_lines_are_numbered_as_newlines_are_counted_and_frames_that_go_on_are_none(
    lines: list[bytes], data: st.DataObject
) -> None:
    text = b"\n".join(lines)
    count = LineCount(text, text.count(b"\n"))
    for at in data.draw(st.permutations(range(len(text)))):
        assert count.before(at) == text.count(b"\n", 0, at)
    assert count.lines == text.count(b"\n") + (text != b"" and not text.endswith((b"\n", b"\r")))


def _pieces(result: Iterator[parallel.Piece | parallel.Cut]) -> list[parallel.Piece]:
    return [piece for piece in result if isinstance(piece, parallel.Piece)]


def test_a_file_that_is_truncated_under_the_readers_ends_where_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(KNOWN * 400)
    left = len(KNOWN) * 150 + 30
    monkeypatch.setattr(parallel, "RANGE", 1 << 14)
    monkeypatch.setattr(parallel, "_READ", 1 << 12)
    real = os.pread

    def pread(descriptor: int, size: int, at: int) -> bytes:
        if at > left:
            os.truncate(path, left)  # by whichever worker gets there first
        return real(descriptor, size, at)

    monkeypatch.setattr(os, "pread", pread)
    scanner = Scanner(PACKS)
    with parallel.BulkScanner(scanner, 2) as workers:
        result = list(workers.scan(path))
    assert result[-1] == parallel.Cut(left)
    pieces = _pieces(iter(result))
    assert sum(piece.scanned.size for piece in pieces) == left
    assert sum(piece.scanned.lines for piece in pieces) == KNOWN.count(b"\n") * 150 + 1
    assert sum(sum(piece.scanned.recognised.values()) for piece in pieces) == 150 * 5


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_ranges_hold_every_line_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"\n" + KNOWN * 5 + b"[ckpt] write.done step=1 write_ms=3")
    monkeypatch.setattr(parallel, "RANGE", 64)
    monkeypatch.setattr(parallel, "_READ", size)
    scanner = Scanner(PACKS)
    with parallel.BulkScanner(scanner, 2) as workers:
        pieces = _pieces(workers.scan(path))
    whole = scanner.scan(path.read_bytes())
    assert sum(piece.scanned.lines for piece in pieces) == whole.lines == 27
    assert sum(sum(piece.scanned.recognised.values()) for piece in pieces) == sum(whole.recognised.values()) == 26
    assert pieces[-1].line_base + pieces[-1].scanned.lines == 28


def test_a_worker_that_is_killed_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(KNOWN * 50)
    monkeypatch.setattr(parallel, "RANGE", 1024)
    scanner = Scanner(PACKS)
    with parallel.BulkScanner(scanner, 2) as workers:
        scanned = workers.scan(path)
        for worker in psutil.Process().children():
            worker.kill()
        counted = [sum(piece.scanned.recognised.values()) for piece in _pieces(scanned)]
    assert sum(counted) == 250
    assert psutil.Process().children() == []


@pytest.mark.parametrize("jobs", [2, 3, 4])
@pytest.mark.parametrize("taken", [0, 1, 7])
def test_what_a_killed_worker_had_taken_is_scanned_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, taken: int
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(KNOWN * 2000)
    monkeypatch.setattr(parallel, "RANGE", 4096)
    scanner = Scanner(PACKS)
    with parallel.BulkScanner(scanner, jobs) as workers:
        scanned = workers.scan(path)
        result = [next(scanned) for _ in range(taken)]
        psutil.Process().children()[-1].kill()
        pieces = _pieces(iter([*result, *scanned]))
    assert sum(sum(piece.scanned.recognised.values()) for piece in pieces) == 2000 * 5
    bases = [piece.line_base for piece in pieces]
    assert bases == sorted(bases)
    assert psutil.Process().children() == []


def test_a_line_is_read_alike_before_and_after_lines_like_it_are_known() -> None:
    scanner = Scanner(load_packs())
    head = b"08:00:00    INFO "
    line = b"[weights][a1] client.done wall_ms=14000.0 rpc_ms=1200.0 queue_ms=12800.0\n"
    for odd in (b"\x1b]", b"\x1b", b"\x1bP", b"\x1b["):
        cold = Scanner(load_packs()).scan(head + odd + line).recognised
        scanner.scan((head + line) * 3)
        assert scanner.scan(head + odd + line).recognised == cold
