"""A recording as a SPEC: its logs have their own names, and what it lost is told once."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfmon.core.errors import InputError
from perfmon.core.model import Block, Notice
from perfmon.recording.writer import RecordingWriter
from perfmon.sources.batch import read_blocks, read_logs
from perfmon.sources.discovery import discover
from perfmon.sources.spec import RECORDING, Kind, parse_spec


def test_a_recording_names_the_logs_that_it_holds(tmp_path: Path) -> None:
    with RecordingWriter(tmp_path / "run.pmrec", ["logs"]) as writer:
        for number, name in enumerate(("logs/b.log", "logs/a.log")):
            writer.write(0.0, name, Block(b"%d\n" % number, 0, 1))
    path = tmp_path / "run.pmrec"
    for spec in (path, tmp_path / "*.pmrec"):
        logs = discover([str(spec)])
        assert [(log.name, log.path, log.member, log.compression) for log in logs] == [
            (name, path, name, RECORDING) for name in ("logs/a.log", "logs/b.log")
        ]
    assert parse_spec(str(path)).kind is Kind.RECORDING
    assert [(log.name, item) for log, item in read_logs(logs)] == [
        ("logs/b.log", Block(b"0\n", 0, 1)),
        ("logs/a.log", Block(b"1\n", 0, 1)),
    ]
    assert list(read_blocks(logs[0])) == [Block(b"1\n", 0, 1)]
    with pytest.raises(InputError, match="no logs below this directory"):
        discover([str(tmp_path)])


def test_a_recording_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.pmrec").write_bytes(b"text\n")
    with pytest.raises(InputError, match="not a recording: expected"):
        discover([str(tmp_path / "a.pmrec")])
    RecordingWriter(tmp_path / "b.pmrec", []).close()
    with pytest.raises(InputError, match="an empty recording"):
        discover([str(tmp_path / "b.pmrec")])


def test_what_a_recording_lost_is_told_once(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "a.pmrec", [])
    for name in ("a.log", "b.log"):
        writer.write(0.0, name, Block(b"x\n", 0, 1))
    writer.flush()
    logs = discover([str(tmp_path / "a.pmrec")])
    notices = [(log.name, item.kind, item.text) for log, item in read_logs(logs) if isinstance(item, Notice)]
    result = f"{tmp_path}/a.pmrec: cut off after 0 ms: still being written, or ended by a crash"
    assert notices == [("b.log", "lost", result)]
    (tmp_path / "a.pmrec").unlink()
    assert [item.kind for _, item in read_logs(logs) if isinstance(item, Notice)] == ["lost"]
