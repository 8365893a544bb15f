"""What runs on a host is found, its servers are asked for, and both are told."""

from __future__ import annotations

import http.server
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from remotely import following
from sshd import AVAILABLE, Sshd, free_port
from terminals import PERFMON, Server, wait

from perfmon.sources.http_client import parse_url
from perfmon.sources.remote.discovery import Discovery, describe, discover, find_logs
from perfmon.sources.remote.files import Files
from perfmon.sources.remote.host import HealthCheck, opener_of
from perfmon.sources.shell import LocalRunner

pytestmark = [pytest.mark.system, pytest.mark.skipif(not AVAILABLE, reason="needs sshd")]
PROCESS = """
import socket, sys, time
log = open(sys.argv[1], "w")
print(time.strftime("%Y-%m-%d %H:%M:%S INFO it began"), file=log, flush=True)
data = open("rollouts.jsonl", "w")
listening = socket.create_server(("127.0.0.1", int(sys.argv[2])))
print("ready", flush=True)
time.sleep(60)
"""


class Run:
    """A run: a process with a title as prime-rl gives, that has a log open and listens."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        logs = folder / "outputs" / "my run" / "logs"
        (logs / "attempt_1").mkdir(parents=True)
        (logs / "latest").symlink_to("attempt_1")
        self.log = logs / "latest" / "orchestrator.log"
        (folder / "run.py").write_text(PROCESS)
        # The title of a process is what its command line says.
        title = "PRIME-RL::Orchestrator --api-key=sk-abcdefghijklmnopqrstuvwx"
        code = f"import os,sys;os.execv(sys.executable,[{title!r},'-S',*sys.argv[1:]])"
        arguments = [str(folder / "run.py"), str(logs / "attempt_1" / "orchestrator.log"), str(self.port)]
        self.process = subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=folder, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def end(self) -> None:
        """Ends it."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """A run."""
    made = Run(tmp_path)
    yield made
    made.end()


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A server."""
    made = Sshd(tmp_path / "sshd")
    made.start()
    yield made
    made.stop()


async def found_by(shell: str) -> Discovery:
    """What is found on this machine with such a shell."""
    bootstrap = 'n=;read -r n;eval "$(dd bs=1 count="$n" 2>/dev/null)"'
    runner = await LocalRunner.open("here", [*shell.split(), "-c", bootstrap])
    try:
        return await discover(await Files.open(runner))
    finally:
        await runner.close()


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh"])
async def test_a_run_is_found_by_its_processes(run: Run, shell: str) -> None:
    if shutil.which(shell.partition(" ")[0]) is None:
        pytest.skip(f"needs {shell}")
    found = await found_by(shell)
    process = next(process for process in found.processes if process.pid == run.process.pid)
    assert (process.kind, process.ports) == ("prime-rl", (run.port,))
    logs = {log.path: log.why for log in found.logs}
    assert logs[str(run.log)] == f"held open by prime-rl {run.process.pid}"
    assert not [path for path in logs if path.endswith(("rollouts.jsonl", "attempt_1/orchestrator.log"))]
    text = "\n".join(describe("here", found))
    assert "sk-abcdefghijklmnopqrstuvwx" not in text


async def test_a_finder_gives_paths(run: Run) -> None:
    runner = await LocalRunner.open()
    try:
        assert str(run.log) in await find_logs(await Files.open(runner))
    finally:
        await runner.close()


