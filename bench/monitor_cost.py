"""What the live monitor costs at 200x50, beside an empty Textual app: watching a busy run, and an idle one.

Where `glances` is found (or what `--peer COMMAND` names is given) it is measured, too: how much the one costs of the
other tells how fast the machine is.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from terminal import EMPTY_APP, PERFMON, Terminal, Usage

PEER = "glances"


def main() -> None:
    """Prints the figures and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="how long each is measured")
    parser.add_argument("--settle", type=float, default=8.0, help="before that")
    parser.add_argument("--peer", type=shlex.split, help=f"another monitor, and how it is called (default: {PEER})")
    arguments = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is never kept compiled is slower than it is for anybody
    found = shutil.which(PEER)
    peer = arguments.peer or ([found] if found else None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "logs"  # the folder around it is watched, too: nobody else writes there
        folder.mkdir()
        for log_name in ("orchestrator.log", "inference.log", "trainer.log"):
            (folder / log_name).touch()
        total = 2 * (arguments.seconds + arguments.settle) + 5
        feeder = Path(__file__).with_name("feeder.py")
        writer = subprocess.Popen([sys.executable, str(feeder), str(folder), "--seconds", str(total)])
        busy = measured((*PERFMON, "watch", str(folder)), arguments.seconds, arguments.settle)
        writer.terminate()
        writer.wait()
        time.sleep(1)
        for log in folder.iterdir():
            log.unlink()
        calm = (sys.executable, str(feeder), str(folder), "--rate", "2000", "--seconds", "10", "--open-traces", "0")
        subprocess.run((*calm, "--batch", "100"), check=True)
        idle = measured((*PERFMON, "watch", str(folder)), arguments.seconds, arguments.settle + 4)
        empty = measured(EMPTY_APP, arguments.seconds / 2, arguments.settle)
        other = measured(tuple(peer), arguments.seconds, arguments.settle) if peer else None
    report("perfmon, 3 logs at 100 lines/s", busy)
    report("perfmon, logs that are silent", idle)
    report("an empty Textual app", empty)
    if peer and other is not None:
        report(Path(peer[0]).name, other)
        if other.cpu_percent:
            shares = busy.cpu_percent / other.cpu_percent, idle.cpu_percent / other.cpu_percent
            print(f"busy: {shares[0]:.2f} times {Path(peer[0]).name}, idle: {shares[1]:.2f} times")
    print(f"memory: {busy.rss_mb / empty.rss_mb:.2f} times the empty app")


def measured(command: tuple[str, ...], seconds: float, settle: float) -> Usage:
    """Runs a program on a terminal and measures it once it has settled."""
    terminal = Terminal(command, 200, 50)
    try:
        terminal.read(settle)
        return terminal.measure(seconds)
    finally:
        terminal.close()


def report(what: str, usage: Usage) -> None:
    """One line."""
    print(f"{what:<34} {usage.cpu_percent:5.2f} % cpu  {usage.rss_mb:5.1f} MB  {usage.written_kib_s:6.1f} KiB/s")


if __name__ == "__main__":
    main()
