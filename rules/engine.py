"""Finds the signatures in a run.

A pure function of what was observed: the same observations give the same findings, however they arrived. Every
signature's items are judged in event time; occurrences that come often enough make a finding with a life.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from perfmon.ledger import Window, union
from perfmon.model import Severity

from .conditions.base import Level
from .conditions.baseline import Baseline, undisturbed_median
from .schema import Lost, Signature
from .subjects import items_of
from .view import Item, View

_UNSURE_RANK = 10.0
_LOOKED_AT = 20


@dataclass(slots=True)
class Occurrence:
    """An item for which a signature's conditions hold."""

    item: Item
    level: Level
    unsure: bool
    """A required condition could not be observed."""


@dataclass(slots=True)
class Found:
    """A finding before it is put in words."""

    signature: Signature
    identity: dict[str, str]
    occurrences: list[Occurrence]
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

    def best(self, view: View) -> tuple[Occurrence, list[Level]]:
        """The occurrence in which most conditions hold, and how far each does; of many, a few worst are looked at."""
        worst = sorted(self.occurrences, key=lambda o: (-o.level, o.unsure, o.item.start - o.item.end, o.item.start))
        judged = [(o, [c.judge(o.item, view) for c in self.signature.conditions]) for o in worst[:_LOOKED_AT]]
        return max(judged, key=lambda pair: sum(level > Level.NO for level in pair[1]))

    established: bool = True
    """Some finding of this signature has all its required conditions observed."""

    @property
    def rank(self) -> float:
        """Precedence; a signature whose conditions were never all observed yields to one whose were."""
        return self.signature.rank + (0.0 if self.established else _UNSURE_RANK)


def find(signatures: Iterable[Signature], view: View) -> list[Found]:
    """All findings, strongest cause first."""
    found: list[Found] = []
    for signature in signatures:
        if all(_has(name, view) for name in signature.requires):
            found += _judge(signature, view)
    found.sort(key=lambda finding: (finding.rank, finding.first, sorted(finding.identity.items())))
    _explain(found)
    return found


def _has(name: str, view: View) -> bool:
    return bool(view.spans(name)) or name in view.metrics or name in view.marks or name in view.steps


def _judge(signature: Signature, view: View) -> list[Found]:
    items, total = items_of(signature, view)
    groups: dict[tuple[tuple[str, str], ...], list[Occurrence]] = {}
    for item in items:
        occurrence = _occurrence(signature, item, view)
        if occurrence is not None:
            groups.setdefault(_identity(signature, item, view), []).append(occurrence)
    if len(groups) == 2 and () in groups:
        # Lines that do not say which one they are about speak of the only one there is.
        only = next(identity for identity in groups if identity)
        groups = {only: sorted(groups[only] + groups[()], key=lambda occurrence: occurrence.item.start)}
    found = []
    for identity, occurrences in sorted(groups.items()):
        finding = _finding(signature, dict(identity), occurrences, total, view)
        if finding is not None:
            found.append(finding)
    established = any(not occurrence.unsure for finding in found for occurrence in finding.occurrences)
    for finding in found:
        finding.established = established
    return found


def _occurrence(signature: Signature, item: Item, view: View) -> Occurrence | None:
    level, unsure = Level.CRITICAL, False
    for condition in signature.conditions:
        if not condition.required:
            continue
        held = condition.judge(item, view)
        if held == Level.NO or (held == Level.UNKNOWN and not condition.optional):
            return None
        if held == Level.UNKNOWN:
            unsure = True
        else:
            level = min(level, held)
    return Occurrence(item, level, unsure)


def _identity(signature: Signature, item: Item, view: View) -> tuple[tuple[str, str], ...]:
    identity = []
    for name in signature.identity:
        if name == "source":
            identity.append((name, view.store.sources[item.source].spec))
        elif name == "group" and item.group:
            identity.append((name, item.group))
        elif name in item.fields:
            identity.append((name, str(item.fields[name])))
    return tuple(identity)


def _finding(
    signature: Signature, identity: dict[str, str], occurrences: list[Occurrence], total: int, view: View
) -> Found | None:
    worst = sum(occurrence.level == Level.CRITICAL for occurrence in occurrences)
    critical = worst >= signature.critical_count[0]
    if not critical and not _clustered(occurrences, signature, view):
        return None
    first = min(occurrence.item.start for occurrence in occurrences)
    last = max(occurrence.item.end for occurrence in occurrences)
    if last - first < signature.for_s:
        return None
    severity = signature.severity if critical or signature.severity == Severity.INFO else Severity.WARNING
    state = "firing" if view.window[1] - last <= signature.keep_firing_for_s else "resolved"
    found = Found(signature, identity, occurrences, total, severity, state, first, last)
    found.claims = _claims(signature, found, view)
    return found


