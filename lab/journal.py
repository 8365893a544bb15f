"""What the lab itself knows: stretches of time by its own clock, apart from any log and from perfmon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .clocks import true_monotonic


class Journal:
    """Writes stretches, in seconds since the run's start."""

    def __init__(self, folder: Path, who: str, started: float) -> None:
        self._file = (folder / f"{who}.jsonl").open("a", encoding="utf-8", buffering=1)
        self._started = started

    def close(self) -> None:
        """Nothing more is to come."""
        self._file.close()

    def now(self) -> float:
        """Seconds since the run's start."""
        return true_monotonic() - self._started

    def stretch(self, kind: str, start: float, end: float, **more: object) -> None:
        """Something lasted."""
        result = {"kind": kind, "start": round(start, 4), "end": round(end, 4), **more}
        self._file.write(json.dumps(result) + "\n")

    @contextmanager
    def during(self, kind: str, **more: object) -> Iterator[None]:
        """Something lasts; what is broken off is told as such."""
        start = self.now()
        try:
            yield
        except BaseException:
            self.stretch(kind, start, self.now(), **more, broken=True)
            raise
        self.stretch(kind, start, self.now(), **more)
