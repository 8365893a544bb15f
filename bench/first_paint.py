"""Time from exec to what can be seen, beside an empty Textual app: runs take turns, medians are told.

python bench/first_paint.py [--runs N]

Three moments: the first frame (every pane with its title), the first that takes keys (the footer tells them), and the
first that tells what the logs hold. Of the empty app it is the moment at which its screen is filled.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from screen import Screen
from terminal import EMPTY_APP, PERFMON, Terminal

COLUMNS, ROWS = 200, 50
Moment = Callable[[Screen], bool]


def frame(screen: Screen) -> bool:
    """All panes are there."""
    shown = screen.text()
    return "perfmon" in screen.row(0) and all(
        title in shown for title in ("1 TIMELINE", "2 ALERTS", "3 SOURCES", "4 LOG")
    )


def keys(screen: Screen) -> bool:
    """It says what keys do."""
    return frame(screen) and "quit" in screen.text()


def news(screen: Screen) -> bool:
    """The logs' contents are told."""
    return "checkpoint write" in screen.text()  # pane 3 has another title once something was polled


def filled(screen: Screen) -> bool:
    """An empty screen was painted."""
    return screen.painted >= COLUMNS * ROWS


def moments_ms(command: tuple[str, ...], wanted: tuple[Moment, ...], patience_s: float = 10.0) -> list[float]:
    """When each of these was first on the terminal, in milliseconds since the program was started."""
    terminal, screen = Terminal(command, COLUMNS, ROWS), Screen(COLUMNS, ROWS)
    found: list[float] = []
    try:
        while len(found) < len(wanted) and time.monotonic() - terminal.began < patience_s:
            screen.feed(terminal.read(0.5, lambda _: True))
            now = 1e3 * (time.monotonic() - terminal.began)
            while len(found) < len(wanted) and wanted[len(found)](screen):
                found.append(now)
    finally:
        terminal.close()
    return found + [float("nan")] * (len(wanted) - len(found))


def main() -> None:
    """Prints medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "trainer.log"
        log.write_text(
            "".join(
                f"2026-11-20 10:00:{at:02d}.0 INFO [ckpt] write.done step={at} write_ms=800.5\n" for at in range(60)
            )
        )
        commands: dict[str, tuple[str, ...]] = {
            "an empty Textual app": EMPTY_APP,
            "perfmon watch": (*PERFMON, "watch", name),
            "perfmon demo": (*PERFMON, "demo"),
        }
        wanted: dict[tuple[str, ...], tuple[Moment, ...]] = {EMPTY_APP: (filled,)}
        walls: dict[str, list[list[float]]] = {what: [] for what in commands}
        for run in range(runs + 1):
            for what, command in commands.items():
                took = moments_ms(command, wanted.get(command, (frame, keys, news)))
                if run:  # the first one fills the caches
                    walls[what].append(took)
    medians = {what: [statistics.median(at) for at in zip(*took, strict=True)] for what, took in walls.items()}
    floor = medians["an empty Textual app"][0]
    print(f"{runs} runs in turns, median, 200x50{'':13}  first frame     takes keys        first news")
    for what, result in medians.items():
        columns = "  ".join(f"{at:6.0f} ms {at / floor:5.2f}x" for at in result)
        print(f"{what:<42} {'' if len(result) > 1 else ' ' * 18}{columns}")


if __name__ == "__main__":
    main()