def _clustered(occurrences: Sequence[Occurrence], signature: Signature, view: View) -> bool:
    """Whether m of some n neighbouring items occurred: `2 of the last 3 updates`."""
    least, of = signature.for_count
    if len(occurrences) < least:
        return False
    every = _all_times(signature, view)
    if not every:
        return True
    position = {time: at for at, time in enumerate(every)}
    hits = [position.get(occurrence.item.end, at) for at, occurrence in enumerate(occurrences)]
    return any(hits[at + least - 1] - hits[at] < of for at in range(len(hits) - least + 1))


def _all_times(signature: Signature, view: View) -> list[float]:
    for subject in signature.subjects:
        if subject.kind == "span" and view.spans(subject.name):
            return sorted({item.end for item in view.spans(subject.name)})
        if subject.kind == "metric" and len(view.track(subject.name)):
            return sorted(set(view.track(subject.name).times))
    return []


# --- lost time ------------------------------------------------------------------------------------------------
def _claims(signature: Signature, found: Found, view: View) -> list[Window]:
    lost = signature.lost
    if lost is None:
        return []
    if lost.spans and view.spans(lost.spans):
        spans = view.overlapping(lost.spans, found.first - 1e-6, found.last + 1e-6)
        return union((item.start, item.end) for item in spans)
    if lost.share or lost.fraction:
        return _shared(lost, found, view)
    limit = _limit(lost, signature, view)
    return union(_leg(lost, occurrence.item, limit, view) for occurrence in found.occurrences)


def _limit(lost: Lost, signature: Signature, view: View) -> float:
    """Seconds of an occurrence that are not lost."""
    if lost.baseline:
        for condition in signature.conditions:
            for part in getattr(condition, "of", (condition,)):
                if isinstance(part, Baseline):
                    usual = undisturbed_median(view, part.span, part.apart_from)
                    if usual is not None:
                        return usual
    band = view.bands.get(lost.beyond)
    if band is None:
        return 0.0
    return band.good / 1000.0 if lost.beyond.partition(".")[0].endswith("_ms") else band.good


def _leg(lost: Lost, item: Item, limit: float, view: View) -> Window:
    queue_s = item.values.get("queue_ms", 0.0) / 1000.0
    if lost.leg == "queue":
        return (item.start + limit, item.start + queue_s)
    if lost.leg == "rpc":
        rpc_s = next((v for k, v in item.values.items() if k.startswith("rpc_ms")), 0.0) / 1000.0
        band = view.bands.get(next((k for k in item.values if k.startswith("rpc_ms")), "rpc_ms"))
        good = band.good / 1000.0 if band is not None else limit
        return (item.start + queue_s + good, item.start + queue_s + rpc_s)
    return (item.start + limit, item.end)


def _shared(lost: Lost, found: Found, view: View) -> list[Window]:
    """Of the time before each sample, the part that was lost, laid at its end."""
    windows: list[Window] = []
    before: dict[str, float] = {}
    for occurrence in found.occurrences:
        item = occurrence.item
        track = view.track(next(iter(item.values)))
        at = track.between(item.end, item.end)[0]
        start = track.times[at - 1] if at > 0 else view.window[0]
        start = max(start, before.get("", float("-inf")))
        part = _part(lost, item, view)
        if part > 0 and item.end > start:
            windows.append((item.end - part * (item.end - start), item.end))
        before[""] = item.end
    return union(windows)


def _part(lost: Lost, item: Item, view: View) -> float:
    def value(metric: str) -> float:
        own = item.values.get(metric)
        if own is not None:
            return own
        track = view.track(metric)
        at = track.between(float("-inf"), item.end)[1] - 1
        return track.values[at] if at >= 0 else 0.0

    if lost.share:
        return min(1.0, value(lost.share) / 100.0)
    whole = sum(value(metric) for metric in lost.fraction)
    return value(lost.fraction[0]) / whole if whole > 0 else 0.0


# --- chains ---------------------------------------------------------------------------------------------------
def _explain(found: list[Found]) -> None:
    """Links each finding to the one that explains it: by the causes its signature names."""
    for at, finding in enumerate(found):
        for cause in finding.signature.causes:
            for other_at, other in enumerate(found):
                if other.signature.id != cause.signature or other.rank >= finding.rank:
                    continue
                if _same(finding, other, cause.match):
                    finding.explained_by = other_at
                    break
            if finding.explained_by is not None:
                break


def _same(finding: Found, other: Found, match: str) -> bool:
    """At least half of the occurrences of `finding` share a key, or time, with one of `other`."""
    if match == "key":
        keys = {occurrence.item.key for occurrence in other.occurrences} - {""}
        hits = sum(occurrence.item.key in keys for occurrence in finding.occurrences)
    else:
        spans = union((o.item.start, max(o.item.end, o.item.start + 1e-6)) for o in other.occurrences)
        hits = sum(any(a <= o.item.end and b >= o.item.start for a, b in spans) for o in finding.occurrences)
    return 2 * hits >= len(finding.occurrences) and hits > 0
