"""A simulated day through the monitor, without a screen: memory, and what pictures and judgements cost, as it goes on.

python bench/long_run.py [--minutes N] [--scenario NAME]

The built-in run is given line by line, with a picture for every five seconds of it; now and then a judgement and
pictures are timed. What comes later is to be compared with what comes first.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import time
from collections import deque
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

from perfmon.core import ConnectError
from perfmon.core.config import Config
from perfmon.demo.output import demo_timeline
from perfmon.logbuffer.buffer import LogBuffer
from perfmon.monitor.feeds import Item
from perfmon.monitor.monitor import Monitor
from perfmon.monitor.worker import Watch
from perfmon.sources.discovery import LogFile
from perfmon.viewmodel import TimeRange

WINDOW_S = 600.0
SHARES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.99)
EVERY_S = 5.0
"""Of the run, between two pictures."""
PICTURES = 5


def rss_mb() -> float:
    """Resident memory, in MB (10^6)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def looked_at(watch: Watch) -> tuple[float, float]:
    """Milliseconds of a judgement, and of a picture right after something new."""
    watch.judge_window(WINDOW_S)  # now, however much the last ones cost
    began = time.perf_counter()
    assert watch.judge_if_due(time.time())
    judged = time.perf_counter() - began
    pictures = []
    for number in range(PICTURES):
        watch.session.store.version += 1
        began = time.perf_counter()
        watch.picture(TimeRange(), number)
        pictures.append(time.perf_counter() - began)
    return 1e3 * judged, 1e3 * statistics.median(pictures)


class Simulated:
    """A feed whose clock is where the run is."""

    caught_up, of_past, behind, player = True, False, 0, None
    hosts = ()
    collectives = None
    specs: tuple[str, ...] = ()

    def __init__(self, start: float) -> None:
        self.now = start

    def clock(self) -> float:
        """Seconds since 1970, in the run."""
        return self.now

    def through(self, *_given: object) -> Any:
        """No hosts."""
        raise ConnectError("no hosts")

    def copy(self, *_given: object) -> int:
        """No hosts."""
        return 0

    def changed_at(self, log: LogFile) -> None:
        """Nobody knows."""
        del log

    async def items(self) -> AsyncIterator[Item]:
        """Lines are given to the watch directly."""
        return
        yield

    def finish(self) -> tuple[()]:
        """Every line is whole."""
        return ()

    async def close(self) -> None:
        """Nothing is held."""


def watched(scenario: str, minutes: float, memory_mb: int | None) -> None:
    """Plays the run line by line, and prints what it costs on the way."""
    timeline = demo_timeline(scenario, 0, minutes, datetime(2026, 8, 21, 10))
    feed, config = Simulated(timeline.start), Config(memory_mb=memory_mb)
    config = Monitor(lambda: feed, config).config  # what it makes of it is what it keeps
    watch = Watch(feed, config, WINDOW_S, LogBuffer(), deque(maxlen=20))
    logs: dict[str, LogFile] = {}
    due = [60.0 * minutes * share for share in SHARES]
    looked, count, began = 0.0, 0, time.perf_counter()
    print(f"{scenario}, {minutes / 60:.0f} hours")
    for at_s, name, item in timeline.items():
        feed.now = timeline.start + at_s
        if at_s - looked >= EVERY_S:
            looked = at_s
            watch.judge_if_due(feed.now)
            watch.picture(TimeRange(), 1)
        while due and at_s >= due[0]:
            report(watch, 100 * due.pop(0) / (60.0 * minutes), count)
        if name not in logs:
            logs[name] = LogFile(name, Path(name))
        watch.take(logs[name], item)
        count += 1
    print(f"{count} lines in {time.perf_counter() - began:.1f} s")


def report(watch: Watch, share: float, count: int) -> None:
    """One line of the table."""
    gc.collect()
    judged, pictured = looked_at(watch)
    print(
        f"after {share:3.0f} %  {count:8d} lines  {rss_mb():6.1f} MB  store {watch.session.store.bytes / 1e6:5.1f} MB  "
        f"judgement {judged:6.1f} ms  picture {pictured:6.1f} ms",
        flush=True,
    )


def main() -> None:
    """Plays a day."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1440.0)
    parser.add_argument("--scenario", default="frontend-queue")
    parser.add_argument("--memory-mb", type=int, help="what the store may keep")
    arguments = parser.parse_args()
    watched(arguments.scenario, arguments.minutes, arguments.memory_mb)


if __name__ == "__main__":
    main()
