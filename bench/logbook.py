"""Lines through the log book, with the last 50 looked at as a flooded screen does, beside plainly reading the bytes.

python bench/logbook.py [--lines N] [--runs N]
"""

from __future__ import annotations

import argparse
import io
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial

from perfmon.core.model import LOCAL, Block
from perfmon.logbuffer.buffer import LogBuffer
from perfmon.logbuffer.lines import EVERYTHING, Filter
from perfmon.logbuffer.reader import View
from perfmon.sources.blocks import LineSplitter
from perfmon.sources.clock import SourceClock
from perfmon.sources.formats.loader import load_packs

CHUNK = 1 << 18
LOGS = 3
RATE = 150_000
"""Lines a second of the flood: so many lines are looked at five times."""
BEGIN = 1787306400.0


def made(count: int) -> bytes:
    """Lines of about 130 bytes, stamped as they would be in that flood."""
    lines = []
    for at in range(count):
        seconds, ms = divmod(at * LOGS * 1000 // RATE, 1000)
        minutes, seconds = divmod(seconds, 60)
        lines.append(
            f"2026-08-21 10:{minutes:02d}:{seconds:02d}.{ms:03d} INFO [weights][{at % 4096:06x}] rpc.done "
            f"op=update_weights t={at}.5 rpc_ms=1222.0 path=/weights/step_{at % 1000}\n"
        )
    return "".join(lines).encode()


def read(data: bytes) -> None:
    """The floor: every chunk of every log, and its newlines counted."""
    for _ in range(LOGS):
        file = io.BytesIO(data)
        while chunk := file.read(CHUNK):
            chunk.count(b"\n")


def through(data: bytes, wanted: Filter) -> LogBuffer:
    """All logs through a book, its last lines read five times a second of the flood."""
    book = LogBuffer(packs=PACKS)
    view = View(book, wanted)
    clocks, cutters = [SourceClock() for _ in range(LOGS)], [LineSplitter() for _ in range(LOGS)]
    files = [io.BytesIO(data) for _ in range(LOGS)]
    looked = 0
    while True:
        for source, file in enumerate(files):
            for item in cutters[source].feed(file.read(CHUNK)):
                if isinstance(item, Block):
                    line = item.line + item.data.count(b"\n") - 1
                    clocks[source].resolve((LOCAL, BEGIN + line * LOGS / RATE), None)
                    book.append(source, f"log{source}", item, clocks[source])
        if book.totals().lines - looked >= RATE // 5:
            looked = book.totals().lines
            while not view.tail(50).complete:
                pass
        if all(file.tell() >= len(data) for file in files):
            return book


PACKS = load_packs(())


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=500_000, help="of each of three logs")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    data = made(arguments.lines)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    total = LOGS * arguments.lines
    print(f"{total} lines, {LOGS * len(data) / 1e6:.0f} MB, {arguments.runs} runs, median")
    floor = median_s(partial(read, data), arguments.runs)
    print(f"{'read and counted':<34} {floor:6.3f} s  {total / floor / 1e6:6.2f} M lines/s")
    for what, wanted in (
        ("log book, tail(50) 5 times a second", EVERYTHING),
        ("the same, only lines with a text", Filter(texts=("00fff]",))),
        ("the same, only those of /a regex/", Filter(texts=("/0{2}f+\\]/",))),
    ):
        took = median_s(partial(through, data, wanted), arguments.runs)
        share = 100 * took / (total / RATE)
        print(
            f"{what:<34} {took:6.3f} s  {total / took / 1e6:6.2f} M lines/s  ratio {took / floor:5.2f}"
            f"  {share:4.1f} % of a core at {RATE} lines/s"
        )
    book = through(data, EVERYTHING)
    totals = book.totals()
    held = View(book).tail(10 * total).lines
    assert totals.lines == total
    assert totals.lines - totals.lost_lines == len(held)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ring = sum(chunk.cost for chunks in book.chunks()[1].values() for chunk in chunks)
    print(f"ring {ring / 1e6:.1f} MB, {len(held)} lines held, peak memory +{(after - before) / 1024:.0f} MB")


def median_s(work: Callable[[], object], runs: int) -> float:
    """Median wall time."""
    walls = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        walls.append(time.perf_counter() - start)
    return statistics.median(walls)


if __name__ == "__main__":
    main()
