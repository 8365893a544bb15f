"""`perfmon record` follows, masks, ends as it was told, and what it recorded is diagnosed like the logs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perfmon.core.model import Block
from perfmon.demo.output import write_demo
from perfmon.pipeline.offline import Options, examine
from perfmon.recording.format import open_recording
from perfmon.reports.json_report import document

pytestmark = pytest.mark.slow

RECORD = [sys.executable, "-m", "perfmon", "record"]


def start(folder: Path, *arguments: str, ignoring: signal.Signals | None = None) -> subprocess.Popen[str]:
    """A recording into run.pmrec that has begun to follow."""
    trap = [] if ignoring is None else ["sh", "-c", f"trap '' {ignoring.name[3:]}; exec \"$@\"", "sh"]
    command = [*trap, *RECORD, *arguments, "-o", "run.pmrec"]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def until(done: Callable[[], bool]) -> None:
    """Waits; fails after 20 s."""
    limit = time.monotonic() + 20
    while not done():
        assert time.monotonic() < limit, "it never came to that"
        time.sleep(0.02)


def recorded(path: Path) -> bytes:
    """All lines that the recording holds."""
    return b"".join(f.item.data for f in open_recording(path).frames() if isinstance(f.item, Block))


def holds(path: Path, text: bytes) -> Callable[[], bool]:
    """Whether the recording holds `text` by now."""
    return lambda: path.exists() and path.stat().st_size > 0 and text in recorded(path)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)])
def test_it_records_until_a_signal_and_closes_the_file(tmp_path: Path, number: int, code: int) -> None:
    (tmp_path / "a.log").write_text("old\n")
    with start(tmp_path, "a.log") as process:
        until(holds(tmp_path / "run.pmrec", b"old\n"))
        with (tmp_path / "a.log").open("a") as log:
            log.write("HF_TOKEN=hf_abcdefghijklmnopqrst\nnew\n")
        until(holds(tmp_path / "run.pmrec", b"new\n"))
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (code, "")
    assert err.startswith("perfmon: recorded 3 lines (41 B) of 1 log in ")
    assert err.count("\n") == 1
    recording = open_recording(tmp_path / "run.pmrec")
    assert (recording.note, recording.header.specs, recording.logs) == (None, ("a.log",), ("a.log",))
    assert recorded(tmp_path / "run.pmrec") == b"old\nHF_TOKEN=***********************\nnew\n"


def test_nohup_is_heeded(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("old\n")
    with start(tmp_path, "a.log", ignoring=signal.SIGHUP) as process:
        until(holds(tmp_path / "run.pmrec", b"old\n"))
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        with (tmp_path / "a.log").open("a") as log:
            log.write("new\n")
        until(holds(tmp_path / "run.pmrec", b"new\n"))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == 0


def test_a_recording_that_somebody_removes_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("old\n")
    with start(tmp_path, "a.log") as process:
        until(holds(tmp_path / "run.pmrec", b"old\n"))
        (tmp_path / "run.pmrec").unlink()
        with (tmp_path / "a.log").open("a") as log:
            log.write("new\n")
        _, err = process.communicate(timeout=20)
    assert process.returncode == 2
    assert err.endswith("perfmon: run.pmrec: recording stopped: the file was removed; the recorded data is lost\n")


def test_what_is_not_there_is_told_while_it_is_waited_for(tmp_path: Path) -> None:
    with start(tmp_path, "nothing.log", "--for", "0.5") as process:
        _, err = process.communicate(timeout=20)
    first, last = err.splitlines()
    assert first == "perfmon: nothing.log: does not exist yet: waiting"
    assert last.startswith("perfmon: recorded 0 lines (0 B) of 0 logs in ")


def test_only_lines_that_are_in_the_file_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"".join(b"%s\n" % os.urandom(60).hex().encode() for _ in range(100)))
    with start(tmp_path, "a.log", "--max-size", "3K") as process:
        _, err = process.communicate(timeout=20)
    assert err.startswith("perfmon: recorded 0 lines (0 B) of 1 log in ")
    assert recorded(tmp_path / "run.pmrec") == b""


def test_for_some_seconds_and_without_history(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("old\n")
    with start(tmp_path, "a.log", "--no-history", "--for", "1s") as process:
        _, err = process.communicate(timeout=20)
    assert (process.returncode, recorded(tmp_path / "run.pmrec")) == (0, b"")
    assert "recorded 0 lines" in err
    assert open_recording(tmp_path / "run.pmrec").duration_s >= 1.0


def test_a_recording_that_is_killed_keeps_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("kept\n")
    with start(tmp_path, ".") as process:
        until(holds(tmp_path / "run.pmrec", b"kept\n"))
        process.kill()
    assert "cut off" in str(open_recording(tmp_path / "run.pmrec").note)
    assert recorded(tmp_path / "run.pmrec") == b"kept\n"


def test_it_is_diagnosed_like_the_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_demo(Path("logs"), "slow-weight-load")
    with start(tmp_path, "logs", "--for", "2s") as process:
        process.communicate(timeout=20)
    of_logs, of_recording = (document(examine(Options((spec,)))[0]) for spec in ("logs", "run.pmrec"))
    assert of_recording == of_logs
    assert of_logs["verdict"]["signature"] == "slow-weight-load"


def test_a_pipe_that_ends_ends_it(tmp_path: Path) -> None:
    command = [*RECORD, "-", "-o", str(tmp_path / "run.pmrec")]
    done = subprocess.run(command, input=b"one\ntwo", capture_output=True, check=True, timeout=20)
    assert recorded(tmp_path / "run.pmrec") == b"one\ntwo"
    assert done.stderr.startswith(b"perfmon: recorded 2 lines")


@pytest.mark.parametrize(("closed", "message"), [("</dev/null", ""), ("<&-", "perfmon: stdin: cannot be read")])
def test_without_any_input_there_is_nothing_to_record(closed: str, message: str, tmp_path: Path) -> None:
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *RECORD, "-", "-o", "run.pmrec"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    *before, last = done.stderr.splitlines()
    assert (done.returncode, last[:23]) == (0, "perfmon: recorded 0 lin")
    assert [line[: len(message)] for line in before[:1]] == ([message] if message else [])


def test_a_size_that_is_reached_ends_it(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(os.urandom(100_000).hex().encode() + b"\n")
    with start(tmp_path, "a.log", "--max-size", "4K") as process:
        _, err = process.communicate(timeout=20)
    assert process.returncode == 2
    assert err.splitlines()[1].endswith("recording stopped: maximum size reached, 4.0 KiB; earlier data stays readable")
    assert (tmp_path / "run.pmrec").stat().st_size <= 4096


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        (["s3://runs/a", "-o", "run.pmrec"], "no such kind of source"),
        (["a.log", "-o", "there.pmrec"], "there.pmrec: already exists"),
        (["a.log", "-o", "gone/run.pmrec"], "gone/run.pmrec: cannot be written"),
        (["no.tar.gz", "-o", "run.pmrec"], "no.tar.gz"),
        (["a.log", "--for", "soon"], "expected a duration such as 30s or 10m, not 'soon'"),
        (["a.log", "--max-size", "-1"], "--max-size: expected"),
        (["a.log", "--max-size", "big"], "expected a size such as 500M or 2G, not 'big'"),
    ],
)
def test_wrong_wishes_are_one_line_and_leave_no_file(tmp_path: Path, arguments: list[str], result: str) -> None:
    (tmp_path / "there.pmrec").write_text("precious")
    done = subprocess.run([*RECORD, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=20)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert result in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["there.pmrec"]
    assert (tmp_path / "there.pmrec").read_text() == "precious"
