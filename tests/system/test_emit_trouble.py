"""What goes wrong between the start and the end of an update: training goes on, and perfmon says what is not told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE_S = 60.0
STEPS, HIT = 6, 4

pytestmark = pytest.mark.system

TRAINER = """
import logging, os, signal, sys, time
from perfmon import emit

trouble, log, filler, steps, hit = *sys.argv[1:4], *map(int, sys.argv[4:])
broken = False

class Handler(logging.FileHandler):
    def emit(self, record):
        if broken:
            raise RuntimeError("this handler is broken")
        super().emit(record)

handler = Handler(log)
handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
logging.basicConfig(level=logging.INFO, handlers=[handler])
logging.raiseExceptions = False

def hit_by_it():
    global broken
    if trouble == "raises":
        broken = True
    elif trouble == "full":
        # The log's last block on the disk is full too: nothing more fits in there.
        handler.stream.write("." * (4095 - os.path.getsize(log) % 4096) + chr(10))
        handler.flush()
        with open(filler, "wb", buffering=0) as file:
            try:
                while file.write(bytes(1 << 16)):
                    pass
                while file.write(bytes(1)):
                    pass
            except OSError:
                pass
    elif trouble == "forks":
        if not os.fork():
            return True
    elif trouble == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return False

child = False
for step in range(steps):
    emit.rollout(1.5, step, step)
    with emit.weights_update("http://h:1", f"/w/step_{step}"):
        time.sleep(0.02)
        child = step == hit and hit_by_it()
        time.sleep(0.05 if child else 0.0)
    if child:
        sys.exit()
    with emit.checkpoint_write(step):
        pass
if trouble == "forks":
    os.wait()
print("trained", steps)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("disks cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def _train(trouble: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = [trouble, str(folder / "run.log"), str(folder / "filler"), str(STEPS), str(HIT)]
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", TRAINER, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def _analysed(log: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "perfmon", "analyze", "--json", str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.stderr == ""
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _hit(log: Path) -> tuple[dict[str, Any], list[str]]:
    """What perfmon says of the log, and the notes about it; the first updates are there whole."""
    result = _analysed(log)
    (source,) = result["run"]["sources"]
    assert result["metrics"]["wall_ms"]["count"] >= HIT
    return result, source["notes"]


@pytest.mark.parametrize("trouble", ["raises", "full"])
def test_training_goes_on_and_what_was_not_told_is_said(trouble: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue("disk" if trouble == "full" else "tmp_path")
    done = _train(trouble, folder)
    assert (done.returncode, done.stdout) == (0, f"trained {STEPS}\n"), done.stderr
    result, notes = _hit(folder / "run.log")
    assert result["traces"]["partial"] == HIT + 1
    assert any("was sent and never finished" in note for note in notes), notes
    assert result["findings"] == []


def test_a_client_that_is_killed_leaves_a_partial_trace(tmp_path: Path) -> None:
    assert _train("killed", tmp_path).returncode == -signal.SIGKILL
    result, notes = _hit(tmp_path / "run.log")
    assert result["traces"]["partial"] == HIT + 1
    assert any("was sent and never finished" in note for note in notes), notes


def test_a_child_does_not_end_what_its_parent_began(tmp_path: Path) -> None:
    done = _train("forks", tmp_path)
    assert (done.returncode, done.stdout) == (0, f"trained {STEPS}\n"), done.stderr
    lines = (tmp_path / "run.log").read_text().splitlines()
    assert sum("client.done" in line for line in lines) == STEPS
    result, notes = _hit(tmp_path / "run.log")
    assert result["traces"]["partial"] == STEPS
    (note,) = notes  # this trainer does not hand over what the server answered
    assert note.startswith(f"{STEPS} of {STEPS} weight updates ended without RPC details")
