"""Floods three logs and watches perfmon with its log pane open: cost, lag, and whether every line was counted.

python bench/live_tail.py [--rates 150000 200000] [--seconds N] [--peer COMMAND]

The lag is the age of the newest line that can be read on the terminal, looked at ten times a second. Beside it: a
reader that only counts the lines of the same logs, in Python, and where `lnav` is found (or what `--peer COMMAND` names
is given) another viewer in the same flood.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from feeder import NAMES
from screen import Screen
from terminal import PERFMON, Terminal

COLUMNS, ROWS = 200, 50
PEER = "lnav"
LOOK_S = 0.1
BATCHES = 20
"""Times a second that the logs are written to."""
_CLOCK = re.compile(r"\b(\d\d):(\d\d):(\d\d)\.(\d{3})\b")
_COUNTED = re.compile(r"of ([\d,]+) lines? recognised")
FLOOR = """
import sys, time
files = [open(name, "rb", buffering=0) for name in sys.argv[1:]]
while True:
    for file in files:
        while data := file.read(1 << 18):
            data.count(b"\\n")
    time.sleep(0.18)
"""


class Flood:
    """Writes as many lines to each log a second."""

    def __init__(self, folder: Path, rate: float, seconds: float) -> None:
        feeder = Path(__file__).with_name("feeder.py")
        each = rate / len(NAMES)
        command = [sys.executable, str(feeder), str(folder), "--rate", str(each), "--seconds", str(seconds)]
        self.process = subprocess.Popen([*command, "--batch", str(max(1, int(each / BATCHES)))])

    @property
    def over(self) -> bool:
        """All is written."""
        return self.process.poll() is not None


def newest_age_s(screen: Screen) -> float | None:
    """Age of the newest line that is shown, by its own stamp."""
    now = datetime.now()
    seconds = now.hour * 3600 + now.minute * 60 + now.second + now.microsecond / 1e6
    stamps = [
        int(h) * 3600 + int(m) * 60 + int(s) + int(ms) / 1e3
        for row in range(ROWS)
        for h, m, s, ms in _CLOCK.findall(screen.row(row)[:20])
    ]
    return seconds - max(stamps) if stamps else None


def flooded(folder: Path, rate: float, seconds: float) -> tuple[float, float]:
    """One flood, and what is told of it; the share of a core that it took, and how many MB."""
    terminal, screen = (
        Terminal((*PERFMON, "watch", str(folder), "--layout", "log"), COLUMNS, ROWS),
        Screen(COLUMNS, ROWS),
    )

    def watch(time_s: float) -> None:
        end = time.monotonic() + time_s
        while (left := end - time.monotonic()) > 0:
            screen.feed(terminal.read(left, lambda _: True))

    try:
        watch(4.0)
        files = [folder / name for name in NAMES]
        floor = subprocess.Popen([sys.executable, "-c", FLOOR, *map(str, files)])
        before, began, cpu = sum(map(lines_of, files)), time.monotonic(), terminal.cpu_s()
        floor_cpu = cpu_s(floor.pid)
        flood, lags, rss = Flood(folder, rate, seconds), list[float](), 0.0
        while not flood.over:
            watch(LOOK_S)
            age = newest_age_s(screen)
            if age is not None and time.monotonic() - began > 1.5:
                lags.append(age)
            rss = max(rss, terminal.rss_mb())
        took = time.monotonic() - began
        used, floor_used = (terminal.cpu_s() - cpu) / took, (cpu_s(floor.pid) - floor_cpu) / took
        floor.terminate()
        floor.wait()
        watch(1.5)
        written = sum(map(lines_of, files))
        counted = counted_by(terminal, screen, watch)
        lags.sort()
        print(
            f"{(written - before) / took:7.0f} lines/s for {took:4.1f} s   "
            f"perfmon {100 * used:5.1f} % of a core, {rss:5.1f} MB   "
            f"lag p50 {lags[len(lags) // 2]:.2f} s, p95 {lags[int(0.95 * (len(lags) - 1))]:.2f} s   "
            f"{counted} of {written} lines counted   reading alone: {100 * floor_used:.1f} %"
        )
        return used, rss
    finally:
        terminal.close()


def peered(folder: Path, rate: float, seconds: float, peer: list[str], ours: tuple[float, float]) -> None:
    """The same flood for another viewer of logs, and how much of that perfmon took."""
    terminal = Terminal((*peer, *(str(folder / name) for name in NAMES)), COLUMNS, ROWS)
    try:
        terminal.read(4.0)
        began, cpu, rss = time.monotonic(), terminal.cpu_s(), 0.0
        flood = Flood(folder, rate, seconds)
        while not flood.over:
            terminal.read(LOOK_S)
            rss = max(rss, terminal.rss_mb())
        used = (terminal.cpu_s() - cpu) / (time.monotonic() - began)
        name = Path(peer[0]).name
        print(
            f"{'':7} the same   {name} {100 * used:5.1f} % of a core, {rss:5.1f} MB   "
            f"perfmon: {ours[0] / used:.2f} times the processor, {ours[1] / rss:.2f} times the memory"
        )
    finally:
        terminal.close()


def counted_by(terminal: Terminal, screen: Screen, watch: Callable[[float], None]) -> int:
    """Lines that perfmon says it has read: on its page about logs."""
    terminal.type("D")
    watch(1.5)
    return sum(int(found.replace(",", "")) for found in _COUNTED.findall(screen.text()))


def lines_of(path: Path) -> int:
    """Lines of a file."""
    with path.open("rb") as file:
        return sum(data.count(b"\n") for data in iter(lambda: file.read(1 << 20), b""))


def cpu_s(pid: int) -> float:
    """Processor seconds of a process with one thread."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


@contextmanager
def empty_logs() -> Iterator[Path]:
    """A folder with the logs that are about to be written."""
    with tempfile.TemporaryDirectory() as name:
        for log in NAMES:
            (Path(name) / log).touch()
        yield Path(name)


def main() -> None:
    """Floods at every rate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", type=float, nargs="+", default=[150_000, 200_000], help="lines a second, in all")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--peer", type=shlex.split, help=f"another viewer, and how it is called (default: {PEER})")
    arguments = parser.parse_args()
    found = shutil.which(PEER)
    peer = arguments.peer or ([found] if found else None)
    for rate in arguments.rates:
        with empty_logs() as folder:
            ours = flooded(folder, rate, arguments.seconds)
        if peer:
            with empty_logs() as folder:
                peered(folder, rate, arguments.seconds, peer, ours)


if __name__ == "__main__":
    main()
