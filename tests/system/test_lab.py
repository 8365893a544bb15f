"""The lab itself: three real processes that end with it, however it ends, and what is left of a run that broke off."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.plan import Plan
from perfmon.pipeline.offline import Options, examine

ROOT = Path(__file__).parents[2]
PATIENCE_S = 30.0

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]


@pytest.fixture
def running() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that are killed at the end, if they still run."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def _lab(out: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "lab", "--out", str(out), "--seconds", "60", *options]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _result_of(log: Path, what: str) -> bool:
    return log.exists() and what in log.read_text("utf-8", "replace")


def _wait_for(log: Path, what: str, times: int = 1) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not log.exists() or log.read_text("utf-8", "replace").count(what) < times:
        assert time.monotonic() < deadline, f"{log} never said {what!r}"
        time.sleep(0.05)


def _workers(out: Path) -> dict[str, int]:
    """The processes that work for a run, by role."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if "lab.worker" in words and any(word.startswith(f"{out}/") for word in words):
            found[words[words.index("lab.worker") + 1]] = int(entry.name)
    return found


def _gone(out: Path) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while _workers(out) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not _workers(out)


def test_a_run_is_judged_while_it_goes_on_and_ends_when_it_is_told(
    tmp_path: Path, running: list[subprocess.Popen[bytes]]
) -> None:
    out = tmp_path / "run"
    lab = _lab(out, "--fault", "shared-pool", "--begins", "0")
    running.append(lab)
    _wait_for(out / "logs" / "orchestrator.log", "queue_ms=", 2)
    assert set(_workers(out)) == {"inference", "trainer", "orchestrator"}
    lab.send_signal(signal.SIGINT)
    assert lab.wait(PATIENCE_S) == 130
    assert _gone(out)
    truth = json.loads((out / "truth.json").read_text("utf-8"))
    snapshot = examine(Options(specs=(str(out / "logs"),), jobs=1))[0]
    assert snapshot.verdict is not None
    assert snapshot.verdict.signature == truth["faults"][0]["signature"]
    assert _result_of(out / "logs" / "trainer.log", "Trainer finished")
    assert _result_of(out / "logs" / "orchestrator.log", "Orchestrator finished")


def test_the_truth_of_a_hang_that_the_end_breaks_off_is_as_long_as_it_was(
    tmp_path: Path, running: list[subprocess.Popen[bytes]]
) -> None:
    out = tmp_path / "run"
    lab = _lab(out, "--fault", "stall", "--begins", "0")
    running.append(lab)
    _wait_for(out / "logs" / "orchestrator.log", "Starting orchestrator")
    time.sleep(2.0)
    lab.send_signal(signal.SIGINT)
    assert lab.wait(PATIENCE_S) == 130
    truth = json.loads((out / "truth.json").read_text("utf-8"))
    assert truth["lost_s"] > 1.0
    assert truth["faults"][0]["bites_s"] + truth["lost_s"] == pytest.approx(truth["observed_s"], abs=1.0)
    assert _result_of(out / "logs" / "orchestrator.log", "Orchestrator finished")


def test_no_process_outlives_a_lab_that_is_killed(tmp_path: Path, running: list[subprocess.Popen[bytes]]) -> None:
    out = tmp_path / "run"
    lab = _lab(out)
    running.append(lab)
    _wait_for(out / "logs" / "trainer.log", "Waiting for training batch")
    lab.kill()
    assert _gone(out)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_runs_side_by_side_that_are_ended_leave_nothing(
    number: int, tmp_path: Path, running: list[subprocess.Popen[bytes]]
) -> None:
    command = [sys.executable, "-m", "lab.before_after", "--out", str(tmp_path)]
    both = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    running.append(both)
    for name in ("before", "after"):
        _wait_for(tmp_path / name / "logs" / "trainer.log", "Waiting for training batch")
    both.send_signal(number)
    _, err = both.communicate(timeout=PATIENCE_S)
    assert (both.returncode, err) == (130, b"lab: ended early\n")
    assert not _workers(tmp_path)


