"""What a reader of headers remembers of the lines before changes no stamp."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmon.core.model import DAYTIME, LOCAL
from perfmon.sources.blocks import in_use
from perfmon.sources.formats.loader import load_packs
from perfmon.sources.formats.timestamps import HeaderReader
from perfmon.sources.scan.block_times import DatedLines

UNREAD, READER, THOROUGH = (HeaderReader(load_packs()) for _ in range(3))
THOROUGH._seen = False  # all lines are looked at
compiled = pytest.mark.skipif(not in_use(), reason="the search is not compiled here")
MEMORIES = ("_last_prefix", "_last_stop", "_last")
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


_HEADS = ("", "   INFO "), ("\x1b[2m", "\x1b[0m \x1b[34m  DEBUG\x1b[0m "), ("2026-08-21 ", ",015 - x - INFO - ")
_COLOURS = ("", "\x1b[2m", "\x1b[0m", "\x1b[34m\x1b[1m", "\x1b[", "\x1b]0;x\x07")
_undated = st.sampled_from(
    ("x", "INFO:  10.0.0.7:3366 - GET", "ts=5 x", "| 3/9 [00:12<00:15]", "▏ é — 损失 x", "٣:٣٤:٣٥ x", '{"a": 1}', "")
)
_dated = st.builds(
    lambda head, at, body: f"{head[0]}{at // 3600 % 24:02}:{at // 60 % 60:02}:{at % 60:02}{head[1]}{body}",
    st.sampled_from(_HEADS),
    st.sampled_from((0, 1, 2, 3, 8, 20, 40, 86395, 86399, 3600, 30000)),
    _undated,
)  # fmt: skip
_logs = st.lists(
    st.one_of(_dated, _dated, _dated, _undated, st.tuples(st.sampled_from(_COLOURS), _line).map("".join)),
    min_size=2, max_size=16,
)  # fmt: skip


@compiled
@settings(deadline=None, max_examples=300)
@given(_logs, st.booleans())
def test_dating_lines_by_what_was_read_gives_what_reading_them_gives(log: list[str], ended: bool) -> None:
    data = "\n".join(log).encode() + b"\n" * ended
    begins = [0, *(at + 1 for at, byte in enumerate(data) if byte == ord("\n") and at + 1 < len(data))]
    reader = HeaderReader(load_packs())
    for line in log:
        reader.read(line)
    _reset(THOROUGH)
    quick, slow = DatedLines(data, reader), DatedLines(data, THOROUGH)
    dated = [found for low, high in pairwise([*begins, len(data)]) if (found := slow.before(low, high)) is not None]
    for low, high in combinations(begins, 2):
        assert quick.before(low, high) == slow.before(low, high)
        assert quick.after(low, high) == slow.after(low, high)
    for before, after in combinations(dated, 2):
        assert quick.gaps(before, after) == slow.gaps(before, after)
        assert quick.latest(after, 3) == slow.latest(after, 3)
        assert quick.is_late(before, after) == slow.is_late(before, after)
        assert quick.is_late(after, before) == slow.is_late(after, before)


@compiled
def test_a_stretch_of_known_headers_is_dated_at_once() -> None:
    line = "\x1b[2m10:{:02}:{:02}\x1b[0m \x1b[34m  DEBUG\x1b[0m rollout 1:00 · {}\x1b[0m\n"
    data = "".join(line.format(n // 60, n % 60, n) for n in range(300)).encode()
    reader = HeaderReader(load_packs())
    reader.read("10:00:07   DEBUG x")
    clocks = reader.fast_clocks
    assert clocks is not None
    last = data.rfind(b"\n", 0, -1) + 1
    assert clocks.is_continuous(data, 0, 36000.0, last, 36299.0, DAYTIME, 10.0, 40000.0)
    assert clocks.skip(data, 0, len(data), 999, DAYTIME, 36000.0, 36300.0) == (len(data), 300)
    assert clocks.skip(data, len(data), 0, 20, DAYTIME, 36000.0, 36300.0)[1] == 20
    assert clocks.skip(data, 0, len(data), 999, DAYTIME, 36000.0, 36007.0)[1] == 8
    assert clocks.skip(data, 0, len(data), 999, LOCAL, 0.0, 1e12) == (0, 0)
    for odd in (b"\x1b]", b"{", b"\xc3", b" 1:00:00", b" 123456789"):
        assert clocks.skip(data[:-1] + odd + b"\n", last, len(data) + len(odd), 9, DAYTIME, 0.0, 9e9) == (last, 0)
    cut = data[:last] + data[last + 3 :]
    assert clocks.skip(cut, last, len(cut), 9, DAYTIME, 0.0, 9e9) == (last, 0)
