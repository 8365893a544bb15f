"""Writes the logs of a busy run at a steady rate: what the benchmarks of the monitor watch."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import count
from pathlib import Path

NAMES = ("orchestrator.log", "inference.log", "trainer.log")


def lines(log: int, open_traces: int) -> Iterator[str]:
    """Lines of one of three logs: eight metrics, weight updates of which some stay open, and chatter."""
    for n in count():
        step = n // 100
        if log == 0 and n < open_traces:
            yield f"INFO [weights][{n:06x}] client.send url=http://10.0.0.5:8000 path=/weights/step_{n} t={n}.5"
        elif log == 0 and n % 100 == 10:
            yield f"INFO [gen] batch.done completions=64 dur_ms={4000 + n % 900}.5 inflight={100 + n % 40}"
        elif log == 0 and n % 100 == 20:
            yield f"INFO [rollout] trunc_pct={n % 9}.2 current_step={step} ckpt_step={step} staleness={n % 2}"
        elif log == 0 and n % 100 == 30:
            yield f"INFO [ckpt] wait.done target_step={step} wait_ms={n % 400}.5"
        elif log == 1 and n % 100 == 10:
            yield (
                f"(APIServer pid=412) INFO 11-20 {datetime.now():%H:%M:%S} [loggers.py:336] "
                f"Engine 000: Avg prompt throughput: {800 + n % 90}.1 tokens/s, "
                f"Avg generation throughput: {2300 + n % 99}.4 tokens/s, Running: {100 + n % 28} reqs, "
                f"Waiting: {n % 5} reqs, GPU KV cache usage: {60 + n % 20}.1%, Prefix cache hit rate: 41.0%"
            )
        elif log == 2 and n % 100 == 10:
            yield f"INFO [ckpt] write.done step={step} write_ms={800 + n % 90}.5"
        else:
            yield f'INFO:     10.0.0.{n % 250}:53122 - "POST /v1/chat/completions HTTP/1.1" 200 OK request {n}'


def feed(folder: Path, rate: float, seconds: float, open_traces: int = 20, batch: int = 1) -> None:
    """Appends `rate` lines a second to each of three logs."""
    files = [(folder / name).open("a", buffering=1 if batch == 1 else -1) for name in NAMES]
    sources = [lines(at, open_traces) for at in range(len(files))]
    began, done = time.monotonic(), 0
    while (now := time.monotonic() - began) < seconds:
        due = int(now * rate) - done
        if due < batch:
            time.sleep(max(0.0, (done + batch) / rate - now))
            continue
        stamp = f"{datetime.now():%Y-%m-%d %H:%M:%S.%f}"[:-3]
        for file, source in zip(files, sources, strict=True):
            file.write("".join(f"{stamp} {next(source)}\n" for _ in range(due)))
            file.flush()
        done += due


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rate", type=float, default=100.0, help="lines a second, to each log")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--open-traces", type=int, default=20, help="weight updates that never end")
    parser.add_argument("--batch", type=int, default=1, help="lines that are written together")
    arguments = parser.parse_args()
    feed(arguments.folder, arguments.rate, arguments.seconds, arguments.open_traces, arguments.batch)
