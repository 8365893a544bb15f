"""However a stream is cut into chunks, its lines, their offsets and numbers are the same."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from perfmon.core.model import Block, Notice
from perfmon.sources.blocks import LineSplitter

LIMIT = 5
CUTS = st.lists(st.integers(0, 60))
SHORT_LINES = st.lists(st.binary(max_size=LIMIT).map(lambda line: line.replace(b"\n", b"")), max_size=20)
STREAMS = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b"\0", b"\xff", b"d" * 7])).map(b"".join)


def lines_of(items: list[Block | Notice]) -> list[tuple[bytes, int, int]]:
    """(line, offset, number) of every line."""
    lines = []
    for block in items:
        if isinstance(block, Block):
            offset, number = block.offset, block.line
            for line in re.findall(rb"[^\n]*\n|[^\n]+", block.data):
                lines.append((line, offset, number))
                offset += len(line)
                number += 1
    return lines


def cut(chunks: list[bytes], **options: bool) -> list[Block | Notice]:
    cutter = LineSplitter(LIMIT, **options)
    items = [item for chunk in chunks for item in cutter.feed(chunk)]
    return items + cutter.finish()


def chunked(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(at, len(stream)) for at in cuts), len(stream)]
    return [stream[begin:end] for begin, end in pairwise(edges)]


@given(STREAMS, CUTS)
def test_chunking_leaves_no_trace(stream: bytes, cuts: list[int]) -> None:
    whole, cut_up = cut([stream]), cut(chunked(stream, cuts))
    assert lines_of(cut_up) == lines_of(whole)
    assert [item for item in cut_up if isinstance(item, Notice)] == [item for item in whole if isinstance(item, Notice)]


@given(SHORT_LINES, CUTS)
def test_short_lines_are_those_of_the_stream(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"\n".join(lines)
    expected, offset = [], 0
    for number, line in enumerate(stream.split(b"\n"), 1):
        ended = line + b"\n" if offset + len(line) < len(stream) else line
        if ended:
            expected.append((ended, offset, number))
        offset += len(ended)
    assert lines_of(cut(chunked(stream, cuts))) == expected


@given(STREAMS, CUTS)
def test_every_line_stands_where_its_offset_says(stream: bytes, cuts: list[int]) -> None:
    for line, offset, number in lines_of(cut(chunked(stream, cuts))):
        body = line.removesuffix(b"\n")
        assert stream[offset : offset + len(body)] == body
        assert stream.count(b"\n", 0, offset) == number - 1


@given(STREAMS, CUTS)
def test_released_frames_lose_and_repeat_nothing(stream: bytes, cuts: list[int]) -> None:
    items = [item for item in cut(chunked(stream, cuts), frames=True) if isinstance(item, Block)]
    for block, after in pairwise(items):
        assert block.offset < after.offset
        assert block.line <= after.line
    if not any(len(line) > LIMIT for line in stream.split(b"\n")):
        joined = b"".join(block.data for block in items)
        assert joined.replace(b"\r", b"\n") == stream.replace(b"\r", b"\n")


@given(STREAMS, CUTS, st.sets(st.integers(0, 60)))
def test_lines_released_before_their_end_lose_and_repeat_nothing(
    stream: bytes, cuts: list[int], pauses: set[int]
) -> None:
    cutter = LineSplitter(1 << 10, frames=True)
    items = []
    for number, chunk in enumerate(chunked(stream, cuts)):
        items += cutter.feed(chunk)
        if number in pauses:
            items += cutter.release()
            assert cutter.release() == []
    blocks = [item for item in items + cutter.finish() if isinstance(item, Block)]
    for block, after in pairwise(blocks):
        assert block.offset < after.offset
        assert block.line <= after.line
    for line, offset, number in lines_of([*blocks]):
        body = line.removesuffix(b"\n")
        assert stream[offset : offset + len(body)] == body
        assert stream.count(b"\n", 0, offset) == number - 1
    ends = re.compile(rb"\r\n|\r|\n")
    assert ends.sub(b"", b"".join(block.data for block in blocks)) == ends.sub(b"", stream)


@given(st.lists(st.sampled_from([b"a", b"step 7 loss=0.5", b"bc\r", b""]), max_size=8), CUTS)
def test_a_line_whose_end_comes_late_is_the_same_line(lines: list[bytes], cuts: list[int]) -> None:
    """However late the newline of a whole line comes, and whatever it is."""
    stream = b"".join(line + b"\n" for line in lines)
    cutter, items = LineSplitter(1 << 10), []
    for line in lines:
        for chunk in chunked(line.rstrip(b"\r"), cuts):
            items += cutter.feed(chunk)
        items += cutter.release()
        for sign in line[len(line.rstrip(b"\r")) :] + b"\n":
            items += cutter.feed(bytes([sign]))
    assert [
        (line.rstrip(b"\r\n"), offset, number) for line, offset, number in lines_of([*items, *cutter.finish()])
    ] == [
        (line.rstrip(b"\r\n"), offset, number) for line, offset, number in lines_of(LineSplitter(1 << 10).feed(stream))
    ]
