"""`perfmon analyze` from the command line: what goes to stdout, what to files, and what the shell is told."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfmon.cli import main
from perfmon.core.errors import ExitCode

SLOW = "[ckpt] wait.start target_step=43\n[ckpt] wait.done target_step=43 wait_ms=5432.1\n"
WAITED = "[ckpt] wait.start target_step={0}\n[ckpt] wait.done target_step={0} wait_ms=12.3\n"
HEALTHY = "".join(WAITED.format(step) for step in (42, 43, 44))

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a slow and a healthy log, and no settings of whoever runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("PERFMON_CONFIG", raising=False)
    monkeypatch.delenv("PERFMON_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("slow.log").write_text(SLOW)
    Path("healthy.log").write_text(HEALTHY)
    Path("timed.log").write_text("2026-08-21 10:00:00 " + SLOW.replace("\n[", "\n2026-08-21 10:00:06 ["))


def test_the_summary_goes_to_stdout(capsys: Output) -> None:
    assert main(["analyze", "slow.log"]) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert "Checkpoint stall" in out
    assert err == ""


def test_a_healthy_log_has_no_bottleneck(capsys: Output) -> None:
    assert main(["analyze", "healthy.log", "--fail-on", "warning"]) == ExitCode.DONE
    assert "No bottleneck found" in capsys.readouterr().out


def test_two_waits_prove_no_health(capsys: Output) -> None:
    Path("short.log").write_text("".join(WAITED.format(step) for step in (42, 43)))
    assert main(["analyze", "short.log", "--fail-on", "warning"]) == ExitCode.DONE
    message = capsys.readouterr().out
    assert "Too little progress to judge yet; 2 checkpoint waits observed" in message
    assert "No bottleneck found" not in message


@pytest.mark.parametrize("level", ["warning", "critical"])
def test_fail_on_tells_the_shell(level: str) -> None:
    assert main(["analyze", "slow.log", "--fail-on", level]) == ExitCode.FOUND


def test_json_is_the_document_alone(capsys: Output) -> None:
    assert main(["analyze", "slow.log", "--json", "-o", "reports"]) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert json.loads(out)["verdict"]["signature"] == "checkpoint-stall"
    folder = Path(err.splitlines()[-1])
    assert out == (folder / "summary.json").read_text()


def test_the_folder_of_the_reports_is_data(capsys: Output) -> None:
    assert main(["analyze", "slow.log", "-o", "reports"]) == ExitCode.DONE
    folder = Path(capsys.readouterr().out.rstrip("\n"))
    assert folder.parent == Path("reports")
    assert "Checkpoint stall" in (folder / "SUMMARY.md").read_text()


def test_a_log_that_nothing_recognises_is_said_to_be_one(capsys: Output) -> None:
    Path("junk.txt").write_text("hello\nworld\n")
    assert main(["analyze", "junk.txt", "--explain-formats"]) == ExitCode.DONE
    assert "no line is recognised: `perfmon formats learn LOG`" in " ".join(capsys.readouterr().out.split())
    main(["analyze", "slow.log", "--explain-formats"])
    assert "no line is recognised" not in capsys.readouterr().out


def test_formats_are_explained(capsys: Output) -> None:
    assert main(["analyze", "slow.log", "--explain-formats"]) == ExitCode.DONE
    assert "checkpoint-wait" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["option", "settings"])
def test_a_users_bands_replace_the_built_in_ones(place: str, capsys: Output) -> None:
    Path("lenient.toml").write_text("schema = 1\n[band.wait_ms]\ngood = 6000\ncritical = 9000\n")
    Path("perfmon.toml").write_text('band_files = ["lenient.toml"]' if place == "settings" else "")
    options = ["--bands", "lenient.toml"] if place == "option" else []
    assert main(["analyze", "slow.log", "--fail-on", "warning", *options]) == ExitCode.DONE


def test_a_users_format_joins_the_built_in_ones(capsys: Output) -> None:
    Path("formats").mkdir()
    Path("formats/ours.toml").write_text(
        'schema = 1\nid = "ours"\ntitle = "ours"\n[[pattern]]\nid = "wait"\nneedles = ["blocked for "]\n'
        'regex = \'blocked for (?P<ms>\\d+)ms\'\nemit = [{ metric = "wait_ms", field = "ms", unit = "ms" }]\n'
    )
    Path("ours.log").write_text("blocked for 5432ms\n")
    assert main(["analyze", "ours.log", "--fail-on", "critical", "--formats", "formats"]) == ExitCode.FOUND


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["gone.log"], "gone.log"),
        (["timed.log", "--since", "yesterday-ish"], "yesterday-ish"),
        (["slow.log", "--since", "10m"], "--since"),
        (["slow.log", "--bands", "gone.toml"], "gone.toml"),
        (["slow.log", "-o", "slow.log"], "slow.log"),
        (["ftp://host/x"], "ftp://host/x"),
    ],
)
def test_bad_input_is_one_line_that_names_it(argv: list[str], named: str, capsys: Output) -> None:
    assert main(["analyze", *argv]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert named in err
    assert "unexpected" not in err
    assert err.count("\n") == 1


def test_a_pipe_gets_what_a_file_gets() -> None:
    command = [sys.executable, "-m", "perfmon", "analyze", "-"]
    piped = subprocess.run(command, input=SLOW.encode(), capture_output=True, check=True).stdout
    with Path("out.txt").open("wb") as file:
        subprocess.run(command, input=SLOW.encode(), stdout=file, check=True)
    assert piped == Path("out.txt").read_bytes()
    assert b"Checkpoint stall" in piped


@pytest.fixture
def somebody(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Somebody who may not read everything, in a folder of his own; root may."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy("slow.log", folder)
        monkeypatch.chdir(folder)
        root = os.geteuid() == 0
        if root:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)
        yield
        if root:
            os.seteuid(0)


@pytest.mark.usefixtures("somebody")
def test_a_log_that_is_closed_costs_no_other_log(capsys: Output) -> None:
    Path("closed.log").write_text(HEALTHY)
    Path("closed.log").chmod(0)
    assert main(["analyze", "closed.log", "slow.log"]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert "Checkpoint stall" in out
    assert err == "perfmon: closed.log: cannot be read (Permission denied) after 0 bytes, the rest is lost\n"
    assert main(["analyze", "closed.log", "slow.log", "--fail-on", "critical"]) == ExitCode.FOUND


def test_what_is_no_log_is_no_clean_bill(capsys: Output) -> None:
    Path("core.log").write_bytes(bytes(range(256)) * 20)
    assert main(["analyze", "core.log", "healthy.log"]) == ExitCode.USAGE
    assert capsys.readouterr().err == "perfmon: core.log: binary, not a log: skipped\n"
    Path("empty.log").touch()
    assert main(["analyze", "empty.log"]) == ExitCode.DONE


def test_a_folder_of_which_nothing_could_be_read_is_no_clean_bill(capsys: Output) -> None:
    folder = Path("dumb")
    folder.mkdir()
    for at in range(6):
        (folder / f"{at}.log").write_bytes(bytes(range(256)) * 20)
    assert main(["analyze", "dumb"]) == ExitCode.USAGE
    result = capsys.readouterr().err.splitlines()
    assert result[0].endswith("0.log: binary, not a log: skipped")
    assert result[3:] == ["perfmon: 3 more logs could not be read either"]
    (folder / "good.log").write_text(HEALTHY)
    assert main(["analyze", "dumb"]) == ExitCode.DONE


def test_a_closed_standard_input_is_named() -> None:
    program = f'exec "{sys.executable}" -m perfmon analyze - <&-'
    done = subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.USAGE
    assert done.stderr == "perfmon: stdin: cannot be read (Bad file descriptor) after 0 bytes, the rest is lost\n"


def test_no_half_of_an_analysis_is_left_behind(capsys: Output) -> None:
    """A limit on the size of files stands for a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        assert main(["analyze", "slow.log", "-o", "reports"]) == ExitCode.USAGE
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert "reports: cannot be written: File too large" in capsys.readouterr().err
    assert list(Path("reports").iterdir()) == []


