"""The logs while a run is simulated: lines with their times, dressed as the programs dress them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush

BEGIN = datetime.fromisoformat("2026-11-20T09:00:00")
"""When a built-in run begins, by the clock in its lines, unless another time is wished."""
MONOTONIC_S = 86_412.25
"""What the machine's monotonic clock says then."""
ORCHESTRATOR, INFERENCE, TRAINER = "orchestrator.log", "inference.log", "trainer.log"
_COLOURS = {
    "DEBUG": "\x1b[34m\x1b[1m",
    "INFO": "\x1b[1m",
    "SUCCESS": "\x1b[32m\x1b[1m",
    "WARNING": "\x1b[33m\x1b[1m",
    "ERROR": "\x1b[31m\x1b[1m",
}
_PREFIX = {ORCHESTRATOR: "", TRAINER: "[trainer0]:"}


Line = tuple[float, str, str]
"""(seconds since the run began, log, text)."""


class Journal:
    """Collects lines in any order of time; the times are seconds since the run began at `begin`, by its own clock."""

    def __init__(self, begin: datetime = BEGIN) -> None:
        self._begin = begin
        self._count = 0
        self._lines: list[tuple[float, int, str, str]] = []

    def say(self, log: str, at: float, level: str, message: str, place: str = "") -> None:
        """A line of the orchestrator or the trainer, coloured as they colour their files."""
        colour = _COLOURS[level]
        suffix = f"{colour}\x1b[22m [{place}]\x1b[0m\x1b[0m" if place else ""
        head = f"{_PREFIX[log]}\x1b[2m{self._moment(at):%H:%M:%S}\x1b[0m {colour}{level:>7}\x1b[0m"
        self._put(log, at, f"{head} {colour}\x1b[22m{message}\x1b[0m\x1b[0m{suffix}")

    def serve(self, at: float, place: str, message: str) -> None:
        """A line of the inference server."""
        self._put(INFERENCE, at, f"(APIServer pid=412) INFO {self._moment(at):%m-%d %H:%M:%S} [{place}] {message}")

    def access(self, at: float, request: str) -> None:
        """An access line of the inference server, which has no clock."""
        self._put(INFERENCE, at, f'(APIServer pid=412) INFO:     10.0.0.3:53122 - "{request} HTTP/1.1" 200 OK')

    def cut(self, at: float) -> None:
        """Forgets what is later than `at`."""
        self._lines = [line for line in self._lines if line[0] <= at]
        heapify(self._lines)

    def take(self, until: float = math.inf) -> Iterator[Line]:
        """Takes out what was printed up to `until`, in the order of time; nothing earlier may be told any more."""
        while self._lines and self._lines[0][0] <= until:
            at, _, log, text = heappop(self._lines)
            yield at, log, text

    def texts(self) -> dict[str, str]:
        """Content of each log, its lines in the order of their times."""
        texts: dict[str, list[str]] = {ORCHESTRATOR: [], INFERENCE: [], TRAINER: []}
        for _, _, log, line in sorted(self._lines):
            texts[log].append(f"{line}\n")
        return {log: "".join(lines) for log, lines in texts.items()}

    def _put(self, log: str, at: float, text: str) -> None:
        # Lines of one moment keep the order in which they were told.
        self._count += 1
        heappush(self._lines, (at, self._count, log, text))

    def _moment(self, at: float) -> datetime:
        return self._begin + timedelta(seconds=at)


def clock(at: float) -> str:
    """A `t=` field."""
    return f"t={MONOTONIC_S + at:.6f}"


def spell_duration(seconds: float) -> str:
    """A duration as prime-rl prints it: `850ms`, `42.3s`, `1m 13s`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 60 else f"{int(seconds // 60)}m {int(seconds % 60)}s"
