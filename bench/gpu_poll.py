"""What polling 8 GPUs costs, beside nvitop on the same stand-in for NVML, both at one look a second."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from terminal import Terminal, Usage

STUB = Path(__file__).parents[1] / "tests" / "nvml_stub.c"
GPUS = 8
GPU = """\
name NVIDIA H100 80GB HBM3
mem_util 41
mem_total 85520809984
mem_used 69793218560
power 685123
power_limit 700000
energy 123456789
temp 71
fan error 3
clock 1755
sm 1755
max_sm 1980
max_clock 1980
mem_clock 2619
max_mem_clock 2619
reasons 0x4
ecc 1
ecc_uncorrected 0
mig 0
pstate 0
persistence 1
display 0
compute_mode 0
driver 580.95.05
cuda 13000
pcie_tx 120000
pcie_rx 24500000
encoder 0
decoder 0
field_138 1234567890
field_139 2234567890
field_197 1234567890
field_198 2234567890
"""
LOOKS = """\
import time, nvitop
devices = nvitop.Device.all()
while True:
    seen = nvitop.take_snapshots(devices)
    print(seen.devices[7].name, seen.devices[7].gpu_utilization, len(seen.gpu_processes))
    time.sleep(1)
"""
"""nvitop's own way to look without a screen."""


def main() -> None:
    """Prints the figures and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each is measured")
    parser.add_argument("--settle", type=float, default=8.0, help="before that")
    parser.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ours:
        asyncio.run(poll())
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = stand_in(folder)
        jobs = [subprocess.Popen(("sleep", "3600")) for _ in range(GPUS)]
        describe(folder, [job.pid for job in jobs])
        try:
            ours, looks, screen = (
                measured(command, environment, arguments.seconds, arguments.settle)
                for command in (
                    (sys.executable, __file__, "--ours"),
                    (sys.executable, "-c", LOOKS),
                    (str(Path(sys.executable).with_name("nvitop")), "--monitor", "full", "--interval", "1"),
                )
            )
        finally:
            for job in jobs:
                job.kill()
                job.wait()
    report(f"perfmon's poller, {GPUS} GPUs", ours)
    report("nvitop.take_snapshots", looks)
    report("nvitop on a terminal", screen)
    print(f"ratio to nvitop's snapshots {ours.cpu_percent / looks.cpu_percent:.2f}")
    print(f"ratio to nvitop             {ours.cpu_percent / screen.cpu_percent:.2f}  (asked: 0.50; 1 % of a core)")


async def poll() -> None:
    """Polls at the default pace, and makes the lines that go into the log book."""
    from perfmon.core.model import Block, Notice
    from perfmon.sources.discovery import LogFile
    from perfmon.sources.pollers.base import LocalMachine
    from perfmon.sources.pollers.gpu.gpu import GpuPoller
    from perfmon.sources.pollers.scheduler import PollScheduler

    async def emit(items: list[tuple[LogFile, Block | Notice]]) -> None:
        print(*(len(item.data) for _, item in items if isinstance(item, Block)), "bytes about an H100")

    machine = LocalMachine()
    await PollScheduler(machine, [GpuPoller(machine)], emit).run()


def stand_in(folder: Path) -> dict[str, str]:
    """The library, compiled, and where it is looked for."""
    library = folder / "libnvidia-ml.so.1"
    flags = ("-shared", "-fPIC", "-O1", "-pthread", "-Wl,-soname,libnvidia-ml.so.1")
    subprocess.run(("gcc", *flags, "-o", str(library), str(STUB)), check=True)
    return {"LD_LIBRARY_PATH": str(folder), "NVML_STUB": str(folder / "state")}


def describe(folder: Path, pids: list[int]) -> None:
    """What it answers: GPUs at work, a process on each."""
    each = (
        f"{at}.util {90 + at}\n{at}.procs {pid}:69500000000\n{at}.proc_util {pid}:{90 + at}\n"
        for at, pid in enumerate(pids)
    )
    (folder / "state").write_text(f"count {GPUS}\n{GPU}{''.join(each)}")


def measured(command: tuple[str, ...], environment: dict[str, str], seconds: float, settle: float) -> Usage:
    """Runs a program on a terminal and measures it once it has settled."""
    terminal = Terminal(command, 200, 50, environment)
    try:
        seen = terminal.read(60, until=lambda text: b"H100" in text)
        assert b"H100" in seen, f"{command} sees no GPU"
        terminal.read(settle)
        return terminal.measure(seconds)
    finally:
        terminal.close()


def report(what: str, usage: Usage) -> None:
    """One line."""
    print(f"{what:<26} {usage.cpu_percent:5.2f} % of a core  {usage.rss_mb:5.1f} MB")


if __name__ == "__main__":
    main()
