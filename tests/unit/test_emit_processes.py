"""The file stands alone: copied elsewhere, in an old interpreter, after a fork."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from perfmon import emit

FILE = Path(emit.__file__)
ALL = """
import asyncio, json, logging, queue, sys
import emit

logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)

async def update():
    async with emit.weights_update("http://h:1", "/w", trace="abc") as told:
        with emit.rpc(trace=emit.read_trace(told.headers)) as call:
            pass
        told.answered(call)

asyncio.run(update())
with emit.checkpoint_write(3), emit.checkpoint_wait(3), emit.generation_batch(8, 4) as batch:
    batch.completions = 4
emit.rollout(1.5, 3, 2)
with emit.QueueMonitor(queue.Queue(4), "Q1") as monitor:
    monitor.produced()
    monitor.look()
emit.configure(json_lines=True)
emit.rollout(1.5, 3, 2)
assert emit.lost() == 0
print(sorted({name.partition(".")[0] for name in sys.modules} & {"perfmon"}))
"""
OPERATIONS = [
    *("client.send", "rpc.start", "rpc.done", "client.done", "wait.start", "batch.start", "batch.done"),
    *("wait.done", "write.done", "trunc_pct", "utilization:", "Potential", "trunc_pct", "[]"),
]


def interpreters() -> list[str]:
    """The oldest one that it is made for, where it is installed, and the one that runs this."""
    versions = sorted((Path.home() / ".pyenv" / "versions").glob("3.9.*/bin/python"))
    return [*filter(_runs, ["python3.9", *map(str, versions)][-1:]), sys.executable]


def _runs(python: str) -> bool:
    """Whether it is there and an interpreter: a version manager has stand-ins for those that it lacks."""
    try:
        return subprocess.run([python, "-c", ""], capture_output=True, check=False, timeout=60).returncode == 0
    except OSError:
        return False


@pytest.mark.parametrize("python", interpreters())
def test_a_copy_works_without_perfmon(python: str, tmp_path: Path) -> None:
    shutil.copy(FILE, tmp_path / "emit.py")
    (tmp_path / "train.py").write_text(ALL)
    command = [python, "-W", "error", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    message = re.findall("|".join(map(re.escape, dict.fromkeys(OPERATIONS))), "\n".join(_first_words(done.stdout)))
    assert message == OPERATIONS


def _first_words(text: str) -> list[str]:
    return [line.partition("=")[0] for line in text.splitlines()]


def test_it_is_written_for_python_3_9_and_the_standard_library_alone() -> None:
    tree = ast.parse(FILE.read_text(), feature_version=(3, 9))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


FORKS = """
import os, sys, threading
from perfmon import emit

emit.configure(emit.to_file(sys.argv[1]))
held, let_go = threading.Event(), threading.Event()
monitor = emit.QueueMonitor(lambda: 1, "Q1", 2, every_s=3600, looks=1)
monitor.start()
monitor.produced(7)

def hold():
    with monitor._lock:
        held.set()
        let_go.wait()

threading.Thread(target=hold).start()
held.wait()
children = []
for number in range(4):
    child = os.fork()
    if not child:
        monitor.produced(number)
        for step in range(200):
            with emit.weights_update("http://h:1", f"/w/{number}/{step}"):
                pass
        monitor.look()
        monitor.start()
        monitor.stop()
        os._exit(emit.lost())
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
let_go.set()
monitor.look()
monitor.stop()
print(codes, emit.lost())
"""


@pytest.mark.skipif(not hasattr(sys, "getdlopenflags"), reason="processes do not fork here")
def test_forks_tell_their_own_lines_with_ids_of_their_own(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS, str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 0, 0, 0] 0\n", "")
    lines = log.read_text().splitlines()
    sent = [line for line in lines if "client.send" in line]
    assert len(sent) == 800
    assert len({line.split("]")[1] for line in sent}) == 800
    assert all(re.fullmatch(r"\[weights\]\[\w{12}\] client\.(send|done) \S.*|Q1 .*", line) for line in lines)
    produced = re.findall(r"^Q1 .* (produced=\d+) ", log.read_text(), re.MULTILINE)
    assert sorted(produced) == ["produced=0", "produced=1", "produced=2", "produced=3", "produced=7"]


SPAWNS = """
import multiprocessing, sys
from perfmon import emit

def count(monitor):
    emit.configure(emit.to_file(sys.argv[1]))
    monitor.produced(2)
    monitor.start()
    monitor.stop()
    monitor.look()

if __name__ == "__main__":
    begun = multiprocessing.get_context("spawn")
    monitor = emit.QueueMonitor(begun.Queue(8), "Q1", 8, every_s=3600, looks=1)
    with monitor:
        monitor.produced(7)
        child = begun.Process(target=count, args=(monitor,))
        child.start()
        child.join()
    print(child.exitcode)
"""


def test_a_monitor_may_be_sent_to_a_process_that_is_started_anew(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SPAWNS)
    command = [sys.executable, "program.py", str(tmp_path / "run.log")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
    result = (tmp_path / "run.log").read_text()
    assert re.match(r"Q1 utilization: 0.0% \(0 items\) empty=100.0% produced=2 consumed=0 pid=\d+\n", result)


FULL = """
import resource, sys
from perfmon import emit

resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
emit.configure(emit.to_file(sys.argv[1]))
for step in range(3):
    emit.rollout(1.5, step, step)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
emit.rollout(1.5, 3, 3)
print(emit.lost())
"""


@pytest.mark.skipif(find_spec("resource") is None, reason="files have no limit here")
def test_a_line_that_the_disk_cut_short_does_not_spoil_the_next(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    command = [sys.executable, "-W", "error", "-c", FULL, str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")
    whole, torn, after = log.read_text().splitlines()
    assert whole.endswith(" current_step=0 ckpt_step=0 staleness=0")
    assert len(whole) + 1 + len(torn) == 100
    assert after.endswith(" current_step=3 ckpt_step=3 staleness=0")


CLOSED = """
import os, sys
from perfmon import emit

emit.configure(emit.to_file(sys.argv[1]))
emit.rollout(1.5, 0, 0)
os.closerange(3, 256)
checkpoint = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
emit.rollout(1.5, 1, 1)
os.write(checkpoint, b"weights")
os.closerange(3, 256)
emit.rollout(1.5, 2, 2)
print(emit.lost())
"""


@pytest.mark.skipif(os.name != "posix", reason="files have no numbers here")
def test_a_process_that_closes_all_its_files_gets_no_line_into_another(tmp_path: Path) -> None:
    log, checkpoint = tmp_path / "run.log", tmp_path / "step_3"
    command = [sys.executable, "-W", "error", "-c", CLOSED, str(log), str(checkpoint)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
    assert checkpoint.read_bytes() == b"weights"
    assert [line.split()[2] for line in log.read_text().splitlines()] == [f"current_step={at}" for at in range(3)]


def test_ids_are_short_and_all_different() -> None:
    ids = {emit.new_trace() for _ in range(10_000)}
    assert len(ids) == 10_000
    assert all(re.fullmatch("[0-9a-f]{12}", one) for one in ids)