def test_dry_run_says_what_was_found_and_why(sshd: Sshd, run: Run) -> None:
    command = [sys.executable, "-m", "perfmon", "ssh", "box", "--ssh-config", str(sshd.config), "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"held open by prime-rl {run.process.pid}" in done.stdout
    assert f"listens at {run.port}" in done.stdout


def test_a_host_that_hangs_while_it_is_looked_at_holds_nobody_up(sshd: Sshd, run: Run, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "grep").write_text("#!/bin/sh\nexec sleep 25\n")
    (slow / "grep").chmod(0o755)
    hung = Sshd(tmp_path / "hung", forced=f'PATH={slow}:$PATH; export PATH; exec sh -c "$SSH_ORIGINAL_COMMAND"')
    hung.start()
    sshd.config.write_text(sshd.config.read_text() + hung.config.read_text().replace("Host box", "Host hung"))
    command = [sys.executable, "-m", "perfmon", "ssh", "hung", "box", "--ssh-config", str(sshd.config), "--dry-run"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60
        )
    finally:
        hung.stop()
    assert done.returncode == 0, done.stderr
    assert f"held open by prime-rl {run.process.pid}" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("perfmon: hung: process discovery has not finished")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_a_run_of_another_user_is_told_as_such(run: Run, tmp_path: Path) -> None:
    nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups"
    sshd = Sshd(tmp_path / "sshd", forced=f'exec {nobody} sh -c "$SSH_ORIGINAL_COMMAND"')
    sshd.start()
    command = [sys.executable, "-m", "perfmon", "ssh", "box", "--ssh-config", str(sshd.config), "--dry-run"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60
        )
    finally:
        sshd.stop()
    (line,) = [line for line in done.stdout.splitlines() if f" {run.process.pid} " in line]
    assert line.endswith("of another user: its files are not visible")


def test_dry_run_says_what_names_stand_for(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "there.log").write_text("a line\n")
    command = [sys.executable, "-m", "perfmon", "ssh", "box", "--ssh-config", str(sshd.config), "--dry-run"]
    command += ["--log", f"{tmp_path}/*.log", "--log", "/nowhere/x.log"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{tmp_path}/there.log  (named with --log)" in done.stdout
    assert "/nowhere/x.log  (named with --log: does not exist yet)" in done.stdout


def _started(folder: Path, lines: Iterable[str]) -> list[subprocess.Popen[bytes]]:
    return [subprocess.Popen(["sh", "-c", line], cwd=folder, start_new_session=True) for line in lines]


async def test_a_tee_counts_where_a_program_writes_into_it(tmp_path: Path) -> None:
    """The log of a program with any name; neither that of a build, nor what a shell prints."""
    for name in ("experiment.py", "setup.py"):
        (tmp_path / name).write_text("print('x', flush=True)\nimport time\ntime.sleep(60)\n")
    lines = {
        "run.log": f"{sys.executable} -u experiment.py --lr 1 2>&1 | tee run.log",
        "build.log": f"{sys.executable} setup.py | tee -a build.log",
        "shell.log": "{ echo x; sleep 60; } | tee shell.log",
    }
    shells = _started(tmp_path, lines.values())
    try:
        wait(lambda: all((tmp_path / name).exists() and (tmp_path / name).stat().st_size for name in lines))
        runner = await LocalRunner.open()
        try:
            found = await discover(await Files.open(runner))
        finally:
            await runner.close()
    finally:
        for shell in shells:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
    assert [Path(log.path).name for log in found.logs if log.path.startswith(f"{tmp_path}/")] == ["run.log"]


def test_without_a_word_what_runs_here_is_watched(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "perfmon"],
        cwd=tmp_path / "empty",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    if done.returncode == 0:  # this machine runs other jobs, too (a build into `tee out`): they are listed
        names = [" ".join(line.split()[-2:]) for line in done.stdout.splitlines()]
        assert any(name.endswith("outputs/my run") for name in names), done.stdout
        return
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{run.log}  (held open by prime-rl {run.process.pid})" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("perfmon: the live monitor needs a terminal")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_what_runs_on_a_host_is_on_the_screen(sshd: Sshd, run: Run, tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        window = server.open(tmp_path, f"{PERFMON} ssh box --ssh-config {sshd.config}")
        window.shows("it began")
        window.press("q")
        window.shows("left: 0")
        assert "held open by" in window.text.replace("\n", "")  # said before the screen
    finally:
        server("kill-server")


async def test_a_host_that_forwards_nothing_makes_no_server_ill(tmp_path: Path) -> None:
    sshd = Sshd(tmp_path / "sshd", "AllowTcpForwarding no")
    sshd.start()
    try:
        async with following(sshd, tmp_path / "run.log") as (seen, host):
            assert host.connection is not None
            check = HealthCheck(parse_url(f"tcp://127.0.0.1:{sshd.port}"), "box", seen.emit)
            for _ in range(2):
                assert not await check.ask(opener_of(host.connection))
        assert seen.lines == []
        (result,) = [notice.text for notice in seen.notices if "cannot be checked" in notice.text]
        assert "AllowTcpForwarding" in result
    finally:
        sshd.stop()


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_a_server_that_dies_is_an_alert(sshd: Sshd, run: Run, tmp_path: Path) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/health" else 404)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            pass

    httpd = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=httpd.serve_forever, daemon=True)
    serving.start()
    url = f"http://127.0.0.1:{httpd.server_port}/health"
    server = Server(tmp_path)
    try:
        window = server.open(tmp_path, f"{PERFMON} ssh box --ssh-config {sshd.config} --log '{run.log}' --check {url}")
        window.shows("failed=0 status=200")
        httpd.shutdown()
        httpd.server_close()
        window.shows("failed=1")
        window.shows("● CRIT")
        wait(lambda: "ENDPOINT" in window.text.upper(), window)
        window.press("q")
        window.shows("left: 0")
    finally:
        server("kill-server")
        serving.join(1)
