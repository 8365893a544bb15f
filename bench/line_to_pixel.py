"""From a line's write to its text on the terminal, with the log pane following: how long it takes, quiet and busy.

python bench/line_to_pixel.py [--lines N]

Where more lines come than fit on the screen between two paintings one may never be seen: for that see
bench/live_tail.py. Beside it: the same lines through `tail -F` on a terminal of its own.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from screen import Screen
from terminal import PERFMON, Terminal

COLUMNS, ROWS = 200, 50
LOST_MS = 5000.0


def waits_ms(command: tuple[str, ...], log: Path, lines: int, settle_s: float) -> list[float]:
    """Appends lines at random moments; milliseconds until each can be read."""
    rng = random.Random(7)
    terminal, screen = Terminal(command, COLUMNS, ROWS), Screen(COLUMNS, ROWS)
    waits = []

    def watch(seconds: float, wanted: str = "\0") -> bool:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            screen.feed(terminal.read(left, lambda _: True))
            if wanted in screen.text():
                return True
        return False

    try:
        watch(settle_s)
        with log.open("a") as out:
            for at in range(lines):
                token = f"token{at}q{rng.randrange(10**6)}"
                began = time.monotonic()
                out.write(f"{datetime.now():%Y-%m-%d %H:%M:%S.%f} INFO [probe] {token}\n")
                out.flush()
                seen = watch(LOST_MS / 1e3, token)
                waits.append(1e3 * (time.monotonic() - began) if seen else LOST_MS)
                watch(rng.uniform(0.3, 1.0))
    finally:
        terminal.close()
    return sorted(waits)


@contextmanager
def fed(folder: Path, rate: float) -> Iterator[None]:
    """Three logs that grow meanwhile."""
    if not rate:
        yield
        return
    feeder = Path(__file__).with_name("feeder.py")
    command = [sys.executable, str(feeder), str(folder), "--rate", str(rate), "--seconds", "3600"]
    writer = subprocess.Popen(command)
    try:
        yield
    finally:
        writer.terminate()
        writer.wait()


def report(what: str, waits: list[float]) -> None:
    """One line."""
    p50, p95 = waits[len(waits) // 2], waits[int(0.95 * (len(waits) - 1))]
    print(f"{what:<34} p50 {p50:6.1f} ms  p95 {p95:6.1f} ms  slowest {waits[-1]:6.1f} ms  ({len(waits)} lines)")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=40)
    lines = parser.parse_args().lines
    for what, rate in (("quiet", 0.0), ("3 logs at 30 lines/s", 30.0)):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            log = folder / "trainer.log"
            log.touch()
            with fed(folder, rate):
                command = (*PERFMON, "watch", name, "--layout", "log")
                report(f"perfmon, {what}", waits_ms(command, log, lines, 4.0))
            if not rate:
                report("tail -F", waits_ms(("tail", "-F", str(log)), log, lines, 1.0))


if __name__ == "__main__":
    main()
