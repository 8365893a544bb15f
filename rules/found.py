"""What the engine finds, before it is put in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from perfmon.ledger import Window
from perfmon.model import Severity

from .conditions.base import Level
from .items import Item
from .schema import Signature, Subject
from .view import View

PENDING, FIRING, RESOLVING, RESOLVED = "pending", "firing", "resolving", "resolved"
_UNSURE_RANK = 10.0
_LOOKED_AT = 20


@dataclass(slots=True)
class Occurrence:
    """An item for which a signature's conditions hold."""

    item: Item
    level: Level
    unsure: bool
    """A required condition could not be observed."""
    so_far: bool = False
    """A condition holds only if what goes on goes on for longer."""


@dataclass(slots=True)
class Found:
    """A finding before it is put in words."""

    signature: Signature
    subject: Subject
    identity: dict[str, str]
    occurrences: list[Occurrence]
    """In time order."""
    total: int
    """Items that were judged."""
    severity: Severity
    state: str
    first: float
    last: float
    claims: list[Window] = field(default_factory=list)
    """Seconds that it says it cost, on the run's axis."""
    explained_by: int | None = None
    """Index of the finding that explains this one."""
    established: bool = True
    """Some finding of this signature has all its required conditions observed."""

    @property
    def counts(self) -> bool:
        """It happened: a pending one may yet come to nothing."""
        return self.state != PENDING

    @property
    def rank(self) -> float:
        """Precedence; a signature whose conditions were never all observed yields to one whose were."""
        return self.signature.rank + (0.0 if self.established else _UNSURE_RANK)

    @property
    def sentence(self) -> str:
        """The template that tells it."""
        return self.subject.sentence or self.signature.sentence

    def best(self, view: View) -> tuple[Occurrence, list[Level]]:
        """The occurrence in which most conditions hold, and how far each does; of many, a few worst are looked at."""
        worst = sorted(self.occurrences, key=lambda o: (-o.level, o.unsure, o.item.start - o.item.end, o.item.start))
        judged = [(o, [c.judge(o.item, view) for c in self.signature.conditions]) for o in worst[:_LOOKED_AT]]
        return max(judged, key=lambda pair: sum(level.holds for level in pair[1]))


def share_critical(occurrences: Sequence[Occurrence], total: int) -> float:
    """Share of all judged items that are critical occurrences."""
    return sum(occurrence.level is Level.CRITICAL for occurrence in occurrences) / max(total, 1)