@pytest.mark.parametrize(
    ("module", "words", "named"),
    [
        ("lab", ["--seconds", "nan"], "'nan'"),
        ("lab", ["--seconds", "0"], "'0'"),
        ("lab", ["--begins", "-1"], "'-1'"),
        ("lab", ["--fault", "stall", "--seconds", "1", "--begins", "2"], "no fault would begin"),
        ("lab", ["--fault", "nothing"], "'nothing' is no fault"),
        ("lab.before_after", ["--seconds", "inf"], "'inf'"),
        ("lab.matrix", ["nothing"], "'nothing' is no run"),
        ("lab.matrix", ["--record", "--at-once", "0", "healthy"], "'0'"),
        ("lab.healthy", ["--seeds", "x"], "'x'"),
    ],
)
def test_what_the_lab_cannot_do_is_said_before_anything_starts(
    module: str, words: list[str], named: str, tmp_path: Path
) -> None:
    out = ["--out", str(tmp_path / "run")] if module in ("lab", "lab.before_after") else []
    command = [sys.executable, "-m", module, *out, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr.splitlines()[-1]
    assert not (tmp_path / "run").exists()


def test_a_run_that_is_not_recorded_is_not_judged_rightly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lab.matrix", "--folder", str(tmp_path), "healthy"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (1, f"lab: not recorded in {tmp_path}: healthy\n")


def test_a_client_that_is_killed_leaves_its_update_open(tmp_path: Path, running: list[subprocess.Popen[bytes]]) -> None:
    out = tmp_path / "run"
    lab = _lab(out, "--fault", "shared-pool", "--begins", "0")
    running.append(lab)
    _wait_for(out / "logs" / "orchestrator.log", "client.send")
    os.kill(_workers(out)["orchestrator"], signal.SIGKILL)
    _, message = lab.communicate(timeout=PATIENCE_S)
    assert lab.returncode == 1
    assert b"the orchestrator ended too early" in message
    assert _gone(out)
    snapshot = examine(Options(specs=(str(out / "logs"),), jobs=1))[0]
    assert snapshot.traces_partial == 1
    notes = [note for source in snapshot.run.sources for note in source.notes]
    assert any("was sent and never finished" in note for note in notes)


def _trainer(out: Path, running: list[subprocess.Popen[bytes]], stdout: int) -> subprocess.Popen[bytes]:
    """A trainer that has two batches to train on."""
    for name in ("rollouts", "checkpoints", "journal"):
        (out / name).mkdir(parents=True)
    for step in (0, 1):
        (out / "rollouts" / f"step_{step}.json").write_text("[{}]")
    plan = out / "plan.json"
    Plan(out=str(out), started=time.monotonic()).write(plan)
    command = [sys.executable, "-m", "lab.worker", "trainer", str(plan), str(os.getpid())]
    process = subprocess.Popen(command, cwd=ROOT, stdout=stdout, stderr=subprocess.DEVNULL)
    running.append(process)
    return process


def test_training_goes_on_where_no_log_can_be_written(tmp_path: Path, running: list[subprocess.Popen[bytes]]) -> None:
    with Path("/dev/full").open("wb") as full:
        _trainer(tmp_path, running, full.fileno())
    _wait_for_file(tmp_path / "checkpoints" / "step_2" / "STABLE")


def test_training_goes_on_where_a_checkpoint_has_no_room(
    tmp_path: Path, running: list[subprocess.Popen[bytes]]
) -> None:
    log = tmp_path / "trainer.log"
    with log.open("wb") as out:
        process = _trainer(tmp_path, running, out.fileno())
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    _wait_for(log, "Step 1 |")
    assert log.read_text("utf-8").count("[ckpt] write.failed") >= 1
    assert "[ckpt] write.done" not in log.read_text("utf-8")
    snapshot = examine(Options(specs=(str(log),), jobs=1))[0]
    assert not [finding for finding in snapshot.findings if finding.signature == "slow-checkpoint-write"]


def _wait_for_file(path: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} was never written"
        time.sleep(0.05)
