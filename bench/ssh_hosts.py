"""Many hosts at once: what 64 connections take here, how often each is heard of, and whether a hung one delays others.

`python bench/ssh_hosts.py [--hosts 64] [--seconds 20] [--no-polls]`: one OpenSSH server on this machine stands for all
of them, one of which stops in the middle and one of which never answers; the GPUs and the host of each are polled as
they are by default. Exits with 1 when a limit is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from sshd import Sshd, below

from perfmon.core.model import Block
from perfmon.sources.pollers.request import DEFAULT
from perfmon.sources.remote.fleet import Fleet, FleetOptions
from perfmon.sources.remote.model import Address, RemoteSpec

CORES, MEGABYTES, GAP_S = 1.0, 400.0, 2.2
"""Lines are written once a second and looked for once a second: two seconds may lie between two arrivals."""


class Writing(threading.Thread):
    """Writes a line to each log every second."""

    def __init__(self, logs: list[Path]) -> None:
        super().__init__(daemon=True)
        self._logs = logs
        self.going = True

    def run(self) -> None:
        """Until told."""
        count = 0
        while self.going:
            for log in self._logs:
                with log.open("a") as file:
                    file.write(f"line {count}\n")
            count += 1
            time.sleep(1.0)


class Arrivals:
    """When something came of each log, and whether nothing was left out."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)
        self.next: dict[str, int] = defaultdict(int)
        self.right = True
        self.polled: dict[str, int] = defaultdict(int)
        """Lines of pollers, by host."""

    async def watch(self, fleet: Fleet, for_s: float) -> None:
        """Takes what comes."""
        fleet.follow()
        try:
            async with asyncio.timeout(for_s):
                async for log, item in fleet.items():
                    if isinstance(item, Block) and b"[poll] " in item.data:
                        self.polled[item.data.decode().partition(" host=")[2].partition(" ")[0]] += 1
                    elif isinstance(item, Block):
                        self._take(log.name, item.data.decode().splitlines())
        except TimeoutError:
            return

    def _take(self, name: str, lines: list[str]) -> None:
        self.times[name].append(time.monotonic())
        for line in lines:
            self.right = self.right and line == f"line {self.next[name]}"
            self.next[name] += 1

    def longest_gap_s(self, names: list[str]) -> float:
        """Between two arrivals of one of these logs."""
        gaps = [b - a for name in names for a, b in zip(self.times[name], self.times[name][1:], strict=False)]
        return max(gaps, default=float("inf"))


def cpu_s() -> float:
    """Seconds of a core that this process took."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def resident_mb() -> float:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def prepared(sshd: Sshd, folder: Path, hosts: int, hung_port: int) -> list[RemoteSpec]:
    """A host for each log, and one that never answers."""
    config = sshd.config.read_text().replace("Host box", "Host box*")
    sshd.config.write_text(f"Host hung\n  HostName 127.0.0.1\n  Port {hung_port}\n  ConnectTimeout 5\n{config}")
    specs = [RemoteSpec("", Address(f"box{at}"), str(folder / f"{at}.log")) for at in range(hosts)]
    for spec in specs:
        Path(spec.path).touch()
    return [*specs, RemoteSpec("", Address("hung"), "/x.log")]


def stop_one(sshd: Sshd, after_s: float) -> None:
    """Stops the shell of one host: it is connected, and never answers again."""
    assert sshd.process is not None
    server = sshd.process.pid

    def stop() -> None:
        time.sleep(after_s)
        for process in below(server):
            with suppress(OSError):
                if Path(f"/proc/{process}/comm").read_text().strip() in ("sh", "dash", "bash"):
                    os.kill(process, signal.SIGSTOP)
                    return

    threading.Thread(target=stop, daemon=True).start()


def main() -> int:
    """Measures, prints, judges."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--no-polls", action="store_true", help="logs alone")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as silent:
        folder = Path(name)
        sshd = Sshd(folder / "sshd")
        sshd.start()
        specs = prepared(sshd, folder, given.hosts, silent.getsockname()[1])
        requests = () if given.no_polls else tuple(DEFAULT)
        fleet = Fleet(
            specs, FleetOptions(config=(str(sshd.config),), known_hosts=(str(sshd.known),), requests=requests)
        )
        writing = Writing([Path(spec.path) for spec in specs[:-1]])
        try:
            began = time.monotonic()
            fleet.open()
            print(f"{given.hosts} hosts and a hung one connected in {time.monotonic() - began:.1f} s", flush=True)
            writing.start()
            stop_one(sshd, given.seconds / 2)
            arrivals, before, began = Arrivals(), cpu_s(), time.monotonic()
            asyncio.run(arrivals.watch(fleet, given.seconds))
            cores, memory = (cpu_s() - before) / (time.monotonic() - began), resident_mb()
        finally:
            writing.going = False
            fleet.close()
            for process in sshd.sessions():
                with suppress(OSError):
                    os.kill(process, signal.SIGCONT)
            sshd.stop()
    names = sorted(arrivals.times, key=lambda name: len(arrivals.times[name]))
    gap = arrivals.longest_gap_s(names[1:])
    print(f"{cores:.2f} cores (limit {CORES}), {memory:.0f} MB (limit {MEGABYTES:.0f})")
    print(f"{len(names)} hosts heard of, longest gap {gap:.1f} s (limit {GAP_S} s; one was stopped in the middle)")
    print(f"{len(arrivals.polled)} hosts polled, {sum(arrivals.polled.values())} blocks of lines")
    whole = arrivals.right and len(names) == given.hosts
    return 0 if cores <= CORES and memory <= MEGABYTES and gap <= GAP_S and whole else 1


if __name__ == "__main__":
    raise SystemExit(main())
