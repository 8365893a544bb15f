"""A run of the lab that is over: its logs, when what was in them, and the truth; as a folder or as one small file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Arrival:
    """A log had grown to so many bytes."""

    at_s: float
    """Seconds since the start of the run."""
    log: str
    size: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """Everything that is needed to judge a run again."""

    logs: Mapping[str, bytes]
    arrivals: tuple[Arrival, ...]
    truth: Mapping[str, Any]

    @classmethod
    def of_folder(cls, folder: Path) -> Recorded:
        """What `python -m lab` left; raises OSError."""
        logs = {path.name: path.read_bytes() for path in sorted((folder / "logs").iterdir())}
        result = (json.loads(line) for line in (folder / "arrivals.jsonl").read_text("utf-8").splitlines())
        truth = json.loads((folder / "truth.json").read_text("utf-8"))
        return cls(logs, tuple(Arrival(*row) for row in result), truth)

    @classmethod
    def read(cls, path: Path) -> Recorded:
        """One small file, as `write` makes it."""
        result = json.loads(gzip.decompress(path.read_bytes()))
        logs = {name: text.encode("latin-1") for name, text in result["logs"].items()}
        return cls(logs, tuple(Arrival(*row) for row in result["arrivals"]), result["truth"])

    def without(self, path: Path) -> Recorded:
        """With a path of this machine, which tracebacks hold, replaced by one of the same length."""
        mine = str(path).encode()
        other = (b"/srv" + b"/run" * len(mine))[: len(mine)]
        return replace(self, logs={name: data.replace(mine, other) for name, data in self.logs.items()})

    def write(self, path: Path) -> None:
        """The same run gives the same bytes."""
        result = {
            "truth": dict(self.truth),
            "arrivals": [[arrival.at_s, arrival.log, arrival.size] for arrival in self.arrivals],
            "logs": {name: data.decode("latin-1") for name, data in self.logs.items()},
        }
        path.write_bytes(gzip.compress(json.dumps(result).encode(), mtime=0))
