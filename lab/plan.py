"""What a process of the lab is told: where, when, which faults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .clocks import true_monotonic
from .faults import FAULTS, knobs
from .settings import Knobs


@dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    out: str
    seed: int = 0
    seconds: float = 60.0
    faults: tuple[str, ...] = ()
    begins_s: float = 0.0
    """When faults begin, in seconds after `started`."""
    attempt: int = 0
    """How often the process that is told has been started before."""
    started: float = 0.0
    """The moment that all is counted from, on the machine's monotonic clock."""
    port: int = 0
    link: str = ""
    """The producer's address on the link to the streamer's host; empty: they share a host."""
    turns: Mapping[str, object] = field(default_factory=dict)
    """Knobs, by name, that are turned all the time, whatever the faults say."""
    setting: Mapping[str, object] = field(default_factory=dict)
    """Knobs, by name, of the run in which faults begin."""
    strength: Mapping[str, object] = field(default_factory=dict)
    """How far faults turn their knobs, by name; others as far as they always do."""
    emit: bool = True
    """The run tells what it does, in lines for perfmon."""

    @property
    def folder(self) -> Path:
        """Where everything of the run is."""
        return Path(self.out)

    @property
    def url(self) -> str:
        """The inference server's address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def clock_s(self) -> float:
        """How far the server's clocks are ahead."""
        return sum(FAULTS[name].clock_s for name in self.faults)

    @property
    def pipeline(self) -> bool:
        """The processes are those of a pipeline."""
        return any(FAULTS[name].pipeline for name in self.faults)

    def knobs(self) -> Knobs:
        """How everything is turned now."""
        begun = true_monotonic() - self.started >= self.begins_s
        on = (name for name in self.faults if begun or FAULTS[name].from_start)
        return knobs(on, self.turns, self.faults, self.setting, self.strength)

    def write(self, path: Path) -> None:
        """For the processes."""
        path.write_text(json.dumps(asdict(self)), "utf-8")

    @classmethod
    def read(cls, path: Path) -> Plan:
        """In a process."""
        result = json.loads(path.read_text("utf-8"))
        return cls(**{**result, "faults": tuple(result["faults"])})
