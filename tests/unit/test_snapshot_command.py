"""`perfmon snapshot`: observes without a screen and writes one page."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perfmon.cli import main
from perfmon.core.config import Config
from perfmon.core.errors import ExitCode, InputError
from perfmon.demo.output import write_demo
from perfmon.monitor.headless import observe
from perfmon.reports.files import save

MADE = datetime(2026, 8, 21, 9, 10, tzinfo=UTC)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, without settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PERFMON_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def logs(place: Path) -> Path:
    """The logs of a run whose weight updates queue."""
    write_demo(place / "logs", "frontend-queue", 0, 10.0)
    return place / "logs"


def test_the_page_goes_to_stdout(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", str(logs)]) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert out.startswith("# ✗ CRIT Front-end queue saturation\n")
    assert err == ""


@pytest.mark.parametrize(
    "command", [["snapshot", "logs"], ["compare", "logs", "logs"], ["calibrate", "logs"], ["export", "alert-rules"]]
)
def test_a_dash_is_standard_output(command: list[str], logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "-o", "-"]) == ExitCode.DONE
    assert len(capsys.readouterr().out.splitlines()) > 10
    assert not Path("-").exists()


@pytest.mark.parametrize("command", [["record", "logs"], ["analyze", "logs"]])
def test_what_has_to_be_a_file_does_not_go_to_standard_output(
    command: list[str], logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "-o", "-"]) == ExitCode.USAGE
    assert "cannot be written to standard output: give a file name" in capsys.readouterr().err
    assert not Path("-").exists()


def test_a_page_that_is_redirected_is_utf_8_whatever_the_locale(logs: Path) -> None:
    command = [sys.executable, "-m", "perfmon", "snapshot", str(logs)]
    done = subprocess.run(command, env=os.environ | {"PYTHONIOENCODING": "latin-1"}, capture_output=True, check=True)
    assert done.stdout.decode().startswith("# ✗ CRIT Front-end queue saturation\n")


def test_only_the_window_is_judged(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", "logs", "--window", "2m", "--json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["run"]["wall_s"] == pytest.approx(120.0, abs=1.0)
    assert main(["snapshot", "logs", "--window", "all", "--json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["run"]["wall_s"] > 600.0


def test_logs_without_a_clock_have_a_page_too(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "x.log").write_text("queue_ms=12 rpc_ms=3\n")
    assert main(["snapshot", "x.log"]) == ExitCode.DONE
    assert "no timestamps" in capsys.readouterr().out


def test_a_file_is_replaced_and_told(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("page.md").write_text("old")
    assert main(["snapshot", "logs", "-o", "page.md"]) == ExitCode.DONE
    assert capsys.readouterr() == ("", "perfmon: wrote page.md\n")
    assert Path("page.md").read_text().startswith("# ✗ CRIT")
    assert sorted(os.listdir()) == ["logs", "page.md"]


def test_a_redacted_document_names_no_place(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", str(logs), "--json", "--redact"]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert str(logs) not in out
    assert "10.0.0.5" not in out
    assert json.loads(out)["verdict"]["signature"] == "frontend-queue"


@pytest.mark.parametrize(
    "arguments", [["--for", "soon", "logs"], ["--window", "0s", "logs"], ["gone.log"], ["gone.log", "--for", "1s"], []]
)
def test_a_mistake_is_told_in_one_line(logs: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", *arguments]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)


def test_in_a_folder_the_page_is_named_after_the_moment(place: Path) -> None:
    assert [save("x", place, MADE).name, save("y", place, MADE).name] == [
        "perfmon_20260821_091000.md",
        "perfmon_20260821_091000_2.md",
    ]


def test_a_page_that_cannot_be_written_leaves_what_was_there(place: Path) -> None:
    (place / "target").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        save("x", place / "gone" / "page.md", MADE)
    (place / "link.md").symlink_to("target/page.md")
    save("x", place / "link.md", MADE)
    assert (place / "target" / "page.md").read_text() == "x"
    assert (place / "link.md").is_symlink()


@pytest.fixture
def running(logs: Path) -> Iterator[subprocess.Popen[str]]:
    """A snapshot that follows the logs for an hour, and has begun to."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "perfmon", "snapshot", "logs", "--for", "1h", "-o", "page.md"]
    child = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True, start_new_session=True)
    yield child
    child.kill()
    child.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_one_writes_what_it_saw(running: subprocess.Popen[str], number: signal.Signals) -> None:
    assert running.stderr is not None
    assert running.stderr.readline() == "perfmon: following the logs for 1h 00m (Ctrl+C stops)\n"
    running.send_signal(number)
    _, err = running.communicate(timeout=60)
    assert running.returncode == ExitCode.INTERRUPTED, err
    page = Path("page.md").read_text()
    assert "> interrupted after" in page
    assert page.startswith("# ✗ CRIT")


