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

TEXT = "[rollout] trunc_pct=2.3 current_step=10 ckpt_step=9 staleness=1"


def quiet(_: str) -> None:
    """A sink that costs nothing: what is left is emit's own."""


def update() -> None:
    """Both lines of a weight update's client."""
    with emit.weights_update("http://10.0.0.5:8000", "/models/run/step_42") as told:
        told.rpc_ms = 12.5


def write() -> None:
    """The line of a checkpoint write."""
    with emit.checkpoint_write(42):
        pass


def batch() -> None:
    """Both lines of a batch of generations."""
    with emit.generation_batch(96, 64) as told:
        told.completions = 64


def rollout() -> None:
    """The line of a step's rollouts."""
    emit.rollout(2.3, 10, 9, 1)


CALLS: tuple[tuple[str, Callable[[], None], int], ...] = (
    ("weights_update", update, 2),
    ("checkpoint_write", write, 1),
    ("generation_batch", batch, 2),
    ("rollout", rollout, 1),
)


def line_us(call: Callable[[], object], lines: int, lines_a_call: int, rounds: int) -> float:
    """Microseconds a line: the least of several rounds, since whatever else the machine does only adds."""
    walls = []
    calls = range(lines // lines_a_call)
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in calls:
            call()
        walls.append(time.perf_counter() - start)
    return min(walls) / len(calls) / lines_a_call * 1e6


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "run.log"
        form = "%(asctime)s %(levelname)s %(message)s"
        logging.basicConfig(filename=log, format=form, level=logging.INFO)
        counter = emit.QueueMonitor(lambda: 1)
        floor = line_us(lambda: logging.info(TEXT), args.lines, 1, args.rounds)
        print(f"{'us a line':18}{'own':>8}{'as JSON':>10}{'in logging':>13}{'over logging.info':>20}")
        print(f"{'logging.info':18}{'':8}{'':10}{floor:13.2f}{1:20.2f}")
        for name, call, lines in CALLS:
            emit.configure(quiet)
            own = line_us(call, args.lines, lines, args.rounds)
            emit.configure(quiet, json_lines=True)
            as_json = line_us(call, args.lines, lines, args.rounds)
            emit.configure()
            whole = line_us(call, args.lines, lines, args.rounds)
            print(f"{name:18}{own:8.2f}{as_json:10.2f}{whole:13.2f}{whole / floor:20.2f}")
        print(f"{'monitor.produced':18}{line_us(counter.produced, args.lines, 1, args.rounds):8.2f}")
        logging.getLogger("perfmon.emit").setLevel(logging.WARNING)
        print(f"{'switched off':18}{line_us(rollout, args.lines, 1, args.rounds):8.2f}")
        logging.shutdown()


if __name__ == "__main__":
    main()
