"""A real Slurm for tests: munge, a controller and one node, all of their own, in one folder."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

PROGRAMS = {name: shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin") for name in (
    "munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo",
)}  # fmt: skip
WHY_NOT = (
    f"not installed: {', '.join(name for name, path in PROGRAMS.items() if path is None)}"
    if None in PROGRAMS.values()
    else ("needs root: a node runs jobs of other users" if os.getuid() else "")
)
CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={controller}
SlurmdPort={node}
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName={host} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class Cluster:
    """One that runs."""

    folder: Path
    host: str

    def run(self, *command: str) -> str:
        """What one of Slurm's commands prints."""
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment, check=True)
        return done.stdout.strip()

    @property
    def environment(self) -> dict[str, str]:
        """For its commands."""
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Starts one."""
    host = socket.gethostname().partition(".")[0]
    for name in ("state", "spool"):
        (folder / name).mkdir()
    text = CONF.format(folder=folder, host=host, controller=_free_port(), node=_free_port())
    (folder / "slurm.conf").write_text(text)
    (folder / "key").write_bytes(secrets.token_bytes(128))
    (folder / "key").chmod(0o600)
    running = Cluster(folder, host)
    try:
        _start(
            running, "munged", "--force", f"--key-file={folder}/key", f"--socket={folder}/munge.socket",
            f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/seed",
        )  # fmt: skip
        _start(running, "slurmctld", "-c")
        _start(running, "slurmd")
        wait_for(lambda: "idle" in running.run("sinfo", "-h", "-o", "%T"), folder)
        yield running
        running.run("scancel", "--user=root")
        wait_for(lambda: not running.run("squeue", "-h"), folder)
    finally:
        for name in ("slurmd", "slurmctld", "munged"):
            with suppress(OSError, ValueError, psutil.Error):
                daemon = psutil.Process(int((folder / f"{name}.pid").read_text()))
                mine = [daemon, *daemon.children(recursive=True)]
                daemon.terminate()
                for process in psutil.wait_procs(mine, timeout=10)[1]:
                    process.kill()


def wait_for(ready: object, folder: Path) -> None:
    """Until it is so; with the logs where it never is."""
    assert callable(ready)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(subprocess.CalledProcessError):
            if ready():
                return
        time.sleep(0.2)
    raise AssertionError("\n".join(path.read_text()[-1000:] for path in folder.glob("*.log")))


def _start(running: Cluster, name: str, *arguments: str) -> None:
    """A daemon: it goes to the background by itself."""
    subprocess.run([str(PROGRAMS[name]), *arguments], env=running.environment, check=True, timeout=60)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
