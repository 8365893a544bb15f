"""What becomes of a recording that is made while somebody watches, and what is told of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from handfed import HandFed

from perfmon.core.model import Block, Notice
from perfmon.monitor.recorder import Recorder
from perfmon.recording.format import open_recording
from perfmon.recording.writer import RecordingWriter
from perfmon.sources.discovery import log_file


def test_begun_and_ended_again_and_again_within_a_second(tmp_path: Path) -> None:
    notices: list[str] = []
    recorder, path = Recorder(notices), tmp_path / "perfmon-1.pmrec"
    for _ in range(3):
        recorder.toggle(str(path), [], 0.0)
        assert recorder.state(1.0) is not None
        recorder.toggle(str(path), [], 1.0)
        assert recorder.state(1.0) is None
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "perfmon-1-2.pmrec",
        "perfmon-1-3.pmrec",
        "perfmon-1.pmrec",
    ]
    assert not [message for message in notices if "exists" in message]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /dev/full")
def test_one_that_failed_is_told_until_another_is_begun(tmp_path: Path) -> None:
    notices: list[str] = []
    recorder = Recorder(notices)
    recorder._writer = RecordingWriter(Path("/dev/full"), [], overwrite=True)
    recorder.take("a.log", Block(b"x\n", 0, 1), 1.0)
    recorder.keep_up()
    state = recorder.state(100.0)
    assert state is not None
    assert state.failed == "/dev/full: recording stopped: No space left on device"
    assert notices == [state.failed]
    recorder.toggle(str(tmp_path / "next.pmrec"), [], 101.0)
    began = recorder.state(101.0)
    assert began is not None
    assert began.failed is None


def test_what_a_replay_plays_again_is_not_recorded_again(tmp_path: Path) -> None:
    notices: list[str] = []
    recorder, path = Recorder(notices), tmp_path / "run.pmrec"
    recorder.begin(str(path), [], 90.0)
    recorder.take("a.log", Block(b"x\n", 0, 1), 95.0)
    recorder.take("a.log", Block(b"y\n", 2, 2), 94.5)  # a seek forwards may tell of a moment before
    recorder.take("a.log", Block(b"x\n", 0, 1), 5.0)
    assert recorder.state(5.0) is None
    assert notices[1:] == [
        "the replay was rewound: recording stopped",
        f"recorded {path.stat().st_size} B to {path}",
    ]
    recording = open_recording(path)
    assert [frame.item for frame in recording.frames()] == [Block(b"x\n", 0, 1), Block(b"y\n", 2, 2)]
    assert recording.note is None


def test_one_that_somebody_removed_is_not_told_as_recorded(tmp_path: Path) -> None:
    notices: list[str] = []
    recorder, path = Recorder(notices), tmp_path / "run.pmrec"
    recorder.begin(str(path), [], 0.0)
    path.unlink()
    recorder.end()
    assert notices[1:] == [f"{path}: recording stopped: the file was removed; the recorded data is lost"]


def test_what_the_log_pane_holds_is_recorded_with_its_places(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    log, fed = log_file(path), HandFed(1e9)
    first = b"".join(b"2026-03-01 08:00:%02d INFO a line of the run\n" % second for second in range(30))
    fed.watch.take(log, Block(first, 0, 1))
    fed.watch.take(log, Block(b"one more\n", len(first), 31))
    fed.watch.take(log, Block(b"after a rotation\n", 0, 1))
    fed.watch.record(str(tmp_path / "run.pmrec"))
    fed.watch.take(log, Block(b"what came then\n", 17, 2))
    fed.watch.close()
    kept = [frame.item for frame in open_recording(tmp_path / "run.pmrec").frames()]
    assert [item.kind for item in kept if isinstance(item, Notice)] == ["history", "present"]
    blocks = [item for item in kept if isinstance(item, Block)]
    assert [(block.offset, block.line) for block in blocks] == [(0, 1), (0, 1), (17, 2)]
    assert b"".join(block.data for block in blocks) == first + b"one more\nafter a rotation\nwhat came then\n"
