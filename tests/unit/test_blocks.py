"""Blocks: whole lines, capped lines, frames of progress bars."""

from __future__ import annotations

from perfmon.core.model import Block, Notice
from perfmon.sources.blocks import MAX_LINE, LineSplitter


def test_a_chunk_of_whole_lines_is_not_copied() -> None:
    chunk = b"one\ntwo\n"
    (block,) = LineSplitter().feed(chunk)
    assert isinstance(block, Block)
    assert block.data is chunk


def test_the_unfinished_line_is_carried_and_comes_out_at_the_end() -> None:
    cutter = LineSplitter()
    assert cutter.feed(b"one\ntw") == [Block(b"one\n", 0, 1)]
    assert cutter.feed(b"o") == []
    assert cutter.held == 3
    assert cutter.finish() == [Block(b"two", 4, 2, final=True)]


def test_a_huge_line_is_capped_counted_and_not_buffered() -> None:
    cutter, out, piece = LineSplitter(), [], b"x" * 65536
    out += cutter.feed(b"before\n")
    for _ in range(1600):
        out += cutter.feed(piece)
        assert cutter.held <= MAX_LINE
    out += cutter.feed(b"end\nafter\n")
    size = 1600 * 65536 + 3
    assert out[1] == Block(b"x" * MAX_LINE + b"\n", 7, 2)
    assert out[2] == Notice(f"line 2 is {size} bytes long: only its first {MAX_LINE} are read", "capped")
    assert out[3] == Block(b"after\n", 7 + size + 1, 3)


def test_a_huge_line_that_never_ends_is_told_at_the_end() -> None:
    cutter = LineSplitter(4)
    assert cutter.feed(b"abcdefgh") == [Block(b"abcd\n", 0, 1)]
    assert cutter.finish() == [Notice("line 1 is 8 bytes long: only its first 4 are read", "capped")]


def test_a_line_of_exactly_the_limit_is_whole() -> None:
    assert LineSplitter(4).feed(b"abcd\nabcd\n") == [Block(b"abcd\nabcd\n", 0, 1)]


def test_a_long_progress_bar_is_cut_at_its_frames_and_keeps_the_record_glued_to_it() -> None:
    cutter = LineSplitter(16)
    out = cutter.feed(b"\r 10%" * 5 + b"\rrecord\nnext\n")
    assert b"record\n" in b"".join(item.data for item in out if isinstance(item, Block))
    assert [item for item in out if isinstance(item, Notice)] == []
    assert out[-1] == Block(b" 10%\r 10%\rrecord\nnext\n", 16, 1)


def test_the_hole_of_a_truncated_file_does_not_cost_the_record_after_it() -> None:
    assert LineSplitter(8).feed(b"\0" * 24 + b"record\nnext\n") == [Block(b"record\nnext\n", 24, 1)]


def test_live_frames_are_released_before_the_line_ends() -> None:
    cutter = LineSplitter(frames=True)
    assert cutter.feed(b" 10%\r 20%\r") == [Block(b" 10%\n", 0, 1)]
    assert cutter.feed(b"\nnext") == [Block(b" 20%\r\n", 5, 1)]
    assert cutter.feed(b"\r") == []
    assert cutter.feed(b"\n") == [Block(b"next\r\n", 11, 2)]


def test_uncounted_blocks_have_no_line_number() -> None:
    cutter = LineSplitter(4, counted=False)
    assert cutter.feed(b"a\nbcdef\ng\n")[-1] == Block(b"g\n", 8, 0)
