"""`perfmon doctor`: real programs, sockets and libraries, there or not, slow or broken."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nvml
import pytest
from exporting import environment
from terminals import wait

from perfmon.core.errors import ExitCode
from perfmon.doctor.checks import Check, Finding, State, found
from perfmon.doctor.runner import PORTS, PROBES, Probe, examine, lines

GOOD = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}


class Machine:
    """A home, and programs of our own making before those of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = environment(folder) | GOOD | {"HOME": str(folder), "PATH": f"{folder / 'bin'}:/usr/bin:/bin"}
        for name in ("SSH_AUTH_SOCK", "TMUX", "NO_COLOR", "SLURM_JOB_ID", "LANG", "LC_CTYPE", "PERFMON_NATIVE"):
            self.env.pop(name, None)
        (folder / "bin").mkdir()

    def program(self, name: str, script: str) -> None:
        """A program in the shell's language."""
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(self, *arguments: str, patience: str = "20s") -> subprocess.CompletedProcess[str]:
        """The command, in the home."""
        command = [sys.executable, "-m", "perfmon", "doctor", "--patience", patience, *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False, timeout=120,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def checks(self, *arguments: str, patience: str = "20s") -> dict[str, dict[str, Any]]:
        """What it says, by what was looked at."""
        done = self.run("--json", *arguments, patience=patience)
        assert done.stderr == ""
        document = json.loads(done.stdout)
        assert document["schema"] == 1
        return {check["id"]: check for check in document["checks"]}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """One with nothing on it but what Debian has."""
    return Machine(tmp_path)


def test_everything_is_told_with_its_cost_and_mend(machine: Machine) -> None:
    checks = machine.checks()
    assert list(checks) == ["configuration", *(probe.id for probe in PROBES)]
    for check in checks.values():
        assert check["state"] in set(State)
        assert check["detail"]
        if check["state"] != "found":
            assert check["impact"], check
    assert checks["libraries"]["state"] == "found"


def test_the_text_fits_80_columns_without_colours(machine: Machine) -> None:
    machine.program("nvidia-smi", "echo 'a very long complaint '$(printf 'word %.0s' $(seq 60)) >&2; exit 9")
    done = machine.run()
    assert done.returncode == ExitCode.DONE
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stdout.isprintable() or not {"\x1b", "\r"} & set(done.stdout)
    assert done.stdout.splitlines()[-1].endswith(": nothing is broken")


# --- the configuration ------------------------------------------------------------------------------------------------
def test_a_configuration_that_is_valid(machine: Machine) -> None:
    folder = machine.folder / "config" / "perfmon"
    (folder / "bands").mkdir(parents=True)
    (folder / "bands" / "own.toml").write_text("schema = 1\n[band.queue_ms]\ngood = 1\ncritical = 2\n")
    assert machine.checks()["configuration"]["detail"] == "valid; user files: 1 threshold files"


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("config.toml", "jobs = 0\n", "config.toml: jobs: expected an integer"),
        ("config.toml", "jobs = [\n", "not valid TOML"),
        ("bands/x.toml", "schema = 1\n[band.queue_ms]\ngood = 9\ncritical = 2\n", "expected a threshold above good"),
        ("signatures/x.toml", "schema = 7\n", "schema: expected 1"),
        ("formats/x.toml", "schema = 7\n", "schema: expected 1"),
        ("themes/x.toml", "schema = 7\n", "x.toml"),
    ],
)
def test_a_configuration_that_is_broken(machine: Machine, file: str, text: str, message: str) -> None:
    path = machine.folder / "config" / "perfmon" / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    done = machine.run("--json")
    [check] = [check for check in json.loads(done.stdout)["checks"] if check["id"] == "configuration"]
    assert (done.returncode, done.stderr, check["state"]) == (ExitCode.USAGE, "", "broken")
    assert message in check["detail"]
    assert "\n" not in check["detail"]


def test_two_broken_files_are_both_told(machine: Machine) -> None:
    for folder in ("signatures", "bands"):
        path = machine.folder / "config" / "perfmon" / folder / "x.toml"
        path.parent.mkdir(parents=True)
        path.write_text("schema = 7\n")
    assert machine.checks()["configuration"]["detail"].count("schema: expected 1") == 2


# --- who does not answer ----------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_program_that_hangs_keeps_nobody_waiting_and_is_ended(machine: Machine) -> None:
    machine.program("nvidia-smi", f"echo $$ > {machine.folder / 'pid'}\nexec sleep 600")
    check = machine.checks(patience="3s")["nvidia-smi"]
    assert (check["state"], check["detail"]) == ("unknown", "no answer within 3 s")
    assert "--patience" in check["fix"]
    pid = int((machine.folder / "pid").read_text())
    wait(lambda: not Path(f"/proc/{pid}").exists(), "the program was ended")


