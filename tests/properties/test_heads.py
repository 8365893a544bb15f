"""What a reader of headers remembers of the lines before changes no stamp."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmon.sources.accelerator import in_use
from perfmon.sources.formats.headers import HeaderReader
from perfmon.sources.formats.loader import load_packs

UNREAD, READER, THOROUGH = (HeaderReader(load_packs()) for _ in range(3))
THOROUGH._seen = False  # all lines are looked at
compiled = pytest.mark.skipif(not in_use(), reason="the search is not compiled here")
MEMORIES = ("_last_prefix", "_last_stop", "_last", "_shapes")
BEFORE = (
    "", "[", "  ", "node01: ",
    "INFO ", "WARNING ", "3: ", "(Actor pid=7) ", "trainer-1  | ", "[rank0]:", "time=", 'ts="', "INFO:x:[",
)  # fmt: skip
DAYS = ("", "2026-08-21 ", "2026-08-22T", "08-21 ", "08/21/2026 ", "0821 ", "2026/08/21 ")
FRACTIONS = ("", ".015", ".016", ",500", ".123456789", ".1234567890", ".٣٤٥")
BEHIND = (
    " INFO: 10.0.0.7:33661 - GET", " INFO 08-21 10:00:09 [a.py:3] x", "-0700 x", " -0700 x", "-x", "Z x", " PM x",
    " PMU", " AM", "] [INFO] x", "]: x", " - mmengine - x", " | INFO | x", " stdout F 2026-08-21 10:00:09 x",
    " 1787306403.5 x", " 1787306403 stdout", "\tINFO x", " - INFO - x", '" level=info', " node7 sshd[81]: x",
    " x [0/9 00:12<00:15]", "", " [10:00:07] x", " é 10:00:08 x", ' { "a": 1 }',
)  # fmt: skip
_line = st.tuples(
    st.sampled_from(BEFORE), st.sampled_from(DAYS), st.sampled_from(("10:00:03", "10:00:04", "9:59:59", "99:00:00")),
    st.sampled_from(FRACTIONS), st.sampled_from(BEHIND),
).map("".join)  # fmt: skip


def _reset(reader: HeaderReader) -> None:
    for name in MEMORIES:
        setattr(reader, name, getattr(UNREAD, name))


@settings(deadline=None)
@given(st.lists(_line, min_size=2, max_size=12))
def test_what_was_read_before_does_not_change_what_a_line_tells(lines: list[str]) -> None:
    _reset(READER)
    remembering = [READER.read(line) for line in lines]
    alone = []
    for line in lines:
        _reset(READER)
        alone.append(READER.read(line))
    assert remembering == alone


@settings(deadline=None)
@given(st.lists(_line, min_size=1, max_size=12))
def test_a_line_that_is_not_looked_at_tells_nothing(lines: list[str]) -> None:
    for line in lines:
        _reset(READER)
        assert READER.read(line) == THOROUGH.read(line)
        _reset(THOROUGH)


@compiled
@settings(deadline=None)
@given(st.lists(_line, min_size=2, max_size=12), st.integers(0, 11), st.integers(0, 12), st.integers(0, 300))
def test_lines_that_are_alike_are_of_one_second(lines: list[str], at: int, most: int, low: int) -> None:
    lines = lines[:1] * 3 + lines
    data = "".join(f"{line}\n" for line in lines).encode()
    begins = [len("".join(f"{line}\n" for line in lines[:n]).encode()) for n in range(len(lines))]
    at = min(at, len(lines) - 1)
    _reset(READER)
    stamp = READER.read(lines[at])
    count = READER.alike(data, begins[at], most, low)
    assert 0 <= count <= min(most, at)
    for begin, line in zip(begins[at - count : at], lines[at - count : at], strict=True):
        _reset(THOROUGH)
        other = THOROUGH.read(line)
        assert begin >= low
        assert other is not None
        assert stamp is not None
        assert other[0] == stamp[0]
        assert abs(other[1] - stamp[1]) < 1.0


@compiled
def test_neighbours_of_one_second_are_told_at_once() -> None:
    line = "2026-08-21 10:00:03.{:03} INFO x 1:00\n"
    data = "".join(line.format(n) for n in range(9)).encode()
    size = len(line.format(0))
    _reset(READER)
    READER.read(line.format(7))
    assert READER.alike(data, 8 * size, 16, 0) == 8
    assert READER.alike(data, 8 * size, 3, 0) == 3
    assert READER.alike(data, 8 * size, 16, size + 1) == 6
    assert READER.alike(data, 8 * size, 16, 2 * size) == 6
    assert READER.alike(data, 8 * size + 1, 16, 0) == 0
    assert READER.alike(data[: 8 * size + 5], 8 * size, 16, 0) == 0
    for odd in (b"\x1b", b"{", b"\xc3", b" 1:00:00", b" 123456789"):
        assert READER.alike(data[: 4 * size - 1] + odd + data[4 * size - 1 :], 8 * size + len(odd), 16, 0) == 4
