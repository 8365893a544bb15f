"""A real Ray head for tests: in its own folder, with one CPU; not ended by `ray stop`, which would end all Rays."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil

AVAILABLE = find_spec("ray") is not None and Path(sys.executable).with_name("ray").exists()
_STARTS = 4
_OPEN = {"RAY_AUTH_MODE": "disabled"}
"""A token that lies in the home of who runs the tests is not theirs."""
QUEUES = """
import ray, sys, time
from ray.util.queue import Queue
ray.init(address="auto", namespace="lab", log_to_driver=False)
name, producers, pause_s, consumers = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
queue = Queue(maxsize=8, actor_options={"num_cpus": 0, "name": name})

@ray.remote(num_cpus=0)
def consume(queue):
    while True:
        queue.get()

@ray.remote(num_cpus=0)
def produce(queue):
    while True:
        queue.put(1)
        time.sleep(pause_s)

@ray.remote(num_cpus=0)
class Mute:
    def fill(self):
        return 3

@ray.remote(num_cpus=0)
class Busy:
    def qsize(self):
        time.sleep(3600)

@ray.remote(num_cpus=0)
class RayQueue:
    def __init__(self, held):
        self.held = held
    def size(self):
        return self.held

shards = [RayQueue.options(name=f"{name}-sharded_shard_{at}").remote(at) for at in range(4)]
beside = [actor.options(name=f"{name}-{actor_name}").remote() for actor, actor_name in ((Mute, "mute"), (Busy, "busy"))]
running = [consume.remote(queue) for _ in range(consumers)] + [produce.remote(queue) for _ in range(producers)]
print("ready", flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Head:
    """One that runs."""

    folder: Path
    dashboard: int

    @property
    def environment(self) -> dict[str, str]:
        """For drivers."""
        address = (self.folder / "ray_current_cluster").read_text().strip()
        return {**os.environ, **_OPEN, "RAY_ADDRESS": address, "RAY_USAGE_STATS_ENABLED": "0"}

    @contextmanager
    def queue(self, name: str, *, producers: int, pause_s: float, consumers: int) -> Iterator[None]:
        """A queue of eight with those who use it."""
        arguments = [name, str(producers), str(pause_s), str(consumers)]
        with subprocess.Popen(
            [sys.executable, "-c", QUEUES, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env=self.environment,
        ) as driver:  # fmt: skip
            assert driver.stdout is not None
            assert driver.stdout.readline() == b"ready\n"
            yield
            driver.terminate()


@contextmanager
def head(token: str = "") -> Iterator[Head]:
    """Starts one, that wants the token if there is one; it takes some ten seconds and 0.7 GB of memory."""
    for _ in range(_STARTS):
        with _started({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token} if token else _OPEN) as running:
            if running is not None:
                yield running
                return
    raise AssertionError("Ray does not start")


@contextmanager
def _started(access: dict[str, str]) -> Iterator[Head | None]:
    """None where it was not quick enough: Ray gives a node 30 s, which a busy machine may not have."""
    folder = Path(tempfile.mkdtemp(prefix="pmray-", dir="/tmp"))  # its sockets need a short path
    dashboard = free_port()
    command = [
        str(Path(sys.executable).with_name("ray")), "start", "--head", "--num-cpus=1", "--port=0",
        "--object-store-memory=80000000", f"--temp-dir={folder}", f"--dashboard-port={dashboard}",
        f"--ray-client-server-port={free_port()}", "--disable-usage-stats",
    ]  # fmt: skip
    environment = {**os.environ, **access, "RAY_metrics_report_interval_ms": "1000"}
    with open(folder / "start.log", "wb") as log:
        starter = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        yield Head(folder, dashboard) if starter.wait() == 0 else None
    finally:
        _end(starter.pid)
        shutil.rmtree(folder, ignore_errors=True)


def _end(group: int) -> None:
    """All daemons of one start, and the workers that they started, which have groups of their own."""
    mine = [process for process in psutil.process_iter() if _group(process.pid) == group]
    for process in [child for parent in mine for child in _children(parent)] + mine:
        with suppress(psutil.Error):
            process.send_signal(signal.SIGKILL)
    psutil.wait_procs(mine, timeout=10)


def _children(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return process.children(recursive=True)
    return []


def _group(pid: int) -> int:
    with suppress(OSError):
        return os.getpgid(pid)
    return -1


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
