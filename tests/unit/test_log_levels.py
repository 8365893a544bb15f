"""The counts of warnings and errors of a log: those of its lines, however they come, and in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies
from logs import Filler, packs, stamped

from perfmon.core.model import Block
from perfmon.logbuffer.buffer import LogBuffer
from perfmon.logbuffer.levels import _MOST_SLOTS, LevelCounts
from perfmon.logbuffer.lines import LogLevel, level_of, searchable
from perfmon.sources.clock import SourceClock

LINES = (
    "ERROR it broke", "WARNING it may break", "INFO all is well", "nothing", "level=warn msg=x", "CUDA error: none",
    "Traceback (most recent call last):", "ValueError: no", "E0821 10:00:00 1 x.cc:1] broken", "\x1b[31mFATAL\x1b[0m x",
    "W0821 10:00:00 1 x.cc:1] odd", "10%|#\r20%|##\rERROR late", "[warning] x", "step 3 error_rate=0.1", "panic: x",
    "[rank3]:[E1126 12:30:12.8 P.cpp:6] [Rank 3] timeout", "[rank3]:[W1126 12:30:12.8 P.cpp:6] slow",
    "x" * 300 + " ERROR too far", "Exception", "my.Error: yes", "no exception", "Warning: yes",
)  # fmt: skip


@given(strategies.lists(strategies.sampled_from(LINES), max_size=30), strategies.integers(1, 7))
def test_the_counts_are_those_of_the_lines_however_they_are_cut(lines: list[str], cut: int) -> None:
    filler = Filler()
    for at in range(0, len(lines), cut):
        filler.add(0, [line.encode() for line in lines[at : at + cut]])
    levels = [level_of(searchable(line.encode())) for line in lines]
    glog = [line[:1] in "EW" and line[1:5].isdigit() for line in lines]
    if any("Traceback" in line for line in lines):
        assert filler.book.levels(0)[1] <= sum(level > LogLevel.WARNING for level in levels)
    elif not any(glog):  # which has its own sign: pieces of a log of several kinds are looked through for one
        warnings, errors = levels.count(LogLevel.WARNING), sum(level > LogLevel.WARNING for level in levels)
        assert filler.book.levels(0) == (warnings, errors, True)


def test_lines_of_glog_state_their_level_by_a_letter() -> None:
    filler = Filler()
    filler.add(0, [b"I0821 10:00:00.1 7 x.cc:1] fine", b"W0821 10:00:00.2 7 x.cc:1] odd", b"E0821 10:00:01.2 7 a] b"])
    assert filler.book.levels(0) == (1, 1, True)


def test_errors_are_in_the_column_of_their_time() -> None:
    filler = Filler()
    filler.add(0, [stamped(1000 * at, "ERROR x" if at in (20, 95) else "INFO y") for at in range(100)])
    filler.add(1, [stamped(60_000, "WARNING z")])
    begin = filler.book.chunks()[1][0][0].base
    columns = filler.book.histogram(begin, 10.0, 10)
    assert [errors for _, _, errors in columns] == [0, 0, 1, 0, 0, 0, 0, 0, 0, 1]
    assert [warnings for _, warnings, _ in columns] == [0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert sum(lines for lines, _, _ in columns) == pytest.approx(101, rel=0.05)
    assert sum(lines for lines, _, _ in filler.book.histogram(begin + 500.0, 10.0, 10)) == 0


def test_a_flood_and_what_is_passed_over_make_them_a_lower_bound() -> None:
    filler = Filler()
    filler.add(0, [b"ERROR x"] * 2000, live=True)
    warnings, errors, exact = filler.book.levels(0)
    assert (warnings, exact) == (0, False)
    assert 0 < errors < 2000
    book = LogBuffer(packs=packs())
    book.skipped(0, "a", 2, 8)
    book.append(0, "a", Block(b"ERROR three\n", 8, 3), SourceClock())
    assert book.levels(0) == (0, 1, False)
    assert book.levels(7) == (0, 0, True)
    book.clear()
    assert book.levels(0) == (0, 0, True)


def test_a_long_run_has_few_slots() -> None:
    counts = LevelCounts()
    for at in range(3000):
        counts.add(b"ERROR x\n", 1, 60.0 * at, 60.0 * at, True, lambda _: None)
    counts.add(b"x\n", 7, 0.0, 1e9, False, lambda _: None)
    assert len(counts.slots) <= _MOST_SLOTS
    assert sum(slot[2] for slot in counts.slots.values()) == counts.errors == 3000


PLAIN = [
    "ERROR the step failed", "Traceback (most recent call last):", '  File "train.py", line 3, in step',
    "    x = 1 / 0", "ZeroDivisionError: division by zero", "",
    "During handling of the above exception, another exception occurred:", "",
    "Traceback (most recent call last):", '  File "train.py", line 9, in main', "ValueError: no",
]  # fmt: skip
HEAD = "(EngineCore pid=7) ERROR 03-02 12:00:00 [core.py:396] "
LEVELLED = [(HEAD + line).rstrip() for line in ["EngineCore failed.", *PLAIN[1:]]]


@pytest.mark.parametrize("cut", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("lines", "errors"),
    [
        (PLAIN, 1),
        (LEVELLED, 1),
        ([*PLAIN, "INFO again"] * 11, 11),
        ([*LEVELLED, "INFO again"] * 11, 11),
        ([*PLAIN[1:5], *PLAIN[1:5]], 2),
        ([*PLAIN[1:5], "ERROR the run is over"], 2),
        ([*LEVELLED, "ERROR 03-02 12:00:01 [api.py:9] the engine is dead"], 2),
        (["ERROR one", "ERROR two", "ValueError: three"], 3),
        (["ERROR one", "INFO fine", *PLAIN[1:]], 2),
    ],
)
def test_a_traceback_is_one_error_however_many_lines_it_has(lines: list[str], errors: int, cut: int) -> None:
    filler = Filler()
    for at in range(0, len(lines), cut):
        filler.add(0, [line.encode() for line in lines[at : at + cut]])
    assert filler.book.levels(0) == (0, errors, True)


@pytest.mark.parametrize("before", ["", "[rank3]: ", "3: ", "(Actor pid=77) ", "[default0]:"])
def test_a_traceback_is_one_error_whatever_a_launcher_puts_before_its_lines(before: str) -> None:
    filler = Filler()
    lines = (
        "Traceback (most recent call last):",
        '  File "train.py", line 8, in <module>',
        "    step()",
        "RuntimeError: lost",
    )
    filler.add(0, [b"step 1", *(f"{before}{line}".encode() for line in lines), b"step 2"])
    assert filler.book.levels(0) == (0, 1, True)
