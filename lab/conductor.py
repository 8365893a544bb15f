"""Starts the processes, ends them, and writes down what truly happened."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from .channel import RAY_ENVIRONMENT, address_file, ray_folder
from .clocks import true_monotonic
from .faults import FAULTS
from .host import POLLS_S, Host
from .journal import Journal
from .network import Link
from .plan import Plan
from .truth import truth

ROLES = ("inference", "trainer", "orchestrator")
PIPELINE_ROLES = ("queue", "consumer", "streamer", "producer", "polls")
POLLS_STREAMER = "polls-streamer"
"""A role of a pipeline whose streamer has a host of its own."""
_READY_S = 60.0
_GRACE_S = 4.0
_ARRIVALS_S = 0.25
_LOOK_S = 0.5


class LabError(Exception):
    """The lab could not run; one line says why."""


@dataclass(slots=True)
class _Process:
    role: str
    running: subprocess.Popen[bytes]
    log: Path
    ended: float | None = None
    """When it ended by itself, on the machine's monotonic clock."""


class Lab:
    """A run of the lab; use it with `with`: whatever happens, no process is left."""

    def __init__(self, plan: Plan) -> None:
        """`plan.folder` is made; it must be empty. Raises LabError."""
        folder = plan.folder.resolve()
        try:
            for name in ("logs", "checkpoints", "rollouts", "states", "journal"):
                (folder / name).mkdir(parents=True)
        except OSError as error:
            raise LabError(f"{folder}: {error.strerror}; name a folder that is new") from None
        self.plan = replace(plan, out=str(folder))
        self._processes: list[_Process] = []
        self._link: Link | None = None
        self._over = threading.Event()
        self.ended_s = 0.0
        """When the processes were told to end, in seconds since the start."""

    def __enter__(self) -> Lab:
        self.plan = replace(self.plan, started=true_monotonic(), port=self.plan.port or _free_port())
        try:
            if self.plan.pipeline:
                self._start_pipeline()
            else:
                self._start_training()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start_training(self) -> None:
        for role in ROLES:
            self._start(role)
            if role == "inference":
                self._wait_until_ready(self._answers)

    def _start_pipeline(self) -> None:
        if self.plan.knobs().ray_queue and find_spec("ray") is None:
            raise LabError("ray is not installed: pip install 'ray[default]'")
        link = self._link = Link(self.plan.port) if Link.available() else None
        self.plan = replace(self.plan, link=link.near if link else "")
        for role in PIPELINE_ROLES:
            self._start(role, Link.APART if link and role == "streamer" else ())
            if role == "queue":
                self._wait_until_ready(address_file(self.plan).exists)
            if role == "streamer" and link:
                try:
                    link.connect(self.pids[role])
                except (OSError, subprocess.CalledProcessError) as error:
                    raise LabError(f"the streamer has no link of its own: {error}") from None
        if link:
            self._start(POLLS_STREAMER, link.inside(self.pids["streamer"]))

    def _start(self, role: str, prefix: Sequence[str] = (), attempt: int = 0) -> None:
        outcome = self.plan.folder / f"{role}.json"
        replace(self.plan, attempt=attempt).write(outcome)
        log = self.plan.folder / "logs" / f"{role}.log"
        with log.open("ab") as out:
            running = subprocess.Popen(
                [*prefix, sys.executable, "-m", "lab.worker", role, str(outcome), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=Path(__file__).parent.parent,
                env={**os.environ, **RAY_ENVIRONMENT},
                process_group=0,  # Ctrl+C goes to the lab alone, which tells them in order
            )
        self._processes.append(_Process(role, running, log))

    def _answers(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{self.plan.url}/health", timeout=1.0):  # noqa: S310 - our own
            return True
        return False

    def _wait_until_ready(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _READY_S
        process = self._processes[-1]
        while time.monotonic() < deadline and process.running.poll() is None:
            if ready():
                return
            time.sleep(0.05)
        raise LabError(f"the {process.role} did not start; {process.log} says why")

    def run(self) -> None:
        """Lets the run go on for as long as it was planned. Raises LabError when a process ends before that."""
        watching = [threading.Thread(target=self._watch_logs, name="arrivals", daemon=True)]
        if self.plan.knobs().polls_host:
            watching.append(threading.Thread(target=self._watch_host, name="host", daemon=True))
        for thread in watching:
            thread.start()
        try:
            while (left := self.plan.started + self.plan.seconds - true_monotonic()) > 0:
                if self._over.wait(min(left, 0.2)):
                    raise LabError("it was stopped")
                for process in [one for one in self._processes if one.running.poll() is not None]:
                    self._see_to(process)
        finally:
            self.stop()
            for thread in watching:
                thread.join()
            self._write_truth()

    def _see_to(self, process: _Process) -> None:
        """A process has ended: raises LabError where it must not; one that is to go on is started again in time."""
        if process.role not in {FAULTS[name].ends for name in self.plan.faults}:
            raise LabError(f"the {process.role} ended too early; {process.log} says why")
        after_s = max(FAULTS[name].again_after_s for name in self.plan.faults)
        process.ended = process.ended or true_monotonic()
        if after_s and true_monotonic() >= process.ended + after_s:
            self._processes.remove(process)
            self._start(process.role, attempt=1)

    @property
    def pids(self) -> dict[str, int]:
        """The processes, by role."""
        return {process.role: process.running.pid for process in self._processes}

    def stop(self) -> None:
        """Ends the processes, those that ask before those that answer; one that does not end is killed."""
        if not self._over.is_set():
            self.ended_s = true_monotonic() - self.plan.started
        for process in reversed(self._processes):
            _end(process.running)
        if self.plan.knobs().ray_queue:
            shutil.rmtree(ray_folder(self.plan), ignore_errors=True)
        self._over.set()

    def _watch_logs(self) -> None:
        """Writes down when what was in the logs: what somebody who followed them would have read by then."""
        seen: dict[str, int] = {}
        with (self.plan.folder / "arrivals.jsonl").open("w", encoding="utf-8") as file:
            last = False
            while not last:
                last = self._over.wait(_ARRIVALS_S)
                now = round(true_monotonic() - self.plan.started, 2)
                for log in sorted((self.plan.folder / "logs").iterdir()):
                    size = log.stat().st_size
                    if size != seen.get(log.name, 0):
                        seen[log.name] = size
                        file.write(json.dumps([now, log.name, size]) + "\n")

    def _watch_host(self) -> None:
        """Looks at the host that the processes are on."""
        journal = Journal(self.plan.folder / "journal", "host", self.plan.started)
        host = Host(self.plan.folder / "logs" / "host.log", journal)
        while not self._over.wait(POLLS_S):
            host.poll(self.pids.values())
        journal.close()

    def _write_truth(self) -> None:
        outcome = truth(self.plan, self.ended_s)
        (self.plan.folder / "truth.json").write_text(json.dumps(outcome, indent=2) + "\n", "utf-8")


def run_together(labs: Sequence[Lab], at_once: int | None = None) -> None:
    """Runs all of them, at most so many at a time; one that fails, or Ctrl+C, ends the others. Raises LabError."""
    with ThreadPoolExecutor(at_once or len(labs)) as pool:
        runs = [pool.submit(_run, lab) for lab in labs]
        try:
            going = set(runs)
            while going:
                # In turns: a signal that arrives on the way into an endless wait would not end it.
                done, going = wait(going, _LOOK_S, FIRST_COMPLETED)
                for run in done:
                    run.result()
        except BaseException:
            for run, lab in zip(runs, labs, strict=True):
                run.cancel()
                lab.stop()
            raise


def _run(lab: Lab) -> None:
    with lab:
        lab.run()


def memory() -> Path | None:
    """A folder that is held in memory, where the machine has one.

    What is written there waits for no disk that others use: of a run there, what is slow is the fault alone.
    """
    folder = Path("/dev/shm")  # noqa: S108 - runs make folders of their own in there
    return folder if os.access(folder, os.W_OK) else None


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _end(running: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGINT, signal.SIGKILL):
        if running.poll() is not None:
            return
        running.send_signal(number)
        try:
            running.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            continue