def test_gpus_whose_driver_has_no_version_can_be_asked_all_the_same(machine: Machine) -> None:
    machine.env["LD_LIBRARY_PATH"] = str(nvml.compiled(machine.folder / "lib"))
    machine.env["NVML_STUB"] = str(machine.folder / "state")
    for more, detail in (("", "2 GPUs"), ("driver 570.86.15\n", "2 GPUs, driver 570.86.15")):
        (machine.folder / "state").write_text(f"{nvml.H100}count 2\n{more}")
        check = machine.checks()["nvml"]
        assert (check["state"], check["detail"]) == ("found", detail)


@pytest.mark.parametrize(
    ("state", "detail"),
    [
        ("count 8\n3.all error 15\n", "8 GPUs, driver 570.86.15; GPU 3 is lost"),
        ("count 8\n1.all error 15\n6.open error 16\n", "8 GPUs, driver 570.86.15; GPUs 1 and 6 are lost"),
        ("count 1\nall error 15\n0.all error 15\n", "1 GPU, driver 570.86.15; GPU 0 is lost"),
    ],
)
def test_gpus_that_are_lost_are_named(machine: Machine, state: str, detail: str) -> None:
    machine.env["LD_LIBRARY_PATH"] = str(nvml.compiled(machine.folder / "lib"))
    machine.env["NVML_STUB"] = str(machine.folder / "state")
    (machine.folder / "state").write_text(f"{nvml.H100}driver 570.86.15\n{state}")
    check = machine.checks()["nvml"]
    assert (check["state"], check["detail"]) == ("limited", detail)
    assert "no metrics of" in check["impact"]
    assert "reset" in check["fix"]


@pytest.mark.slow
def test_a_driver_call_that_hangs_keeps_nobody_waiting(machine: Machine) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    library = "#include <unistd.h>\nint nvmlInit_v2(void) { sleep(600); return 0; }\n"
    library += "int nvmlInitWithFlags(unsigned flags) { return nvmlInit_v2(); }\n"
    (machine.folder / "nvml.c").write_text(library)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "libnvidia-ml.so.1", "nvml.c"], cwd=machine.folder, check=True)
    machine.env["LD_LIBRARY_PATH"] = str(machine.folder)
    began = time.monotonic()
    checks = machine.checks(patience="2s")
    assert checks["nvml"]["detail"] == "no answer within 2 s"
    assert time.monotonic() - began < 300.0  # the call takes 600 s
    assert checks["libraries"]["state"] == "found"


def test_looks_do_not_wait_for_each_other_nor_fail_together() -> None:
    def slow(patience_s: float) -> Finding:
        time.sleep(600)
        return found("late")

    def broken(_: float) -> Finding:
        raise ValueError("odd\ntoken=abcdef1234567")

    probes = [
        Probe("slow", "g", "slow", slow, "whether it is slow"),
        Probe("broken", "g", "broken", broken, "whether it is broken"),
        Probe("well", "g", "well", lambda _: found("here"), ""),
    ]
    states = {check.id: check.finding for check in examine(probes, 0.5)}
    assert [finding.state for finding in states.values()] == [State.UNKNOWN, State.UNKNOWN, State.FOUND]
    assert states["broken"].detail == "check failed: ValueError: oddtoken=***"
    assert states["slow"].impact == "whether it is slow"


# --- GPUs, Slurm ------------------------------------------------------------------------------------------------------
def test_nvidia_smi_and_slurm_that_work(machine: Machine) -> None:
    machine.program("nvidia-smi", "echo 'NVIDIA H100'; echo 'NVIDIA H100'")
    for name in ("squeue", "sacct"):
        machine.program(name, "exit 0")
    machine.program("scontrol", 'test "$1" = ping && echo "Slurmctld(primary) at head is UP"')
    machine.env["SLURM_JOB_ID"] = "4711"
    checks = machine.checks()
    assert checks["nvidia-smi"]["detail"] == "2 times NVIDIA H100"
    assert checks["slurm"]["detail"] == "Slurmctld(primary) at head is UP, inside job 4711"


def test_programs_that_fail_say_why_in_one_safe_line(machine: Machine) -> None:
    machine.program("nvidia-smi", "printf '\\033[31mFailed to initialize NVML: token=abcdef1234567\\nmore\\n'; exit 9")
    machine.program("rocm-smi", "kill -9 $$")
    machine.program("amd-smi", "exit 3")
    checks = machine.checks()
    assert checks["nvidia-smi"]["state"] == "limited"
    assert checks["nvidia-smi"]["detail"] == "fails: Failed to initialize NVML: token=***"
    assert checks["amd"]["detail"] == "amd-smi fails: exit code 3"


# --- SSH --------------------------------------------------------------------------------------------------------------
@pytest.fixture
def agent(machine: Machine) -> Iterator[Path]:
    """A real ssh-agent without keys."""
    if shutil.which("ssh-agent") is None:
        pytest.skip("needs ssh-agent")
    path = machine.folder / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    try:
        wait(path.exists, "the agent listens")
        machine.env["SSH_AUTH_SOCK"] = str(path)
        yield path
    finally:
        process.kill()
        process.wait(20)


