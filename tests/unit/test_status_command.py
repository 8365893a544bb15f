"""`perfmon status`: from a running monitor's file, else from the logs."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pictures
import pytest

from perfmon.cli import main
from perfmon.core.config import Config
from perfmon.core.errors import ExitCode
from perfmon.demo.output import write_demo
from perfmon.monitor import headless
from perfmon.sources import runs_in
from perfmon.status import look, rows_of, state_of_picture
from perfmon.status.state_file import StateFile


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, without settings and monitors."""
    for name in ("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        (tmp_path / f".{name}").mkdir()  # hidden: what lies in the folder itself may be logs
        monkeypatch.setenv(name, str(tmp_path / f".{name}"))
    monkeypatch.delenv("PERFMON_CONFIG", raising=False)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def logs(place: Path) -> Path:
    """The logs of a run whose weight updates queue."""
    write_demo(place / "logs", "frontend-queue", 0, 10.0)
    return place / "logs"


def test_the_line_of_a_running_monitor(capsys: pytest.CaptureFixture[str]) -> None:
    StateFile(["run"]).write(pictures.picture(pictures.alert()))
    for command, name in ((["status", "run"], ""), (["status"], "run: ")):
        assert main(command) == ExitCode.DONE
        assert capsys.readouterr() == (f"✗ {name}FRONTEND-QUEUE 13.3s 31% lost ████████\n", "")
    assert main(["status", "--format", "tmux", "--fail-on", "warning"]) == ExitCode.FOUND
    assert capsys.readouterr().out.startswith("#[fg=red]✗ run: FRONTEND-QUEUE")
    assert main(["status", "run", "--format", "json"]) == ExitCode.DONE
    result = json.loads(capsys.readouterr().out)
    assert (result["from"], result["severity"], result["lost_share"]) == ("monitor", "critical", 0.31)


@pytest.mark.parametrize("form", ["plain", "tmux"])
def test_a_terminal_without_utf_8_gets_ascii(
    form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    StateFile(["run"]).write(pictures.picture(pictures.alert()))
    assert main(["status", "--format", form]) == ExitCode.DONE
    line = capsys.readouterr().out.replace("#[fg=red]", "").replace("#[default]", "")
    assert line.startswith("X run: FRONTEND-QUEUE 13.3s 31% lost ")
    assert line.isascii()
    assert form == "plain" or "#" not in line


def test_without_a_monitor_the_logs_are_looked_at(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(logs)]) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert out.startswith("✗ FRONTEND-QUEUE ")
    assert err == "perfmon: no running monitor for this path, read the logs instead\n"


@pytest.mark.parametrize(("scenario", "silent"), [("frontend-queue", 3), ("healthy", 1)])
def test_a_run_that_nobody_hears_any_more_is_not_told_as_if_it_went_on(
    scenario: str, silent: int, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = write_demo(place / "logs", scenario, 0, 10.0)
    for log in logs:  # a log whose lines are days older than its file is a copy
        log.write_text(log.read_text().replace(" 11-20 ", time.strftime(" %m-%d ")))
    for log in logs[-silent:]:
        os.utime(log, (written := time.time() - 7200, written))
    assert main(["status", str(place / "logs")]) == ExitCode.DONE
    before = "" if scenario == "healthy" else " before: FRONTEND-QUEUE"  # as in the first row of the monitor
    assert capsys.readouterr().out.startswith(f"? SILENT 2h00m{before}")
    for log in (place / "logs").iterdir():
        os.utime(log)
    assert main(["status", str(place / "logs")]) == ExitCode.DONE
    assert "SILENT" not in capsys.readouterr().out


STEPS = [
    f"2026-11-26 09:{at // 60:02d}:{at % 60:02d},000 INFO train: step {at // 5}/2000 loss 1.2 step_time 5.0s"
    for at in range(5, 755, 5)
]
BAR = [f"{at:3d}%|###| {at}/100 [00:{at // 60:02d}:{at % 60:02d}<00:00:10,  1.00s/it]" for at in range(1, 60)]
SILENT_RUNS = {
    "finished": ([*BAR, "{'train_runtime': 180.2, 'train_loss': 1.3312, 'epoch': 3.0}"], "✓ FINISHED"),
    "failed": (
        [
            *STEPS,
            "Traceback (most recent call last):",
            '  File "/app/train.py", line 180, in main',
            "    loss.backward()",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of "
            "79.11 GiB of which 1.12 GiB is free.",
        ],
        "✗ FAILED OUT-OF-MEMORY",
    ),
    "cancelled": (
        [*BAR, "slurmstepd: error: *** JOB 88123 ON node-17 CANCELLED AT 2026-11-26T09:30:00 DUE TO TIME LIMIT ***"],
        "✗ FAILED",
    ),
    "stalled": (STEPS, "✗ STALLED "),
}


@pytest.mark.parametrize("name", SILENT_RUNS)
def test_a_run_that_ended_or_hangs_is_in_the_line_the_list_and_the_monitor_what_it_is(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, shown = SILENT_RUNS[name]
    log = place / "run" / "train.log"
    log.parent.mkdir()
    last = time.time() - 200
    moments = [time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(last - 750 + at)) for at in range(0, 755, 5)]
    dated = [f"{moments[at]}{line[19:]}" if line.startswith("2026-") else line for at, line in enumerate(lines)]
    log.write_text("".join(f"{line}\n" for line in dated))
    os.utime(log, (last, last))
    assert main(["status", "run"]) == ExitCode.DONE
    assert capsys.readouterr().out.startswith(shown)
    assert main(["status", "run", "--format", "json"]) == ExitCode.DONE
    line = json.loads(capsys.readouterr().out)
    seen = headless.observe(["run"], Config(), "600s", 0.1)
    row = look(rows_of(runs_in("run"))[0], Config())
    assert seen.picture is not None
    watched = state_of_picture((), seen.picture)
    assert row.state is not None
    for state in (watched, row.state):
        assert (state.progress, state.title, state.severity) == (line["progress"], line["title"], line["severity"])
        assert state.stale_s is None
    assert row.word == line["progress"]


def test_a_monitor_that_is_silent_is_not_believed(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    StateFile([str(logs)]).write(pictures.picture(snapshot=None))
    [path] = Path(".XDG_RUNTIME_DIR/perfmon").iterdir()
    path.write_text(json.dumps({**json.loads(path.read_text()), "written": 1000.0}))
    assert main(["status", str(logs), "--format", "json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["from"] == "logs"
    assert main(["status"]) == ExitCode.DONE
    assert capsys.readouterr().out.startswith("✗ FRONTEND-QUEUE"), "the run in this folder"


def test_a_folder_shows_its_own_runs_and_no_monitor_of_another_one(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    StateFile(["elsewhere"]).write(pictures.picture(pictures.alert()))
    write_demo(place / "runs" / "bad", "frontend-queue", 0, 10.0)
    write_demo(place / "runs" / "good", "healthy", 0, 10.0)
    os.chdir(place / "runs")
    assert main(["status"]) == ExitCode.DONE
    line = capsys.readouterr().out
    assert line.startswith("✗ bad: FRONTEND-QUEUE")
    assert line.endswith("; 1 of 2 runs need attention\n")
    os.chdir("bad")
    assert main(["status", "--format", "json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["signature"] == "frontend-queue"
    assert main(["status", "--format", "tmux"]) == ExitCode.DONE
    assert "✗ elsewhere: " in capsys.readouterr().out


def test_which_monitors_run_is_told_when_none_was_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == ExitCode.USAGE
    assert "no running monitor (start one, or name the logs" in capsys.readouterr().err
    for name in ("one", "two"):
        StateFile([name]).write(pictures.picture())
    assert main(["status"]) == ExitCode.USAGE
    message = capsys.readouterr().err
    assert f"2 monitors are running; give the path of one: {os.path.abspath('one')}; " in message


def test_only_the_end_of_a_long_log_is_read(
    logs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headless, "TAIL", 20_000)
    seen = headless.glance([str(logs)], Config())
    assert (seen.short, seen.unread) == (2, 0)
    assert [source.bytes <= 20_000 for source in seen.picture.sources] == [True, True, True]
    assert main(["status", str(logs)]) == ExitCode.DONE
    assert "read the logs instead, of 2 only the last" in capsys.readouterr().err


def test_what_has_no_end_that_could_be_read_alone_is_counted(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (logs / "old.log.gz").write_bytes(gzip.compress(b"step 1\n"))
    assert main(["status", str(logs)]) == ExitCode.DONE
    message = "read the logs instead, skipped 1 compressed or recorded (perfmon snapshot reads them)\n"
    assert capsys.readouterr().err.endswith(message)


def test_what_cannot_be_looked_at_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for spec in ("gone.log", "-"):
        assert main(["status", spec]) == ExitCode.USAGE
        assert capsys.readouterr().err.count("\n") == 1


def test_a_line_costs_no_session() -> None:
    StateFile(["logs"]).write(pictures.picture())
    code = (
        "import json, sys\nfrom perfmon.cli import main\nassert main(['status', '--format', 'tmux']) == 0\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    heavy = {
        "textual",
        "rich",
        "ahocorasick_rs",
        "asyncio",
        "tomli",
        "perfmon.pipeline.session",
        "perfmon.core.config",
        "perfmon.rules",
    }
    assert set(json.loads(done.stderr.splitlines()[-1])) & heavy == set()


def test_what_no_format_knows_is_no_silent_run_and_stands_last(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = time.time() - 7200
    for name, lines in {"a-notes/todo.txt": ["milk", "eggs", "call mum"], "b-run/train.log": STEPS}.items():
        path = place / "runs" / name
        path.parent.mkdir(parents=True)
        path.write_text("\n".join([*lines, ""]))
        os.utime(path, (written, written))
    monkeypatch.chdir(place / "runs")
    assert main(["runs", "--plain"]) == ExitCode.DONE
    first, last = (line.split() for line in capsys.readouterr().out.splitlines()[1:])
    assert first[-1] == "b-run"
    assert (last[0], last[-1]) == ("unknown", "a-notes")
