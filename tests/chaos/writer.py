"""A process that writes numbered lines of one shape at a known rate: `python -m chaos.writer`.

It takes commands on its standard input and answers each with a line, once it is done. What it has written is in a
shared file of two counters (`STATE`), that stays when the process is killed.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import select
import struct
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta

STATE = struct.Struct("<QQ")
"""Numbered lines, and line ends, that are in the log."""
_BEGIN = datetime(2026, 3, 2, 10, 0, 0)
_HALF_EVERY = 23
"""One line in so many is written in two parts."""
_HALF_S = 0.03

Shape = Callable[[int, datetime, str], str]
"""A record without its last line end: of a number, a time and the mark by which it is counted."""


def _plain(number: int, at: datetime, mark: str) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S},{number % 1000:03d} INFO trainer: step {number} loss 2.{number % 97:02d} uid {mark}"


def _json(number: int, at: datetime, mark: str) -> str:
    values = {"ts": at.isoformat(), "level": "info", "step": number, "loss": 2.0 + number % 7 / 10, "uid": mark}
    return json.dumps(values)


def _table(number: int, at: datetime, mark: str) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S},{number},{2 + number % 9 / 10:.1f},{number * 3},{mark}"


def _syslog(number: int, at: datetime, mark: str) -> str:
    return f"{at:%b %d %H:%M:%S} gpu-1 trainer[4711]: epoch 1 step {number}/90000 took {number % 50}ms uid {mark}"


def _bar(number: int, at: datetime, mark: str) -> str:
    frames = "\r".join(
        f"Train:  {10 * tenth}%|{'#' * tenth:<10}| {tenth}/10 [00:0{tenth}<00:09,  1.00it/s]" for tenth in range(10)
    )
    return f"{frames}\rTrain: 100%|##########| 10/10 [00:10<00:00,  1.00it/s] uid {mark}"


def _engine(number: int, at: datetime, mark: str) -> str:
    return (
        f"INFO {at:%m-%d %H:%M:%S} [loggers.py:127] Engine 000: Avg prompt throughput: {number % 90}.0 tokens/s, "
        f"Avg generation throughput: 20.0 tokens/s, Running: {number % 7} reqs, Waiting: 0 reqs, GPU KV cache usage: "
        f"{number % 90}.2%, Prefix cache hit rate: 1.0% uid {mark}"
    )


def _traceback(number: int, at: datetime, mark: str) -> str:
    return (
        f"{at:%Y-%m-%d %H:%M:%S} WARNING batch {number} is skipped\nTraceback (most recent call last):\n"
        f'  File "/srv/run/data.py", line {number % 300}, in read\n    return self.rows[at]\n'
        f"IndexError: list index out of range uid {mark}"
    )


def _coloured(number: int, at: datetime, mark: str) -> str:
    return f"\x1b[36m(trainer pid=81, ip=10.0.0.1)\x1b[0m {at:%H:%M:%S} step={number} loss=\x1b[1m2.5\x1b[0m uid={mark}"


def _bare(number: int, at: datetime, mark: str) -> str:
    return f"iter {number}: loss 2.{number % 100:02d}, time 31{number % 10}.00ms uid {mark}"


def _pairs(number: int, at: datetime, mark: str) -> str:
    return f'time={at.isoformat()}Z level=info msg="step done" step={number} step_time=0.{number % 9}1 uid={mark}'


def _updates(number: int, at: datetime, mark: str) -> str:
    sides = (("client.send", ""), ("rpc.start", ""), ("rpc.done", " rpc_ms=80.0"), ("client.done", " wall_ms=90.0"))
    side, values = sides[number % 4]
    return f"{at:%Y-%m-%d %H:%M:%S} INFO [weights][{number // 4:06x}] {side}{values} t={number}.5 uid={mark}"


def _composed(number: int, at: datetime, mark: str) -> str:
    return f"trainer-1  | {at:%Y-%m-%d %H:%M:%S} step {number} finished in 0.{number % 10}s uid {mark}\r"


SHAPES: dict[str, Shape] = {
    "plain": _plain, "json": _json, "table": _table, "syslog": _syslog, "bar": _bar, "engine": _engine,
    "traceback": _traceback, "coloured": _coloured, "bare": _bare, "pairs": _pairs, "updates": _updates,
    "composed": _composed,
}  # fmt: skip
HEADS = {"table": "time,step,loss,tokens,uid\n"}
"""The first line of a file that is empty."""


class _Log:
    def __init__(self, path: str, shape: str, name: str, state: mmap.mmap) -> None:
        self._path, self._shape, self._name, self._state = path, shape, name, state
        self._descriptor = -1
        self._done, self._ends = STATE.unpack_from(state)
        self._ahead_s = 0.0
        self.reopen()

    def reopen(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def step(self, seconds: float) -> None:
        """Sets the clock that the lines show."""
        self._ahead_s += seconds

    def write(self, count: int = 1, pause_s: float = 0.0) -> None:
        """The next lines; with a pause in their middle."""
        text = "".join(f"{self._line(self._done + at)}\n" for at in range(count))
        if self._shape in HEADS and os.fstat(self._descriptor).st_size == 0:
            text = HEADS[self._shape] + text
        data = text.encode()
        if pause_s:
            half = len(text) // 2  # before its mark, which is counted once it is whole
            os.write(self._descriptor, data[:half])
            time.sleep(pause_s)
            data = data[half:]
        os.write(self._descriptor, data)
        self._done += count
        self._ends += text.count("\n")
        STATE.pack_into(self._state, 0, self._done, self._ends)

    def _line(self, number: int) -> str:
        at = _BEGIN + timedelta(seconds=self._ahead_s + number / 20)
        return SHAPES[self._shape](number, at, f"{self._name}-{number:07d}")


def main(path: str, shape: str, name: str, rate: str, state: str) -> None:
    """Writes until its standard input ends, and answers commands: hold, go, reopen, step SECONDS, burst COUNT."""
    with open(state, "r+b") as file:
        log = _Log(path, shape, name, mmap.mmap(file.fileno(), STATE.size))
    chance = random.Random(name)
    held, due = False, time.monotonic()
    while True:
        if not select.select([0], [], [], None if held else max(0.0, due - time.monotonic()))[0]:
            log.write(1, _HALF_S if chance.randrange(_HALF_EVERY) == 0 else 0.0)
            due = max(due + 1.0 / float(rate), time.monotonic() - 1.0)
            continue
        command, _, value = os.read(0, 100).decode().strip().partition(" ")
        if command == "reopen":
            log.reopen()
        elif command == "step":
            log.step(float(value))
        elif command == "burst":
            for _ in range(int(value) // 100):
                log.write(100)
        elif command in ("hold", "go"):
            held = command == "hold"
        else:
            return
        os.write(1, b"done\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