def test_an_agent_without_and_with_keys(machine: Machine, agent: Path) -> None:
    assert machine.checks()["ssh-agent"]["detail"] == "it has no keys"
    key = machine.folder / ".ssh" / "id_ed25519"
    key.parent.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    subprocess.run(["ssh-add", "-q", str(key)], check=True, env=machine.env)
    checks = machine.checks()
    assert checks["ssh-agent"]["detail"] == "holds 1 key"
    assert checks["ssh-keys"]["detail"] == "id_ed25519"


def test_an_agent_that_is_gone_and_hosts_that_are_known(machine: Machine) -> None:
    machine.env["SSH_AUTH_SOCK"] = str(machine.folder / "gone")
    (machine.folder / ".ssh").mkdir()
    (machine.folder / ".ssh" / "known_hosts").write_bytes(b"# comment\n\nhost ssh-ed25519 AAAA\n\xff\xfe x y\n")
    checks = machine.checks()
    assert checks["ssh-agent"]["detail"] == "SSH_AUTH_SOCK points to no agent"
    assert checks["known-hosts"]["detail"].endswith("2 entries")


# --- the screen -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changes", "colours", "characters"),
    [
        ({}, ("found", "16 million"), "found"),
        ({"COLORTERM": ""}, ("limited", "256"), "found"),
        ({"COLORTERM": "", "TERM": "linux"}, ("limited", "16"), "found"),
        ({"NO_COLOR": "1"}, ("limited", "none: NO_COLOR is set"), "found"),
        ({"TERM": "dumb"}, ("missing", "none: TERM=dumb"), "found"),
        ({"LC_ALL": "POSIX"}, ("found", "16 million"), "limited"),
    ],
)
def test_colours_and_characters(
    machine: Machine, changes: dict[str, str], colours: tuple[str, str], characters: str
) -> None:
    machine.env |= changes
    checks = machine.checks()
    assert (checks["colours"]["state"], checks["colours"]["detail"]) == colours
    assert checks["utf-8"]["state"] == characters
    assert checks["terminal"]["state"] == "missing"


def test_without_the_compiled_search(machine: Machine) -> None:
    machine.env["PERFMON_NATIVE"] = "0"
    check = machine.checks()["scanner"]
    assert check["state"] in {"limited", "missing"}
    assert "CPU time" in check["impact"]


# --- what runs here ---------------------------------------------------------------------------------------------------
SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"# TYPE vllm:num_requests_running gauge\\nvllm:num_requests_running 1\\n")
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), Handler)
open("port", "w").write(str(server.server_port))
server.serve_forever()
"""


def test_a_server_that_runs_here_and_its_metrics(machine: Machine) -> None:
    if not os.path.exists("/proc/self/fd"):
        pytest.skip("needs /proc")
    process = subprocess.Popen([sys.executable, "-c", SERVER, "vllm serve"], cwd=machine.folder, env=machine.env)
    try:
        wait(lambda: (machine.folder / "port").exists() and (machine.folder / "port").read_text(), "it listens")
        port = (machine.folder / "port").read_text()
        detail = machine.checks(patience="60s")["runs"]["detail"]
        assert "vLLM" in detail
        assert port in detail.partition("metrics at port ")[2].split(", ")
    finally:
        process.kill()
        process.wait(20)


def test_metrics_at_a_usual_port_are_told_as_the_spec_that_asks_them(machine: Machine) -> None:
    port = next((port for port in PORTS if _free(port)), None)
    if port is None:
        pytest.skip("all usual ports are taken")
    spec = f"vllm=http://127.0.0.1:{port}"
    assert spec not in machine.checks()["endpoints"]["detail"]
    command = [sys.executable, "-c", SERVER, "engine", str(port)]
    process = subprocess.Popen(command, cwd=machine.folder, env=machine.env)
    try:
        wait(lambda: (machine.folder / "port").exists() and (machine.folder / "port").read_text(), "it listens")
        check = machine.checks(patience="60s")["endpoints"]
        assert check["state"] == "found"
        assert spec in check["detail"].split()
    finally:
        process.kill()
        process.wait(20)


def _free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def test_a_driver_that_takes_a_second_to_begin_is_waited_for(machine: Machine) -> None:
    machine.program("nvidia-smi", "sleep 1.5; echo 'NVIDIA H100 80GB HBM3'")
    machine.env["PATH"] = f"{machine.folder / 'bin'}:/usr/bin:/bin"
    command = [sys.executable, "-m", "perfmon", "doctor", "--json"]
    done = subprocess.run(command, env=machine.env, capture_output=True, text=True, check=False, timeout=120)
    checks = {check["id"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["nvidia-smi"]["detail"] == "NVIDIA H100 80GB HBM3"


# --- words ------------------------------------------------------------------------------------------------------------
def test_a_hostile_detail_stays_text_that_fits() -> None:
    finding = Finding(State.BROKEN, "x" * 300 + " [red]a[/] " + "word " * 50, "impact " * 30, "fix " * 30)
    result = list(lines([Check("a", "group", "title", finding), Check("b", "group", "other", found("here"))]))
    assert max(map(len, result)) <= 80
    assert result[-1] == "1 found, 1 broken: fix broken items first"
