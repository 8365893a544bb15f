"""Following logs over SSH: the first line on the screen, a flood, and what polling costs the other machine.

`python bench/ssh_tail.py [--seconds 20]`: against an OpenSSH server that it starts on this machine; exits with 1 when a
limit is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from sshd import Sshd, below, cpu_s
from terminals import PERFMON, Server

from perfmon.core.model import Block
from perfmon.sources.pollers.request import DEFAULT
from perfmon.sources.remote.fleet import Fleet, FleetOptions
from perfmon.sources.remote.model import Address, RemoteSpec

FIRST_LINE_S, RATE, REMOTE_SHARE = 2.0, 20_000, 0.01
_SETTLED_S = 6.0
"""By then all pollers have their shells."""
_LINE = "2026-01-01 00:00:00,000 INFO step {:09d} loss 0.123 grad_norm 0.456 tokens 123456 some more words of a log\n"


def options(sshd: Sshd) -> FleetOptions:
    """How the server is reached."""
    return FleetOptions(config=(str(sshd.config),), known_hosts=(str(sshd.known),))


def first_line(sshd: Sshd, folder: Path) -> float:
    """Seconds from the command to the first line of a remote log on the screen: the best of three."""
    work = folder / "work"  # what runs writes a folder of its own name beside the terminals' socket
    work.mkdir()
    log = folder / "first.log"
    log.write_text("10:00:00 INFO the very first line\n")
    server = Server(folder)
    best = float("inf")
    try:
        for _ in range(3):
            began = time.monotonic()
            window = server.open(work, f"{PERFMON} ssh --ssh-config {sshd.config} box --log {log}")
            window.shows("the very first line")
            best = min(best, time.monotonic() - began)
            window.press("q")
    finally:
        server("kill-server")
    return best


class Writing(threading.Thread):
    """Writes so many lines a second to a log."""

    def __init__(self, path: Path, rate: float, for_s: float) -> None:
        super().__init__(daemon=True)
        self.path, self.count = path, 0
        self._rate, self._for_s = rate, for_s

    def run(self) -> None:
        """In bursts, ten a second."""
        began = time.monotonic()
        with self.path.open("a") as file:
            while (passed := time.monotonic() - began) < self._for_s:
                due = int(passed * self._rate)
                if due > self.count:
                    file.write("".join(map(_LINE.format, range(self.count, due))))
                    file.flush()
                    self.count = due
                time.sleep(0.1)


async def follow(fleet: Fleet, log: Path, done: Callable[[int], bool]) -> tuple[int, bool]:
    """(lines that came, whether each was the next)."""
    fleet.follow()
    count, right = 0, True
    async for _, item in fleet.items():  # noqa: PERF102 - no dictionary
        if isinstance(item, Block):
            lines = item.data.splitlines()
            right = right and int(lines[0].split()[4]) == count and int(lines[-1].split()[4]) == count + len(lines) - 1
            count += len(lines)
        if done(count):
            break
    return count, right


def flood(sshd: Sshd, folder: Path, seconds: float) -> tuple[float, float, bool]:
    """(lines a second, share of a core here, all of them came once and in order)."""
    log = folder / "flood.log"
    log.touch()
    fleet = Fleet([RemoteSpec("", Address("box"), str(log))], options(sshd))
    fleet.open()
    writing = Writing(log, RATE * 1.1, seconds)
    before, began = _own_cpu_s(), time.monotonic()
    writing.start()
    count, right = asyncio.run(follow(fleet, log, lambda count: not writing.is_alive() and count >= writing.count))
    took, cpu = time.monotonic() - began, _own_cpu_s() - before
    fleet.close()
    return count / took, cpu / took, right and count == writing.count


def remote_cost(sshd: Sshd, folder: Path, seconds: float, *, polls: bool = False) -> tuple[float, float]:
    """Shares of a core that the shells there with their children, and sshd, take for three busy logs at 1 Hz."""
    logs = [folder / f"{name}.log" for name in ("trainer", "orchestrator", "inference")]
    for log in logs:
        log.touch()
    requests = tuple(DEFAULT) if polls else ()
    fleet = Fleet([RemoteSpec("", Address("box"), str(log)) for log in logs], replace(options(sshd), requests=requests))
    fleet.open()
    fleet.follow()
    assert sshd.process is not None
    writers = [Writing(log, 20, seconds + 2 * _SETTLED_S) for log in logs]
    for writer in writers:
        writer.start()
    time.sleep(_SETTLED_S)
    servers: list[int] = []
    shells: list[int] = []
    for process in below(sshd.process.pid):
        name = Path(f"/proc/{process}/comm").read_text().strip()
        (servers if name.startswith("sshd") else shells).append(process)
    began, before = time.monotonic(), (_sum(shells), _sum(servers))
    time.sleep(seconds)
    took, after = time.monotonic() - began, (_sum(shells), _sum(servers))
    fleet.close()
    return (after[0] - before[0]) / took, (after[1] - before[1]) / took


def _sum(processes: list[int]) -> float:
    return sum(cpu_s(process) for process in processes if Path(f"/proc/{process}").exists())


def _own_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """Measures, prints, judges."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sshd = Sshd(folder / "sshd")
        sshd.start()
        try:
            first = first_line(sshd, folder)
            print(f"first line on the screen   {first:6.2f} s        (limit {FIRST_LINE_S} s)", flush=True)
            rate, share, right = flood(sshd, folder, seconds)
            print(
                f"flood                      {rate:6.0f} lines/s  (limit {RATE}), {share:.1%} of a core here,", end=" "
            )
            print("each line once" if right else "LINES WERE LOST OR CAME TWICE", flush=True)
            shell, server = remote_cost(sshd, folder, seconds)
            print(f"3 logs at 1 Hz, there      {shell:6.2%} of a core (limit {REMOTE_SHARE:.0%}), sshd {server:.2%}")
            polled, server = remote_cost(sshd, folder, seconds, polls=True)
            print(f"and host and GPUs polled   {polled:6.2%} of a core (limit {REMOTE_SHARE:.0%}), sshd {server:.2%}")
        finally:
            sshd.stop()
    return 0 if first <= FIRST_LINE_S and rate >= RATE and right and max(shell, polled) <= REMOTE_SHARE else 1


if __name__ == "__main__":
    raise SystemExit(main())
