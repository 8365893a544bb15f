"""The names that signatures speak of, and those that there are: metrics, spans, marks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from .conditions import every_condition
from .goals import LIMIT_VALUES
from .items import SPAN_METRICS, UPDATE, UPDATE_METRICS
from .opened import OPEN_VALUES
from .schema import Signature, Subject
from .sentences import slots

_DEATH_VALUES = ("duration_s", "known")
_QUIET_VALUES = ("usual_s", "proven_s", "ended", "duration_s")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the format packs can tell of."""

    metrics: frozenset[str]
    spans: frozenset[str]
    marks: frozenset[str]

    def tells(self, metric: str) -> bool:
        """Whether there is such a metric; one of an operation (`rpc_ms.load`) is known by what it is one of."""
        return metric in self.metrics or metric.partition(".")[0] in self.metrics

    def near(self, name: str) -> str:
        """`, did you mean NAME?` with the name that was perhaps meant; "" where none is near."""
        found = get_close_matches(name, self.every, 1, 0.75)
        return f", did you mean {found[0]}?" if found else ""

    @property
    def every(self) -> frozenset[str]:
        """All names."""
        return self.metrics | self.spans | self.marks


def metrics_of(signature: Signature) -> list[str]:
    """Metrics that decide: of subjects, conditions and lost time."""
    names = [name for subject in signature.subjects for name in own_values(subject)]
    names += [name for c in every_condition(signature.conditions) for name in c.metric_names()]
    return [*names, signature.lost.beyond] if signature.lost and signature.lost.beyond else names


def own_values(subject: Subject) -> tuple[str, ...]:
    """The values that an item of a subject carries itself."""
    if subject.kind in ("quiet", "absence"):
        return _QUIET_VALUES
    if subject.kind == "failure":
        return _DEATH_VALUES
    if subject.kind == "limit":
        return LIMIT_VALUES
    if subject.kind == "open":
        return OPEN_VALUES
    if subject.kind != "span":
        return (subject.name,)
    return UPDATE_METRICS if subject.name == UPDATE else (SPAN_METRICS.get(subject.name, ("duration_s", 1.0))[0],)


def sentence_slots(signature: Signature) -> Iterator[tuple[str, str, bool]]:
    """(key, slot, must be filled) of all its sentences."""
    for name, required in slots(signature.sentence):
        yield "sentence", name, required
    for at, subject in enumerate(signature.subjects):
        for name, required in slots(subject.sentence):
            yield f"on[{at}].sentence", name, required