def test_formats_that_recognise_as_many_lines_are_told_in_one_order() -> None:
    result = ['{"step": 12, "perf/throughput": 7112.0}', "[gen] batch.done completions=4 dur_ms=3000", "write_ms=410.2"]
    Path("tie.log").write_text("\n".join([*result, "{'train_runtime': 12.0, 'train_loss': 1.0, 'epoch': 1.0}", ""]))
    for seed in "0123":
        command = [sys.executable, "-m", "perfmon", "analyze", "tie.log", "--json"]
        done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed})
        assert json.loads(done.stdout)["run"]["sources"][0]["format"] == "generic+prime-rl+trace+trl"


def test_what_is_critical_and_judged_by_no_signature_is_no_clean_bill(capsys: Output) -> None:
    Path("mine.toml").write_text("schema = 1\n[band.mfu_pct]\nhigher_is_worse = false\ngood = 40\ncritical = 20\n")
    for name, mfu in (("idle.log", 11.0), ("busy.log", 44.0)):
        result = "10:{:02d}:00 SUCCESS Step {} |  50.0s | Loss -0.0021 | MFU {}%\n"
        Path(name).write_text("".join(result.format(step, step, mfu) for step in range(20)))
    assert main(["analyze", "idle.log", "--bands", "mine.toml"]) == ExitCode.DONE
    message = " ".join(capsys.readouterr().out.split())
    assert "critical values without a signature: mfu_pct in 100 % of the samples" in message
    assert main(["analyze", "busy.log", "--bands", "mine.toml"]) == ExitCode.DONE
    assert "critical" not in capsys.readouterr().out
