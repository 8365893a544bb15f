"""One opened file that grows, read piece by piece."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfmon.core.model import Block
from perfmon.sources.follow import file_reader
from perfmon.sources.follow.file_reader import Stream

TEXT = b"one\ntwo and more\n\na line that is longer than what is read at once, and looked at\nx\nunfinished"


@pytest.mark.parametrize("size", [1, 3, 4, 5, 20, 1000])
@pytest.mark.parametrize("look", [1, 8, 1000])
def test_every_line_comes_once_however_much_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, look: int
) -> None:
    monkeypatch.setattr(file_reader, "CHUNK", size)
    monkeypatch.setattr(file_reader, "_LOOK", look)
    path = tmp_path / "a.log"
    path.write_bytes(TEXT)
    opened = Stream(path)
    blocks: list[Block] = []
    while opened.print.position < len(TEXT):
        data, replaced = opened.read()
        assert data
        assert not replaced
        blocks += [item for item in opened.cutter.feed(data) if isinstance(item, Block)]
    opened.close()
    result = b"".join(block.data for block in blocks)
    assert result == TEXT[: TEXT.rfind(b"\n") + 1]
    for block in blocks:
        assert result[block.offset :].startswith(block.data)
        assert block.line == result.count(b"\n", 0, block.offset) + 1


def test_what_comes_while_it_is_read_is_left_for_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room is made for what is there and for a little more; a file that has grown by more is not at its end."""
    path = tmp_path / "a.log"
    path.write_bytes(b"one\n")
    opened, pread = Stream(path), os.pread
    more = b"".join(b"%d more\n" % at for at in range(4000))

    def grown(fd: int, size: int, at: int) -> bytes:
        if not path.stat().st_size > 4:
            with path.open("ab") as file:
                file.write(more)
        return pread(fd, size, at)

    monkeypatch.setattr("perfmon.sources.follow.file_reader.os.pread", grown)
    first, replaced = opened.read()
    assert not replaced
    assert not opened.at_end
    assert not opened.quiet()
    rest, _ = opened.read()
    assert opened.at_end
    assert opened.quiet()
    assert first + rest == b"one\n" + more
    opened.close()
