"""A gigabyte of logs opened with `perfmon watch`: how long it is being read, and how soon keys are answered meanwhile.

python bench/history.py [LOG] [--runs N]

Without LOG it is made (bench/make_log.py). A key is answered when what it asks for is on the terminal. Escape is told
apart: it may be the beginning of another key, for which 30 ms are waited. Beside it: the same
file read and its lines counted, by `wc -l`.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

from make_log import make_log
from screen import Screen
from terminal import PERFMON, Terminal

COLUMNS, ROWS = 200, 50
PAUSE_S = 0.2
ESCAPE = "\x1b"
KEYS: tuple[tuple[str, Callable[[Screen], bool]], ...] = (
    ("?", lambda screen: "help" in screen.row(0)),
    (ESCAPE, lambda screen: "LOG" in screen.text() and "help" not in screen.row(0)),
    ("z", lambda screen: "4 LOG" not in screen.text()),
    ("z", lambda screen: "4 LOG" in screen.text()),
)


class Watched:
    """perfmon on a terminal, and what the terminal shows."""

    def __init__(self, log: Path) -> None:
        self.terminal, self.screen = Terminal((*PERFMON, "watch", str(log)), COLUMNS, ROWS), Screen(COLUMNS, ROWS)
        self.rss_mb = 0.0

    def until(self, true: Callable[[Screen], bool], patience_s: float) -> float | None:
        """Seconds until that is shown; None when it is not."""
        began = time.monotonic()
        while (left := patience_s - (time.monotonic() - began)) > 0:
            if true(self.screen):
                return time.monotonic() - began
            self.screen.feed(self.terminal.read(min(left, 0.5), lambda _: True))
        return None

    def look(self, seconds: float) -> None:
        """Reads what is written within a time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.screen.feed(self.terminal.read(left, lambda _: True))
        self.rss_mb = max(self.rss_mb, self.terminal.rss_mb())


def loaded(screen: Screen) -> bool:
    """The history was read."""
    header = screen.row(0)
    return "perfmon" in header and "LOADING" not in header and "opening" not in header


def loading_s(log: Path) -> tuple[float, float, float]:
    """Seconds from exec until it is live, processor seconds, and the memory then."""
    watched = Watched(log)
    try:
        watched.until(loaded, 120)
        took = time.monotonic() - watched.terminal.began
        cpu = watched.terminal.cpu_s()
        watched.look(1.0)
        return took, cpu, watched.rss_mb
    finally:
        watched.terminal.close()


def answers_ms(log: Path) -> tuple[list[tuple[str, float]], float]:
    """How long each key took that was pressed while the history was read, and how long that took."""
    watched = Watched(log)
    took: list[tuple[str, float]] = []
    try:
        watched.until(lambda screen: "quit" in screen.text(), 10)
        keys: Iterator[tuple[str, Callable[[Screen], bool]]] = cycle(KEYS)
        while not loaded(watched.screen) and time.monotonic() - watched.terminal.began < 120:
            key, shown = next(keys)
            watched.terminal.type(key)
            answered = watched.until(shown, 5.0)
            took.append((key, 1e3 * (float("inf") if answered is None else answered)))
            watched.look(PAUSE_S)
        return took, time.monotonic() - watched.terminal.began
    finally:
        watched.terminal.close()


def counted_s(log: Path) -> float:
    """Seconds that `wc -l` takes."""
    began = time.monotonic()
    subprocess.run(["wc", "-l", str(log)], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", type=Path, nargs="?")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = arguments.log
        if log is None:
            log = Path(folder) / "orchestrator.log"
            make_log(log, 1e9, 7)
        floors, loads, keys = [], [], list[tuple[str, float]]()
        counted_s(log)
        for _ in range(arguments.runs):
            floors.append(counted_s(log))
            loads.append(loading_s(log))
            answered, took = answers_ms(log)
            keys += answered
            print(f"with keys: {took:5.2f} s, {len(answered)} keys")
    took, cpu, rss = sorted(loads)[len(loads) // 2]
    floor = sorted(floors)[len(floors) // 2]
    print(f"{log.stat().st_size / 1e9 if log.exists() else 1:.2f} GB, {arguments.runs} runs, median")
    print(f"perfmon watch, exec to live   {took:6.2f} s  {cpu:5.2f} s of processor  {rss:5.0f} MB afterwards")
    print(f"wc -l                         {floor:6.2f} s  ratio {took / floor:.1f}")
    for what, escape in (("keys meanwhile", False), ("Escape", True)):
        waits = sorted(wait for key, wait in keys if (key == ESCAPE) is escape)
        print(
            f"{what:<28} p50 {waits[len(waits) // 2]:4.0f} ms  p95 {waits[int(0.95 * (len(waits) - 1))]:4.0f} ms  "
            f"slowest {waits[-1]:4.0f} ms  ({len(waits)})"
        )


if __name__ == "__main__":
    main()