def test_lines_that_come_meanwhile_are_on_the_page(logs: Path) -> None:
    trainer = logs / "trainer.log"
    lines = trainer.read_text().splitlines(keepends=True)

    def go_on() -> None:
        with trainer.open("a") as log:
            log.writelines(lines[-3:])

    seen = observe(["logs"], Config(), "600s", 1.0, following=go_on)
    assert {Path(s.spec).name: s.lines for s in seen.snapshot.run.sources}["trainer.log"] == len(lines) + 3
    assert seen.picture is not None
    assert [alert.finding.signature for alert in seen.picture.alerts][:1] == ["frontend-queue"]
    assert not seen.interrupted


def test_logs_that_nothing_recognises_are_named_all_the_same(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "x.log").write_text("nothing to see\n")
    for arguments in ([], ["--for", "50ms"]):
        assert main(["snapshot", "x.log", *arguments]) == ExitCode.DONE
        out = capsys.readouterr().out
        assert out.startswith("# ? nothing observed\n")
        assert "| x.log | unknown |" in out


@pytest.mark.usefixtures("place")
def test_a_source_that_does_not_answer_is_named_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as held:  # bound and not listening: nobody else gets this port
        held.bind(("127.0.0.1", 0))
        assert main(["snapshot", f"vllm=http://127.0.0.1:{held.getsockname()[1]}", "--for", "1.5s"]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "no log is watched, only polled values" in out
    row = next(line for line in out.partition("## Sources without an answer")[2].splitlines() if "vllm" in line)
    assert "| failed |" in row
    assert "connection refused" in row


def drawn(image: str) -> tuple[int, int]:
    """Columns and rows of a screenshot."""
    width, height = map(int, re.findall(r'viewBox="0 0 (\d+) (\d+)"', image)[0])
    return (width - 20) // 10, (height - 20) // 20


@pytest.mark.parametrize("following", [(), ("--for", "0.1s")])
def test_a_screenshot_is_written_beside_the_page(
    logs: Path, capsys: pytest.CaptureFixture[str], following: tuple[str, ...]
) -> None:
    with (logs / "trainer.log").open("a") as log:
        log.write("[trainer0]:09:10:20    INFO login token=hunter2-hunter2\n")
    assert main(["snapshot", str(logs), "--svg", "shot.svg", "--size", "100x30", *following]) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert out.startswith("# ✗ CRIT Front-end queue saturation\n")
    assert err.endswith("perfmon: wrote shot.svg\n")
    image = Path("shot.svg").read_text()
    assert drawn(image) == (100, 30)
    for result in ("FRONT-END QUEUE SATURATION", "queue time", "orchestrator.log", "INFO login token="):
        assert result in image
    assert "hunter2" not in image


def test_the_page_is_the_same_with_a_screenshot(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = []
    for log in logs.iterdir():
        os.utime(log, (0.0, 0.0))  # nobody waits for more, so both are of the same moment
    for more in ([], ["--svg", "shot.svg"]):
        assert main(["snapshot", str(logs), "--window", "all", *more]) == ExitCode.DONE
        page = capsys.readouterr().out.partition("## Metrics")[0]
        page = re.sub(
            r"no output for \S+ \S+ · |running at the last line, |last checkpoint at step \d+ · ", "", page
        )  # only files have an age
        pages.append(
            re.sub(
                r"made [\d-]+ [\d:]+|window .* of the logs|, no end logged ·|no end logged, |no end logged · ", "", page
            )
        )
    assert pages[0] == pages[1]


def test_all_that_is_judged_is_on_the_screenshot(logs: Path) -> None:
    assert main(["snapshot", str(logs), "--window", "2m", "--svg", "shot.svg"]) == ExitCode.DONE
    assert "2m, one column" in Path("shot.svg").read_text()


def test_a_redacted_screenshot_names_no_place(logs: Path) -> None:
    run = logs.rename(logs.with_name("login.gpu-7.example.org"))
    assert main(["snapshot", str(run), "--svg", "shot.svg", "--redact"]) == ExitCode.DONE
    image = Path("shot.svg").read_text()
    assert "FRONT-END QUEUE SATURATION" in image
    for name in ("gpu-7", "10.0.0", "orchestrator.log", str(run), "client.send"):
        assert name not in image


@pytest.mark.parametrize(
    "arguments",
    [["--size", "160"], ["--size", "10x5"], ["--size", "axb"], ["--svg", "none/x.svg"], ["--theme", "x", "--svg", "x"]],
)
def test_a_screenshot_that_cannot_be_is_told_in_one_line(
    logs: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(["snapshot", str(logs), "-o", "page.md", *arguments]) == ExitCode.USAGE
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith("perfmon: ")
