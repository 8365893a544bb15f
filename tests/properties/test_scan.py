"""Lines of known shapes say what the general way says; ranges and numbers do not depend on where a block is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from perfmon.sources import bulk
from perfmon.sources.formats.loader import load_packs
from perfmon.sources.numbering import Numbering
from perfmon.sources.scan import Scanner
from perfmon.sources.shapes import Shapes

PACKS = tuple(load_packs())
LEGS = {
    "client.send": ("url", "path", "t"),
    "server.recv": ("path", "t"),
    "rpc.start": ("op", "t"),
    "rpc.done": ("op", "t", "rpc_ms"),
    "client.done": ("wall_ms", "rpc_ms", "queue_ms"),
}
VALUES = {"url": "http://10.0.0.5:8000", "path": "/update_weights", "op": "update_weights", "t": "12.5"}
KNOWN = "".join(
    f"10:00:00    INFO [weights][aa] {leg} {' '.join(f'{name}={VALUES.get(name, 7)}' for name in names)}\n"
    for leg, names in LEGS.items()
).encode()

ODD = st.sampled_from(
    [
        "nan",
        "inf",
        "-1",
        "1e300",
        "1e10",
        "1_0",
        "x",
        "1;2",
        "1,5",
        "a=b",
        "é",
        "\x1b[0m",
        "\x00",
        "1\xa02",
        "0x10",
        "9" * 300,
    ]
)
NUMBER = st.floats(0, 1e6).map(lambda value: f"{value:.3f}")
HEADS = st.sampled_from(
    ["10:00:01    INFO ", "10:00:59    INFO ", "\x1b[2m10:00:02\x1b[0m \x1b[1m INFO\x1b[0m ", "", "INFO ",
     "10:00:03 x] ",
     "10:00:04    INFO [gen] batch.start inflight=3 ", "50%|#\r10:00:05    INFO ", '{"message": "', "[weights][zz] "]
)  # fmt: skip
TAILS = st.sampled_from(["", "", "", "\x1b[0m", "\r", " junk", " t=3", " extra=1", ",", " [weights][bb] rpc.start t=1"])
NOISE = st.sampled_from(
    ["", "plain", "10:00:09    INFO nothing", "10:02:00    INFO later", "[gen] batch.done completions=4 dur_ms=12.5",
     "10:00:10    INFO [ckpt] write.done step=1 write_ms=10", "queue_ms=12 rpc_ms=3",
     "Epoch: [weights][aa] rpc.start t=1"]
)  # fmt: skip


@st.composite
def leg_lines(draw: st.DrawFn) -> str:
    leg = draw(st.sampled_from(sorted(LEGS)))
    names = list(LEGS[leg])
    if draw(st.integers(0, 4)) == 0:
        names = draw(st.lists(st.sampled_from([*names, "note"]), max_size=5))
    pairs = [
        f"{name}={draw(ODD) if draw(st.integers(0, 9)) == 0 else VALUES.get(name) or draw(NUMBER)}" for name in names
    ]
    trace = draw(st.sampled_from(["aa", "bb", "cc", "ü", "a b", "x" * 140]))
    return f"{draw(HEADS)}[weights][{trace}] {' '.join([leg, *pairs])}{draw(TAILS)}"


LINES = st.lists(st.one_of(leg_lines(), leg_lines(), NOISE), max_size=12)
LOGS = LINES.map(lambda lines: "\n".join([*lines, ""]).encode())


def _scanned(scanner: Scanner, data: bytes) -> Any:
    scanned = scanner.scan(data, 1000, 5)
    return repr((scanned.records, scanned.lines, sorted(scanned.recognised.items()), sorted(scanned.problems)))


@pytest.fixture(scope="module")
def trained() -> Scanner:
    scanner = Scanner(PACKS)
    scanner.scan(KNOWN)
    assert scanner.shapes
    return scanner


@pytest.fixture(scope="module")
def plain() -> Scanner:
    return Scanner(PACKS)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=LOGS)
@example(data=KNOWN)
@example(data=KNOWN.rstrip(b"\n"))
@example(data=KNOWN + KNOWN)
def test_a_known_shape_is_read_like_any_line(trained: Scanner, plain: Scanner, data: bytes) -> None:
    plain.shapes = Shapes()
    assert _scanned(trained, data) == _scanned(plain, data)


def test_lines_of_known_shapes_take_the_short_way(trained: Scanner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trained, "patterns", [])
    assert trained.scan(KNOWN).recognised == {trained.leg_pattern: 5}


@given(lines=st.lists(st.binary(max_size=4).map(lambda raw: raw.replace(b"\n", b"")), max_size=20), data=st.data())
def test_lines_are_numbered_as_newlines_are_counted(lines: list[bytes], data: st.DataObject) -> None:
    text = b"\n".join(lines)
    begins = [0, *(at + 1 for at in range(len(text)) if text[at : at + 1] == b"\n" and at + 1 < len(text))]
    known = data.draw(st.sets(st.sampled_from(begins)))
    numbering = Numbering(text, known)
    assert numbering.before == {begin: text.count(b"\n", 0, begin) for begin in {0, *known}}
    assert [numbering.at(at) for at in range(len(text))] == [text.count(b"\n", 0, at) for at in range(len(text))]
    assert numbering.count == text.count(b"\n") + (text != b"" and not text.endswith(b"\n"))


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_ranges_hold_every_line_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"\n" + KNOWN * 5 + b"[ckpt] write.done step=1 write_ms=3")
    monkeypatch.setattr(bulk, "RANGE", 64)
    monkeypatch.setattr(bulk, "_READ", size)
    scanner = Scanner(PACKS)
    with bulk.BulkScanner(scanner, 2) as workers:
        pieces = list(workers.scan(path))
    whole = scanner.scan(path.read_bytes())
    assert sum(piece.scanned.lines for piece in pieces) == whole.lines == 27
    assert sum(sum(piece.scanned.recognised.values()) for piece in pieces) == sum(whole.recognised.values()) == 26
    assert pieces[-1].line_base + pieces[-1].scanned.lines == 28
