"""`perfmon ssh` in real terminals, against a real OpenSSH server."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sshd import AVAILABLE, Sshd, fingerprint, free_port
from terminals import PERFMON, Server

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not AVAILABLE, reason="needs sshd"),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Terminals."""
    made = Server(tmp_path_factory.mktemp("tmux"))
    yield made
    made("kill-server")


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A server."""
    made = Sshd(tmp_path / "sshd")
    made.start()
    yield made
    made.stop()


def demo(folder: Path) -> Path:
    """A run that has a cause."""
    from perfmon.demo.output import write_demo

    write_demo(folder)
    return folder


def perfmon(sshd: Sshd, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs perfmon without a terminal."""
    command = [sys.executable, "-m", "perfmon", arguments[0], "--ssh-config", str(sshd.config), *arguments[1:]]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        timeout=60,
    )


def test_a_run_on_another_machine_is_on_the_screen(server: Server, sshd: Sshd, tmp_path: Path) -> None:
    logs = demo(tmp_path / "logs")
    window = server.open(tmp_path, f"{PERFMON} ssh box --ssh-config {sshd.config} --log '{logs}/*.log' --history all")
    window.shows("FRONT-END QUEUE")
    before = sshd.sessions()
    sshd.cut()
    with (logs / "orchestrator.log").open("a") as log:
        log.write("the connection was made again\n")
    window.shows("the connection was made again")
    assert set(sshd.sessions()) - set(before)
    window.press("q")
    window.shows("left: 0")
    assert window.sane


def test_an_unknown_key_is_asked_about_before_the_screen(server: Server, sshd: Sshd, tmp_path: Path) -> None:
    logs = demo(tmp_path / "logs")
    sshd.known.unlink()
    window = server.open(tmp_path, f"{PERFMON} watch --ssh-config {sshd.config} ssh://box{logs}")
    window.shows("Trust it? (yes/no)")
    assert fingerprint(sshd.host_key) in window.text.replace("\n", "")
    window.type("yes")
    window.shows("● CRIT")
    window.press("q")
    window.shows("left: 0")
    assert sshd.known.exists()


def test_ctrl_c_at_a_question(server: Server, sshd: Sshd, tmp_path: Path) -> None:
    sshd.known.unlink()
    window = server.open(tmp_path, f"{PERFMON} ssh --ssh-config {sshd.config} box --log x.log")
    window.shows("Trust it? (yes/no)")
    window.press("C-c")
    window.shows("left: 130")
    assert not sshd.known.exists()


def test_no_host_no_screen(server: Server, sshd: Sshd, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    window = server.open(tmp_path, f"{PERFMON} ssh --ssh-config {sshd.config} {address} --log x.log")
    window.shows("left: 3")
    assert "connection refused" in window.text
    assert window.sane


def test_one_host_of_two_is_enough(server: Server, sshd: Sshd, tmp_path: Path) -> None:
    logs, address = demo(tmp_path / "logs"), f"127.0.0.1:{free_port()}"
    window = server.open(tmp_path, f"{PERFMON} ssh --ssh-config {sshd.config} {address} box --log {logs}")
    window.shows("FRONT-END QUEUE")
    window.press("q")
    window.shows("left: 0")


def test_nobody_can_be_asked_without_a_terminal(sshd: Sshd, tmp_path: Path) -> None:
    sshd.known.unlink()
    done = perfmon(sshd, "snapshot", f"ssh://box{demo(tmp_path / 'logs')}")
    assert (done.returncode, done.stdout) == (3, "")
    assert "--accept-new" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("options", [(), ("--for", "1s")])
def test_a_page_about_a_run_on_another_machine(sshd: Sshd, tmp_path: Path, options: tuple[str, ...]) -> None:
    done = perfmon(sshd, "snapshot", f"ssh://box{demo(tmp_path / 'logs')}", "--window", "all", *options)
    assert done.returncode == 0, done.stderr
    assert "Task" not in done.stderr
    assert "Front-end queue" in done.stdout
    assert "box:" in done.stdout


def test_a_page_about_logs_that_are_not_there_says_so(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "there.log").write_text("a line\n")
    specs = [f"ssh://box{tmp_path}/{name}" for name in ("there.log", "gone.log", "*.out")]
    command = [sys.executable, "-m", "perfmon", "snapshot", "--ssh-config", str(sshd.config), *specs]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"perfmon: box:{tmp_path}/gone.log: no such log")


def test_a_recording_of_another_machine(sshd: Sshd, tmp_path: Path) -> None:
    logs, file = demo(tmp_path / "logs"), tmp_path / "run.pmrec"
    done = perfmon(sshd, "record", f"ssh://box{logs}", "--for", "3s", "-o", str(file))
    assert done.returncode == 0, done.stderr
    again = perfmon_here("analyze", str(file))
    assert "Front-end queue" in again.stdout


def perfmon_here(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs perfmon on this machine alone."""
    return subprocess.run(
        [sys.executable, "-m", "perfmon", *arguments], capture_output=True, text=True, check=False, timeout=60
    )
