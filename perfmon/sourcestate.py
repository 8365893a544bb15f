"""What is known of one log."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .model import Gap

_MAX_GAPS = 4096
_MAX_NOTES = 8
_LATE_LINES = 200
_COARSE_S = 1.5
"""So many lines late a line may come, and so much earlier it is no late one: see `perfmon.sources.silence`."""


@dataclass(slots=True)
class SourceState:
    """What is known of one log."""

    spec: str
    index: int
    bytes: int = 0
    lines: int = 0
    events: int = 0
    skipped: int = 0
    errors: int = 0
    first: float | None = None
    """Seconds on the log's own axis."""
    last: float | None = None
    kind: int | None = None
    """Kind of its stamps (EPOCH, LOCAL, YEARLESS, DAYTIME), None when it has only `t=` or no clock."""
    monotonic: bool = False
    mono_to_wall: float | None = None
    stepped_back: int = 0
    stepped: int = 0
    """How often its clock was set and that was taken out: see `perfmon.clocksteps`."""
    pseudo: float = 0.0
    """Clock of a log without any clock: the durations that its lines reported, added up in order."""
    undated: bool = False
    """Something was told before any line told a time: the first time that is told dates it."""
    gaps: list[Gap] = field(default_factory=list)
    """Stretches of 10 s and more without a dated line."""
    patterns: Counter[int] = field(default_factory=Counter)
    """Lines per pattern index."""
    notes: list[str] = field(default_factory=list)
    components: set[str] = field(default_factory=set)
    idle_silence: bool = False
    polled: bool = False
    """Its lines are a poller's: what it tells counts, but that it goes on says nothing about the run."""
    ahead_s: float | None = None
    """Of such a log: seconds to add to its axis to get the run's, as the arrivals of its lines told; None: unknown."""
    ended: bool = False
    written_then: bool | None = None
    """Its file was last written when its last line was printed; None: nobody knows. See `perfmon.filetimes`."""
    midnight: float = 0.0
    """Then: the midnight from which a log without dates counts, in seconds since 1970 by the clock of its zone."""
    zone_s: float = 0.0
    """By how much that clock is ahead of UTC."""
    held_s: float = 0.0
    """Seconds for which its lines are held back before they come, as who watches it sees; they come in bursts then."""
    murmurs: bool = False
    """More came after its last dated line, which told no time."""
    clocked: bool = False
    """Some line of it has a clock."""
    tail: float | None = None
    """Time of the last dated line, on the log's own axis."""
    last_line: tuple[int, str] = (0, "")
    """Its number and text."""
    latest: float | None = None
    """The latest time of its last lines: some come late."""
    latest_line: tuple[int, str] = (0, "")

    @property
    def clockless(self) -> bool:
        """No line of it has a clock."""
        return not self.clocked

    def note(self, text: str) -> None:
        """Remembers something odd, the first few of its kind."""
        if len(self.notes) < _MAX_NOTES and text not in self.notes:
            self.notes.append(text)

    def heard(self, time: float, line: tuple[int, str]) -> None:
        """One of the last dated lines (number, text); of those the latest counts."""
        if not self._is_behind(time, line):
            self.latest, self.latest_line = time, line

    def reached(self, time: float, line: tuple[int, str]) -> tuple[float, tuple[int, str]]:
        """How far the log was at that line, by those before it too; and the line that says so."""
        return (self.latest, self.latest_line) if self._is_behind(time, line) and self.latest else (time, line)

    def _is_behind(self, time: float, line: tuple[int, str]) -> bool:
        near = line[0] - self.latest_line[0] <= _LATE_LINES
        return self.latest is not None and near and time < self.latest - _COARSE_S

    def quiet(self, start: float, end: float, line: tuple[int, str], upto: int = 0) -> None:
        """A stretch without a dated line, after `line` (number, text) and up to line `upto`."""
        self.gaps.append(Gap(start, end, *line, upto))
        if len(self.gaps) > _MAX_GAPS:
            self.gaps = sorted(sorted(self.gaps, key=lambda gap: gap.start - gap.end)[: _MAX_GAPS // 2], key=_start)


def _start(gap: Gap) -> float:
    return gap.start
