"""What a line of `perfmon.emit` costs beside a line of plain `logging`.

python bench/emit.py [--lines N] [--rounds N]
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from perfmon import emit

WAYS = ("own", "as JSON", "in logging")
TEXT = "[rollout] trunc_pct=2.3 current_step=10 ckpt_step=9 staleness=1"


def quiet(_: str) -> None:
    """A sink that costs nothing: what is left is emit's own."""


def update() -> None:
    """Both lines of a weight update's client."""
    with emit.weights_update("http://10.0.0.5:8000", "/models/run/step_42") as result:
        result.rpc_ms = 12.5


def write() -> None:
    """The line of a checkpoint write."""
    with emit.checkpoint_write(42):
        pass


def batch() -> None:
    """Both lines of a batch of generations."""
    with emit.generation_batch(96, 64) as result:
        result.completions = 64


def rollout() -> None:
    """The line of a step's rollouts."""
    emit.rollout(2.3, 10, 9, 1)


MONITOR = emit.QueueMonitor(lambda: 1)


def _put() -> None:
    """What is timed of a call that puts an item in, without that call."""
    with MONITOR.putting():
        pass


CALLS: tuple[tuple[str, Callable[[], None], int], ...] = (
    ("weights_update", update, 2),
    ("checkpoint_write", write, 1),
    ("generation_batch", batch, 2),
    ("rollout", rollout, 1),
)


def line_us(call: Callable[[], object], lines: int, lines_a_call: int) -> float:
    """Microseconds a line."""
    calls = range(lines // lines_a_call)
    start = time.perf_counter()
    for _ in calls:
        call()
    return (time.perf_counter() - start) / len(calls) / lines_a_call * 1e6


def measure(lines: int) -> dict[tuple[str, str], float]:
    """Microseconds a line of every call and way, each once."""
    result = {("logging.info", "in logging"): line_us(lambda: logging.info(TEXT), lines, 1)}
    for name, call, lines_a_call in CALLS:
        emit.configure(quiet)
        result[name, "own"] = line_us(call, lines, lines_a_call)
        emit.configure(quiet, json_lines=True)
        result[name, "as JSON"] = line_us(call, lines, lines_a_call)
        emit.configure()
        result[name, "in logging"] = line_us(call, lines, lines_a_call)
    result["monitor.produced", "own"] = line_us(emit.QueueMonitor(lambda: 1).produced, lines, 1)
    result["monitor.putting", "own"] = line_us(_put, lines, 1)
    logger = logging.getLogger("perfmon.emit")
    logger.setLevel(logging.WARNING)
    result["switched off", "own"] = line_us(rollout, lines, 1)
    logger.setLevel(logging.NOTSET)
    return result


def main() -> None:
    """Measures and prints the least of several rounds: whatever else the machine does only adds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=100)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        form = "%(asctime)s %(levelname)s %(message)s"
        logging.basicConfig(filename=Path(folder) / "run.log", format=form, level=logging.INFO)
        rounds = [measure(args.lines) for _ in range(args.rounds)]
        logging.shutdown()
    least = {case: min(result[case] for result in rounds) for case in rounds[0]}
    floor = least["logging.info", "in logging"]
    print(f"{'us a line':18}" + "".join(f"{way:>12}" for way in WAYS) + f"{'over logging.info':>20}")
    for name in dict.fromkeys(name for name, _ in least):
        result = [f"{least[name, way]:12.2f}" if (name, way) in least else " " * 12 for way in WAYS]
        whole = least.get((name, "in logging"))
        print(f"{name:18}" + "".join(result) + ("" if whole is None else f"{whole / floor:20.2f}"))


if __name__ == "__main__":
    main()
