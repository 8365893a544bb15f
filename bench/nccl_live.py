"""Cost of following logs of NCCL Inspector: lines a second of one core, beside `json.loads` of the same lines; memory
with as many open operations as there may be; seconds of the job from the first dump of a fault to its finding.

python bench/nccl_live.py
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.nccl_logs import START_US, Faults, Plan, write
from perfmon.core import Block, Config
from perfmon.nccl import LiveJob
from perfmon.pipeline import Session

PLAN = Plan(nodes=4, gpus=8, steps=80, layers=4, compute_us=60_000, jitter=0.003)
PIECE = 64 << 10


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
        told = job.advance(caught_up=True)
        if told:
            data = "".join(f"{one}\n" for one in told).encode()
            session.feed(state, Block(data, offset, number))
            offset, number = offset + len(data), number + len(told)
            if any(found.state == "firing" for found in session.snapshot().findings):
                return (at - START_US) / 1e6
    return None


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
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
