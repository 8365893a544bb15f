"""The names that signatures speak of, and those that there are: metrics, spans, marks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from .conditions import Condition
from .conditions.advances import Advances
from .conditions.aggregate import Aggregate
from .conditions.alternatives import AnyOf
from .conditions.baseline import Baseline
from .conditions.coincides import Coincides
from .conditions.drift import Drift
from .conditions.fits import Fits
from .conditions.grows import Grows
from .conditions.jump import Jump
from .conditions.lasts import Lasts
from .conditions.nonfinite import NonFinite
from .conditions.outweighs import Outweighs
from .conditions.overlong import Overlong
from .conditions.peers import Peers
from .conditions.periodic import Periodic
from .conditions.ratio import Ratio
from .conditions.ready import WasReady
from .conditions.takes import Takes
from .conditions.tells import Tells
from .conditions.threshold import Threshold
from .conditions.together import AllOf
from .conditions.trickle import Trickle
from .conditions.unchanged import Unchanged
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


def every_condition(conditions: Iterable[Condition]) -> Iterator[Condition]:
    """The conditions, those inside of others after them."""
    for condition in conditions:
        yield condition
        if isinstance(condition, (AnyOf, AllOf)):
            yield from every_condition(condition.of)


def condition_metrics(condition: Condition) -> list[str]:
    """Metrics (marks of an aggregate are none) that a condition looks at."""
    if isinstance(condition, (Threshold, Grows, Jump, Lasts, NonFinite, Peers, Periodic)):
        return [condition.metric]
    if isinstance(condition, Drift):
        return [condition.metric, *condition.same]
    if isinstance(condition, Fits):
        return [*condition.metrics, condition.whole]
    if isinstance(condition, Trickle):
        return [condition.metric, condition.per]
    if isinstance(condition, Unchanged):
        return list(condition.metrics)
    if isinstance(condition, (Outweighs, Ratio)):
        return [condition.metric, condition.over]
    if isinstance(condition, Aggregate):
        return [condition.metric] if condition.of == "metric" else []
    if isinstance(condition, Advances):
        return [condition.busy] if condition.busy else []
    if isinstance(condition, Coincides):
        return [condition.metric] if condition.metric else []
    return []


def condition_spans(condition: Condition) -> list[str]:
    """Span kinds that a condition looks at, or names of any kind."""
    if isinstance(condition, Tells):
        return list(condition.names)
    if isinstance(condition, Periodic):
        return list(condition.apart_from)
    if isinstance(condition, Overlong):
        return [kind for kind, _ in condition.built_in]
    if isinstance(condition, (Coincides, Takes, WasReady)):
        return [condition.span]
    if isinstance(condition, Baseline):
        return [condition.span, *([condition.apart_from] if condition.apart_from else [])]
    return []


def metrics_of(signature: Signature) -> list[str]:
    """Metrics that decide: of subjects, conditions and lost time."""
    names = [name for subject in signature.subjects for name in own_values(subject)]
    names += [name for c in every_condition(signature.conditions) for name in condition_metrics(c)]
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
