"""A recording gives back what went in; cut off anywhere it gives what stood before."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest
from credentials import CREDENTIALS
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmon.core import masked, plain, without_secrets
from perfmon.core.errors import InputError
from perfmon.core.model import Block, Notice, NoticeKind
from perfmon.recording import format
from perfmon.recording.format import Frame, open_recording
from perfmon.recording.writer import RecordingWriter

NAMES = st.sampled_from(["a.log", "logs/b é.log", "stdin"])
BLOCKS = st.builds(Block, st.binary(max_size=60), st.integers(0, 2**60), st.integers(0, 2**40), st.booleans())
NOTICES = st.builds(
    Notice,
    st.text(st.characters(codec="utf-8"), max_size=30).map(lambda text: plain(text, 100)),
    st.sampled_from(get_args(NoticeKind)),
    st.integers(1, 10**9),
)
ITEMS = st.lists(st.tuples(st.floats(0, 1e7), NAMES, st.one_of(BLOCKS, NOTICES)), max_size=12).map(
    lambda items: sorted(items, key=lambda item: item[0])
)


def written(folder: str, items: Sequence[tuple[float, str, Block | Notice]], flush_every: int = 1000) -> Path:
    path = Path(folder) / "run.pmrec"
    with RecordingWriter(path, ["logs/"], start=12.5, overwrite=True) as writer:
        for number, item in enumerate(items, 1):
            writer.write(*item)
            if number % flush_every == 0:
                writer.flush()
    assert writer.failed is None
    return path


def frames(path: Path) -> list[Frame]:
    return list(open_recording(path).frames())


@settings(deadline=None)
@given(ITEMS, st.integers(1, 5))
def test_items_come_back_as_they_went_in(items: list[tuple[float, str, Block | Notice]], flush_every: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        recording = open_recording(written(folder, items, flush_every))
        assert (recording.header.start, recording.header.specs, recording.note) == (12.5, ("logs/",), None)
        assert [(frame.at_s, frame.log, frame.item) for frame in recording.frames()] == [
            (at_s, log, _safe(item)) for at_s, log, item in items
        ]
        assert recording.duration_s == max((at_s for at_s, _, _ in items), default=0.0)
        assert recording.frame_count == len(items)


def _safe(item: Block | Notice) -> Block | Notice:
    """Chance, too, makes something that looks like a credential."""
    if isinstance(item, Block):
        return Block(masked(item.data), item.offset, item.line, item.final)
    return Notice(without_secrets(item.text), item.kind, item.count)


def test_cut_off_at_any_byte_it_gives_what_stood_before() -> None:
    items = [(float(number), "a.log", Block(b"line %d\n" % number, 7 * number, number)) for number in range(12)]
    with tempfile.TemporaryDirectory() as folder:
        path = written(folder, [*items[:6], (6.0, "b.log", Notice("gone", "gone")), *items[7:]], 3)
        whole, data = frames(path), path.read_bytes()
        lengths = set()
        for size in range(1, len(data)):
            path.write_bytes(data[:size])
            recording = open_recording(path)
            part = list(recording.frames())
            assert part == whole[: len(part)]
            assert recording.note is not None
            assert "cut off" in recording.note
            lengths.add(len(part))
        assert lengths == {0, 3, 6, 9, 12}


@settings(deadline=None)
@given(st.data())
def test_a_byte_that_changed_is_told_and_costs_only_what_follows(data: st.DataObject) -> None:
    items = [(float(number), "a.log", Block(b"line %d\n" % number, 7 * number, number)) for number in range(9)]
    with tempfile.TemporaryDirectory() as folder:
        path = written(folder, items, 3)
        whole, text = frames(path), bytearray(path.read_bytes())
        text[data.draw(st.integers(0, len(text) - 1))] ^= data.draw(st.integers(1, 255))
        path.write_bytes(text)
        try:
            recording = open_recording(path)
        except InputError:
            return
        part = list(recording.frames())
        assert part == whole[: len(part)]
        assert recording.note is not None


def test_a_schema_that_never_was_is_no_recording(tmp_path: Path) -> None:
    path = written(str(tmp_path), [(0.0, "a.log", Block(b"x\n", 0, 1))], 3)
    text = path.read_bytes()
    begin = format.BEGIN_SIZE
    path.write_bytes(text[: begin - 2] + b"\0\0" + text[begin:])
    with pytest.raises(InputError, match="not a recording"):
        open_recording(path)


@pytest.mark.parametrize(("raw", "shown"), CREDENTIALS)
def test_no_credential_reaches_the_file(raw: str, shown: str, tmp_path: Path) -> None:
    kept, _, rest = shown.partition("***")
    secret = raw[len(kept) : len(raw) - len(rest)]
    path = tmp_path / "run.pmrec"
    with RecordingWriter(path, [raw]) as writer:
        writer.write(0.0, "a.log", Block(f"x\n{raw}\n".encode(), 0, 1))
        writer.write(0.0, raw, Notice(raw, "lost"))
    recording = open_recording(path)
    assert secret.encode() not in path.read_bytes()
    assert secret not in f"{recording.header}{recording.logs}{list(recording.frames())}"
    (block, _) = recording.frames()
    assert isinstance(block.item, Block)
    assert len(block.item.data) == len(f"x\n{raw}\n".encode())


def test_reading_may_begin_in_the_middle(tmp_path: Path) -> None:
    items = [(float(number), f"{number}.log", Block(b"x\n", 0, 1)) for number in range(30)]
    recording = open_recording(written(str(tmp_path), items, 4))
    whole = list(recording.frames())
    for at_s in (0.0, 3.0, 3.5, 4.0, 28.9, 29.0, 99.0):
        part, wanted = list(recording.frames(at_s)), [frame for frame in whole if frame.at_s >= at_s]
        assert part == whole[len(whole) - len(part) :]
        assert len(wanted) <= len(part) < len(wanted) + 4
