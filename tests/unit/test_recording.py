"""Recordings are private, never overwrite by accident, and a full disk costs what comes after, nothing else."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from perfmon.core.errors import InputError
from perfmon.core.model import Block
from perfmon.recording.format import MAGIC, DamagedError, open_recording, pack_begin, pack_section, read_head
from perfmon.recording.writer import RecordingWriter

LINES = b"".join(b"%08x line of a log\n" % (number * 2654435761 % 2**32) for number in range(40_000))


def block(at: int) -> Block:
    return Block(LINES[at : LINES.index(b"\n", at + 200_000) + 1], at, 1)


def test_only_its_owner_may_read_it_and_only_force_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "run.pmrec"
    path.write_bytes(b"precious")
    path.chmod(0o644)
    with pytest.raises(InputError, match="already exists"):
        RecordingWriter(path, [])
    assert path.read_bytes() == b"precious"
    RecordingWriter(path, [], overwrite=True).close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert open_recording(path).note is None


@pytest.mark.parametrize("name", ["", "gone/run.pmrec"])
def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"cannot be written|already exists"):
        RecordingWriter(tmp_path / name, [])


def test_what_is_held_reaches_the_file_after_a_second(tmp_path: Path) -> None:
    now = 0.0
    writer = RecordingWriter(tmp_path / "run.pmrec", [], clock=lambda: now)
    writer.write(0.1, "a.log", Block(b"one\n", 0, 1))
    now = 0.9
    writer.flush_due()
    assert writer.frames == 0
    now = 1.0
    writer.flush_due()
    assert writer.frames == 1
    recording = open_recording(tmp_path / "run.pmrec")
    assert [frame.item for frame in recording.frames()] == [Block(b"one\n", 0, 1)]
    assert recording.note is not None
    assert "still being written" in recording.note
    assert writer.bytes_written == (tmp_path / "run.pmrec").stat().st_size
    writer.close(7.5)
    assert open_recording(tmp_path / "run.pmrec").duration_s == 7.5


def test_a_key_whose_end_comes_in_a_later_block_is_stars(tmp_path: Path) -> None:
    line = b"MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MaGvV3pPSyXo9kAQ\n"
    with RecordingWriter(tmp_path / "run.pmrec", []) as writer:
        for log, data in (("a", line), ("b", b"Ab3/q==\n"), ("a", b"Ab3/q==\n"), ("a", b"-----END PRIVATE KEY-----\n")):
            writer.write(0.1, log, Block(data, 0, 1))
    items = [frame.item for frame in open_recording(tmp_path / "run.pmrec").frames()]
    stars = [b"*" * 64 + b"\n", b"Ab3/q==\n", b"*" * 7 + b"\n", b"-----END PRIVATE KEY-----\n"]
    assert [item.data for item in items if isinstance(item, Block)] == stars


def test_at_its_largest_size_it_stops_and_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "run.pmrec"
    with RecordingWriter(path, [], max_bytes=150_000) as writer:
        for at_s in range(20):
            writer.write(float(at_s), "a.log", block(30_000 * at_s))
            writer.flush()
    assert writer.failed == f"{path}: recording stopped: maximum size reached, 146.5 KiB; earlier data stays readable"
    assert path.stat().st_size == writer.bytes_written <= 150_000
    recording = open_recording(path)
    read = [frame.item for frame in recording.frames()]
    assert 0 < len(read) == writer.frames < 20
    assert read == [block(30_000 * at_s) for at_s in range(len(read))]
    assert recording.note is not None
    assert "ends early" in recording.note


def test_a_device_that_is_full_from_the_start_is_told(tmp_path: Path) -> None:
    with RecordingWriter(Path("/dev/full"), [], overwrite=True) as writer:
        writer.write(0.0, "a.log", block(0))
    assert writer.failed == "/dev/full: recording stopped: No space left on device"
    assert Path("/dev/full").exists()


@pytest.mark.system
def test_a_disk_that_fills_up_keeps_what_was_written(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    try:
        path = tmp_path / "run.pmrec"
        with RecordingWriter(path, []) as writer:
            for at_s in range(20):
                writer.write(float(at_s), "a.log", block(30_000 * at_s))
                writer.flush()
        assert writer.failed is not None
        assert "No space left on device; earlier data stays readable" in writer.failed
        read = [frame.item for frame in open_recording(path).frames()]
        assert 0 < len(read) == writer.frames < 20
        assert read == [block(30_000 * at_s) for at_s in range(len(read))]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_process_that_is_killed_leaves_what_it_flushed(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from perfmon.recording.writer import RecordingWriter; from perfmon.core.model import Block\n"
        "writer = RecordingWriter(Path(sys.argv[1]), [])\n"
        "writer.write(0.0, 'a.log', Block(b'kept\\n', 0, 1)); writer.flush()\n"
        "writer.write(1.0, 'a.log', Block(b'lost\\n', 5, 2)); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = tmp_path / "run.pmrec"
    subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    recording = open_recording(path)
    assert [frame.item for frame in recording.frames()] == [Block(b"kept\n", 0, 1)]
    assert recording.note == f"{path}: cut off after 0 ms: still being written, or ended by a crash"


@pytest.mark.parametrize(
    ("data", "result"),
    [
        (b"", "not a recording: expected what `perfmon record` writes, not an empty file"),
        (b"2026-08-21 a log\n", "not a recording: expected .* not a different file type"),
        (MAGIC + struct.pack(">H", 2) + b"?", r"recorded by a newer perfmon \(schema 2, .*: update perfmon"),
        (pack_begin() + bytes(200), "damaged recording"),
        (pack_begin() + pack_section(0, {"start": "x"}), "damaged recording"),
        (pack_begin() + pack_section(1, []), "damaged recording"),
    ],
)
def test_what_is_no_recording_is_one_line(tmp_path: Path, data: bytes, result: str) -> None:
    path = tmp_path / "run.pmrec"
    path.write_bytes(data)
    with pytest.raises(InputError, match=result):
        open_recording(path)
    with pytest.raises(InputError, match="cannot be read"):
        open_recording(tmp_path / "gone.pmrec")


def test_a_pipe_is_one_line_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.pmrec")
    with pytest.raises(InputError, match=r"run\.pmrec: a pipe cannot be played \(write it to a file first\)"):
        open_recording(tmp_path / "run.pmrec")


def test_a_group_that_promises_too_much_is_damage(tmp_path: Path) -> None:
    import zstandard

    header = pack_begin() + pack_section(0, {"perfmon": "1", "start": 0, "specs": []})
    bomb = zstandard.compress(bytes(1 << 22))
    (tmp_path / "a.pmrec").write_bytes(header + pack_section(1, ["a"], bomb, raw_size=100, frames=1))
    recording = open_recording(tmp_path / "a.pmrec")
    assert list(recording.frames()) == []
    assert "damaged" in str(recording.note)
    with pytest.raises(DamagedError):
        read_head(pack_section(1, ["a"], bomb, raw_size=1 << 30))


def test_names_and_notices_of_a_foreign_file_cannot_act(tmp_path: Path) -> None:
    with RecordingWriter(tmp_path / "a.pmrec", ["\x1b[2Jspec"]) as writer:
        writer.write(0.0, "\x1b]0;owned\x07a.log", Block(b"\x1b[2J\n", 0, 1))
    recording = open_recording(tmp_path / "a.pmrec")
    assert (recording.header.specs, recording.logs) == (("spec",), ("a.log",))
