"""Cost of following logs of NCCL Inspector: lines a second of one core, beside `json.loads` of the same lines; memory
with as many open operations as there may be; seconds of the job from the first dump of a fault to its finding; and a
job that writes 50,000 lines a second for some time, with the screen open on the same core.

python bench/nccl_live.py
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from screen import Screen
from terminal import PERFMON, Terminal

from lab.nccl_logs import START_US, Faults, Plan, write
from perfmon.core import Block, Config
from perfmon.nccl import LiveJob
from perfmon.pipeline import Session

PLAN = Plan(nodes=4, gpus=8, steps=80, layers=4, compute_us=60_000, jitter=0.003)
PIECE = 64 << 10
STEPS_PER_S, COMPUTE_US = 120.0, 300.0
"""Of a job whose 40 ranks log somewhat more than 50,000 operations a second."""
STAMP = re.compile(rb'"dump_timestamp_us":(\d+)')


def pieces(folder: Path) -> list[tuple[str, bytes]]:
    """Whole lines of all files, in turns."""
    texts = {path.name: path.read_bytes().splitlines(keepends=True) for path in sorted(folder.iterdir())}
    step = PIECE // 480
    longest = max(map(len, texts.values()))
    return [
        (name, b"".join(lines[at : at + step]))
        for at in range(0, longest, step)
        for name, lines in texts.items()
        if lines[at : at + step]
    ]


def speed(work: list[tuple[str, bytes]]) -> tuple[float, float]:
    """Processor seconds of ingestion, and of parsing alone."""
    began, job, last = time.process_time(), LiveJob(), 0.0
    for name, data in work:
        job.feed(name, data)
        if time.process_time() - last >= 0.5:
            last = time.process_time()
            job.advance(caught_up=True)
            job.state(last)
    took, began = time.process_time() - began, time.process_time()
    for _, data in work:
        for line in data.splitlines():
            json.loads(line)
    return took, time.process_time() - began


def latency(folder: Path) -> float | None:
    """Seconds of the job from the start of the fault to its finding."""
    lines = [
        (int(json.loads(line)["metadata"]["dump_timestamp_us"]), path.name, line)
        for path in folder.iterdir()
        for line in path.read_bytes().splitlines(keepends=True)
    ]
    lines.sort(key=lambda item: item[0])
    job, session = LiveJob(), Session(Config())
    state, due = session.add_source("nccl-inspector"), 0
    offset, number = 0, 1
    for at, name, line in lines:
        job.feed(name, line)
        if at < due:
            continue
        due = at + 500_000
        result = job.advance(caught_up=True)
        if result:
            data = "".join(f"{one}\n" for one in result).encode()
            session.feed(state, Block(data, offset, number))
            offset, number = offset + len(data), number + len(result)
            if any(found.state == "firing" for found in session.snapshot().findings):
                return (at - START_US) / 1e6
    return None


def made(plan: Plan, folder: Path) -> Iterator[Path]:
    """The logs of a job."""
    write(folder, plan)
    yield from sorted(folder.iterdir())


def flood(folder: Path, seconds: float) -> None:
    """Write the logs of a job as its ranks do, every half second what happened in it; for a process of its own."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    plan = replace(PLAN, nodes=5, steps=int(seconds * STEPS_PER_S), compute_us=COMPUTE_US)
    texts = {path: path.read_bytes().splitlines(keepends=True) for path in made(plan, folder / "made")}
    begin = time.time() + 1.0
    shift = begin - START_US / 1e6
    due: dict[int, list[tuple[Path, bytes]]] = {}
    for path, lines in texts.items():
        for line in lines:
            at = int(STAMP.search(line)[1])  # type: ignore[index]
            data = STAMP.sub(b'"dump_timestamp_us":%d' % int(at + shift * 1e6), line)
            due.setdefault(at // 500_000, []).append((path, data))
    for tick, pieces in sorted(due.items()):
        time.sleep(max(0.0, tick / 2 + shift - time.time()))
        by_path: dict[Path, list[bytes]] = {}
        for path, data in pieces:
            by_path.setdefault(path, []).append(data)
        for path, some in by_path.items():
            with (folder / "logs" / path.name).open("ab") as file:
                file.write(b"".join(some))


def with_screen(folder: Path, seconds: float) -> None:
    """The screen on one core, the job on another."""
    logs = folder / "logs"
    logs.mkdir()
    core = min(os.sched_getaffinity(0))
    terminal = Terminal(("taskset", "-c", str(core), *PERFMON, "nccl", str(logs), "--live"), 120, 30)
    screen, job = Screen(120, 30), multiprocessing.Process(target=flood, args=(folder, seconds))
    rates, changes, shown, title = list[float](), list[float](), "", ""
    job.start()
    began = cpu = 0.0

    def watch() -> None:
        nonlocal shown, title  # what stood there before the first line counts for nothing
        screen.feed(terminal.read(0.1, lambda _: True))
        title = next((row for row in screen.text().splitlines() if "5 Collectives" in row), "")
        found = re.search(r"([\d.]+)(k?) lines/s", title)
        if began and found is not None and found[0] != shown:
            shown = found[0]
            changes.append(time.monotonic())
            rates.append(float(found[1]) * (1000 if found[2] else 1))

    while job.is_alive():
        watch()
        if not began and any(logs.iterdir()):
            began, cpu = time.monotonic(), terminal.cpu_s()
    took, used = time.monotonic() - began, terminal.cpu_s() - cpu
    end = time.monotonic()
    while time.monotonic() - end < 3.0:
        watch()
    lines = sum(path.read_bytes().count(b"\n") for path in logs.iterdir())
    pauses = [after - before for before, after in pairwise(changes)]
    # The rate is shown once a second, with three digits.
    counted = sum(rate * pause for rate, pause in zip(rates, pauses, strict=False))
    print(
        f"{lines / took:,.0f} lines/s for {took:.0f} s with the screen: {100 * used / took:.0f} % of a core; "
        f"{counted / lines:.0%} of the lines in the rates that it showed\n"
        f"the pane changed every {median(pauses):.1f} s, at most {max(pauses):.1f} s apart: {title.strip(' ─')}"
    )
    terminal.close()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="of the job with the screen")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        with_screen(Path(name), args.seconds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "healthy", PLAN)
        work = pieces(folder / "healthy")
        count = sum(data.count(b"\n") for _, data in work)
        ours, floor = zip(*(speed(work) for _ in range(args.runs)), strict=True)
        parsed, ratio = count / min(floor), min(ours) / min(floor)
        print(f"{count / min(ours):,.0f} lines/s of one core; json.loads alone {parsed:,.0f}: {ratio:.2f} times")
        first = work[0][1].splitlines(keepends=True)[0].decode()
        begin, _, rest = first.partition('"coll_sn":')
        tail = rest[rest.index(",") :]
        tracemalloc.start()
        job = LiveJob()
        for at in range(60_000):
            job.feed("one", f'{begin}"coll_sn":{at}{tail}'.encode())
        held, state = tracemalloc.get_traced_memory()[0], job.state(0.0)
        print(f"{held / 1e6:.0f} MB with {state.open_ops:,} open operations, {state.evicted:,} closed early")
        tracemalloc.stop()
        small = replace(PLAN, gpus=4)
        for fault in (Faults(slow_rank=3, delay_us=8_000), Faults(slow_adapter=1)):
            write(folder / repr(fault), replace(small, faults=fault))
            print(f"found after {latency(folder / repr(fault)):.1f} s of the job: {fault}")


if __name__ == "__main__":
    main()
