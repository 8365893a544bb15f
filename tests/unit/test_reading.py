"""Reading logs: every form gives the same lines; what is damaged gives what is left and says the loss."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from perfmon.core.model import Block, Notice
from perfmon.sources.batch import read_blocks, read_logs
from perfmon.sources.discovery import STDIN, LogFile, discover

LINES = [b"line %d \xff\xfe \xe2\x82\xac\r\n" % number for number in range(30_000)]
TEXT = b"".join(LINES)
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
}


def read(path: Path | LogFile, size: int = 1 << 22) -> tuple[bytes, list[str]]:
    """(text, notices)."""
    log = path if isinstance(path, LogFile) else LogFile(path.name, path)
    items = list(read_blocks(log, size))
    notices = [f"{item.kind} {item.text}" for item in items if isinstance(item, Notice)]
    return b"".join(item.data for item in items if isinstance(item, Block)), notices


def saved(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_a_plain_file_is_read_in_blocks_of_whole_lines(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.log", TEXT[:-1])
    blocks = [item for item in read_blocks(LogFile("a.log", path), 4096) if isinstance(item, Block)]
    assert b"".join(block.data for block in blocks) == TEXT[:-1]
    for block in blocks:
        assert block.line == TEXT.count(b"\n", 0, block.offset) + 1
        assert block.final == (block is blocks[-1])


@pytest.mark.parametrize("kind", COMPRESSORS)
@pytest.mark.parametrize("name", ["a.log", "a.log.{kind}"])
def test_compressed_files_are_read_through_all_their_streams(tmp_path: Path, kind: str, name: str) -> None:
    compress = COMPRESSORS[kind]
    path = saved(tmp_path / name.format(kind=kind), compress(TEXT[:1000]) + compress(b"") + compress(TEXT[1000:]))
    assert read(path) == (TEXT, [])


@pytest.mark.parametrize("kind", COMPRESSORS)
@pytest.mark.parametrize("share", [0.999, 0.6, 0.0])
def test_truncated_compressed_files_give_what_is_left(tmp_path: Path, kind: str, share: float) -> None:
    # Two streams, as bz2 gives out whole blocks only.
    data = COMPRESSORS[kind](TEXT[:200_000]) + COMPRESSORS[kind](TEXT[200_000:])
    first = len(COMPRESSORS[kind](TEXT[:200_000]))
    path = saved(tmp_path / "a.log", data[: max(int(len(data) * share), first + 4)])
    text, notices = read(path)
    assert TEXT.startswith(text)
    assert len(text) >= 200_000
    assert notices == [f"lost a.log: truncated after {len(text)} bytes, the rest is lost"]


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_corrupt_compressed_files_give_what_stands_before(tmp_path: Path, kind: str) -> None:
    first, second = COMPRESSORS[kind](TEXT[:200_000]), bytearray(COMPRESSORS[kind](TEXT[200_000:]))
    second[len(second) // 2] ^= 0xFF
    text, notices = read(saved(tmp_path / "a.log", first + second))
    assert text.startswith(TEXT[:200_000])
    (notice,) = notices
    assert notice.startswith("lost a.log: corrupt (")
    assert notice.endswith(f" after {len(text)} bytes, the rest is lost")


def test_foreign_bytes_after_a_stream_are_told_and_padding_is_not(tmp_path: Path) -> None:
    assert read(saved(tmp_path / "a.gz", gzip.compress(TEXT) + b"\0" * 100)) == (TEXT, [])
    text, notices = read(saved(tmp_path / "b.gz", gzip.compress(TEXT) + b"oops"))
    assert text == TEXT
    assert "followed by bytes that are not compressed" in notices[0]


@pytest.mark.parametrize(
    "data",
    [bytes(range(256)) * 64, b"\x7fELF\2\1\1" + b"\0" * 99, b"\x80\x04\x95abc", gzip.compress(bytes(range(256)) * 9)],
)
def test_a_binary_file_gives_a_notice_and_no_blocks(tmp_path: Path, data: bytes) -> None:
    assert read(saved(tmp_path / "a.log", data)) == (b"", ["lost a.log: binary, not a log: skipped"])


@pytest.mark.parametrize(
    "data",
    [b"", b"hello\0world\n", b"\0" * 40_000 + b"after a hole\n", b"crashed\n" + b"\0" * 4096,
     b"\x1b[31mred\x1b[0m\r\n" * 9, "中文日志\n".encode("gbk") * 50, b"BZh is how it begins\n", b"\xff\xfe invalid\n",
     b"\r 10%\r 20%\r"],
)  # fmt: skip
def test_odd_text_is_text(tmp_path: Path, data: bytes) -> None:
    assert read(saved(tmp_path / "a.log", data)) == (data, [])


def test_utf16_is_decoded_and_told(tmp_path: Path) -> None:
    text, notices = read(saved(tmp_path / "a.log", "step 1 €\nstep 2\n".encode("utf-16")), size=3)
    assert text == "step 1 €\nstep 2\n".encode()
    assert notices == ["decoded a.log: UTF-16: read as UTF-8, offsets count its bytes"]


def test_a_huge_line_is_capped_and_told_with_the_name_of_the_log(tmp_path: Path) -> None:
    text, notices = read(saved(tmp_path / "a.log", b"x" * 5_000_000 + b"\nafter\n"))
    assert text == b"x" * (1 << 20) + b"\nafter\n"
    assert notices == ["capped a.log: line 1 is 5000000 bytes long: only its first 1048576 are read"]


def test_a_file_that_vanished_and_a_directory_are_told(tmp_path: Path) -> None:
    assert read(tmp_path / "gone.log") == (
        b"",
        ["lost gone.log: cannot be read (No such file or directory) after 0 bytes, the rest is lost"],
    )
    assert "cannot be read (Is a directory)" in read(tmp_path)[1][0]


def test_stdin_is_read_as_bytes_compressed_or_not(tmp_path: Path) -> None:
    program = (
        "import sys; from perfmon.sources.batch import *; from perfmon.sources.discovery import *\n"
        "for b in read_blocks(LogFile('stdin', STDIN)): sys.stdout.buffer.write(b.data)"
    )
    assert Path("-") == STDIN
    for data in (TEXT, gzip.compress(TEXT)):
        done = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, check=True)
        assert done.stdout == TEXT


def test_a_named_pipe_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["sh", "-c", "printf 'one\\ntwo\\n' > pipe"], cwd=tmp_path):
        (log,) = discover([str(tmp_path / "pipe")])
        assert read(log) == (b"one\ntwo\n", [])


# --- archives ------------------------------------------------------------------------------------------------
FILES = {
    "logs/b.log": TEXT[:90_000],
    "logs/a.log": TEXT,
    "logs/c.log.gz": gzip.compress(TEXT),
    "logs/w.ckpt": b"\0" * 5000,
}


def packed(path: Path) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in FILES.items():
                archive.writestr(name, data)
        return path
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, data in FILES.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    kind = path.suffix.removeprefix(".")
    return saved(path, COMPRESSORS[kind](stream.getvalue()) if kind in COMPRESSORS else stream.getvalue())


ARCHIVES = ["b.tar", "b.tar.gz", "b.tar.bz2", "b.tar.xz", "b.tar.zst", "b.zip"]


@pytest.mark.parametrize("name", ARCHIVES)
def test_members_of_archives_are_read(tmp_path: Path, name: str) -> None:
    logs = discover([str(packed(tmp_path / name))])
    assert [log.member for log in logs] == ["logs/a.log", "logs/b.log", "logs/c.log.gz"]
    assert [read(log) for log in logs] == [(TEXT, []), (TEXT[:90_000], []), (TEXT, [])]
    together: dict[str | None, bytes] = {}
    for log, item in read_logs(logs):
        assert isinstance(item, Block)
        together[log.member] = together.get(log.member, b"") + item.data
    assert together == {"logs/a.log": TEXT, "logs/b.log": TEXT[:90_000], "logs/c.log.gz": TEXT}


@pytest.mark.parametrize("name", ["b.tar", "b.tar.gz", "b.tar.xz", "b.tar.zst", "b.zip"])
def test_truncated_archives_give_what_is_left(tmp_path: Path, name: str) -> None:
    path = packed(tmp_path / name)
    os.truncate(path, path.stat().st_size * 45 // 100)
    logs = discover([str(path)])
    assert [log.member for log in logs] == ["logs/a.log", "logs/b.log"]
    (a, result), (b, _) = (read(log) for log in logs)
    assert b == TEXT[:90_000]
    assert TEXT.startswith(a)
    assert a
    assert f"lost {logs[0].name}: truncated after {len(a)} bytes, the rest is lost" in result
    assert "the rest is lost" in " ".join(item.text for _, item in read_logs(logs) if isinstance(item, Notice))


def test_an_encrypted_member_is_told(tmp_path: Path) -> None:
    path = packed(tmp_path / "b.zip")
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    log = LogFile("b", saved(path, bytes(data)), "logs/b.log")
    assert read(log) == (b"", ["lost b: encrypted after 0 bytes, the rest is lost"])


def test_hostile_member_names_are_only_text(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../etc/\x1b[31mevil.log", "line\n")
    (log,) = discover([str(path)])
    assert "\x1b" not in log.name
    assert read(log) == (b"line\n", [])
    assert sorted(tmp_path.iterdir()) == [path]
