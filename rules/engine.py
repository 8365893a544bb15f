"""Finds the signatures in a run.

A pure function of what was observed: the same observations give the same findings, however they arrived. The items of
each signature are evaluated one by one in event time; those for which all required conditions hold are its
occurrences. Those of one identity make a finding once they are frequent and long enough, with the state of its life at
the end of what was observed:

    pending -> firing -> resolving -> resolved          (see `perfmon.rules.lifecycle`)

Pending findings are listed, but they cost nothing, explain nothing and are never the verdict. `perfmon.rules.causes`
defines the cost of a finding, and which finding explains another or waits for it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from math import ceil

from perfmon.core import Severity, Window, intersection, length, union

from . import causes
from .candidates import Judged, items_of
from .causes import claims, extent
from .conditions import Condition, Level
from .lifecycle import FIRING, RESOLVING, Found, Hypothesis, Lifecycle, Occurrence, track_lifecycle
from .run_facts import Item, View
from .signatures import Signature, Subject

_LONG_S = 1800.0
"""In a run that was observed for less, the share of time does not show what matters."""
_MOSTLY = 0.5
"""Of the time of an item: see `_only_waited`; of the occurrences of a finding: see `_hypotheses`."""
_JUDGED, _NOW, _OFTEN = 500, 20, 0.25
"""Parts of the occurrences by which hypotheses are judged, those of the present, and the share of all that is often
enough."""
Identity = tuple[tuple[str, str], ...]


def find(signatures: Iterable[Signature], view: View) -> list[Found]:
    """All findings, strongest cause first."""
    fitting = [signature for signature in signatures if not view.has_any(signature.unless)]
    found = [finding for signature in fitting for finding in _judge(signature, view)]
    causing = [signature for signature in fitting if signature.explains]
    for finding in sorted(found, key=lambda one: one.rank):  # what explains the cause of a symptom explains both
        found += _hypotheses(finding, causing, {one.signature.id for one in found}, view)
    found.sort(key=lambda finding: (finding.rank, finding.first, sorted(finding.identity.items())))
    _weigh(found, view)
    causes.suppress_premature(found, view)
    causes.explain(found, view)
    return found


def _weigh(found: Sequence[Found], view: View) -> None:
    """Lower the severity of findings that cost little: one slow checkpoint in nine hours is not critical.

    Nor is a short pause: it may be an evaluation or a save without a line.
    """
    for finding in found:
        if not finding.signature.brief_s:
            continue
        lasted = length(union((one.item.start, one.item.end) for one in finding.occurrences))
        if lasted <= finding.signature.brief_s and finding.severity is Severity.CRITICAL:
            finding.severity = Severity.WARNING
    if view.observed_s < _LONG_S:
        return
    costs: dict[str, list[Window]] = {}
    for finding in found:
        costs.setdefault(finding.signature.id, []).extend(finding.claims)
    for finding in found:
        lost, costing = length(union(costs[finding.signature.id])), finding.signature.lost
        least = costing.critical_share / 100.0 * view.observed_s if costing is not None else 0.0
        slight = finding.signature.kind == "bottleneck" and 0.0 < max(lost, causes.queued_s(finding, view)) < least
        if slight and finding.severity is Severity.CRITICAL:
            finding.severity = Severity.WARNING


def _hypotheses(finding: Found, signatures: Iterable[Signature], known: Container[str], view: View) -> list[Found]:
    """Judge the occurrences of a finding by the signatures that may explain it; those that do are findings, too.

    Those whose id is `known` are findings already. A new one has the time and the state of the one that it explains,
    and many of its occurrences, or most of the newest: what held it up once in an hour explains nothing.
    """
    causes: list[Found] = []
    for signature in signatures:
        if finding.signature.id not in signature.explains:
            continue
        parts = _parts(finding.occurrences)
        levels = [tuple(one.judge(part[-1].item, view) for one in signature.conditions) for part in parts]
        judged = [Hypothesis(signature, part[-1].item, held) for part, held in zip(parts, levels, strict=True)]
        proven = [part for part, one in zip(parts, judged, strict=True) if one.proven]
        kept = [occurrence for part in proven for occurrence in part]
        often = len(proven) >= _OFTEN * len(judged) or _most(one.proven for one in judged[-_NOW:])
        refuted = _most(one.refuted for one in judged[-_NOW:])
        alike = [one for one in judged if (one.proven if often else one.refuted == refuted and not one.proven)]
        finding.hypotheses.append((alike or judged)[-1])
        own = any(subject.kind != "finding" for subject in signature.subjects)  # it finds its time itself
        if finding.counts and often and not own and signature.id not in known:
            causes.append(_explaining(signature, finding, kept, view))
    finding.hypotheses.sort(key=lambda one: one.likelihood, reverse=True)
    return causes


def _parts(occurrences: list[Occurrence]) -> list[list[Occurrence]]:
    """The occurrences in order, each of the present alone, earlier ones of a long run together: the last one of a part
    stands for it."""
    earlier = max(0, len(occurrences) - _NOW)
    size = max(1, ceil(earlier / (_JUDGED - _NOW)))
    parts = [occurrences[at : min(at + size, earlier)] for at in range(0, earlier, size)]
    return parts + [[occurrence] for occurrence in occurrences[earlier:]]


def _most(held: Iterable[bool]) -> bool:
    every = list(held)
    return sum(every) >= _MOSTLY * len(every)


def _explaining(signature: Signature, finding: Found, kept: list[Occurrence], view: View) -> Found:
    of = finding.signature.id
    subject = next(one for one in signature.subjects if one.kind == "finding" and of in one.name.split("|"))
    over = finding.state == FIRING and kept[-1] is not finding.occurrences[-1]
    cause = Found(
        signature=signature,
        subject=subject,
        identity=finding.identity,
        occurrences=kept,
        total=finding.total,
        severity=min(finding.severity, signature.severity, key=lambda one: one.rank),
        state=RESOLVING if over else finding.state,
        first=min(occurrence.item.start for occurrence in kept),
        last=max(occurrence.item.end for occurrence in kept),
        since=max(finding.since, min(occurrence.item.start for occurrence in kept)),
    )
    cause.claims = claims(replace(cause, signature=finding.signature, subject=finding.subject), view)
    return cause


def _judge(signature: Signature, view: View) -> list[Found]:
    """Findings by the first subject that the run has data for, else by those that are evaluated too."""
    has_data, found = False, list[Found]()
    for subject in signature.subjects:
        proven = any(finding.counts for finding in found)
        if proven or (has_data and not subject.also) or subject.kind == "finding":
            continue
        judged = items_of(subject, signature, view)
        has_data = has_data or judged.total > 0
        more = _findings(signature, subject, judged, view)
        found = more if not found or any(finding.counts for finding in more) else found
    established = any(not occurrence.unsure for finding in found for occurrence in finding.occurrences)
    for finding in found:
        finding.established = established
    return found


def _findings(signature: Signature, subject: Subject, judged: Judged, view: View) -> list[Found]:
    groups: dict[Identity, list[Occurrence]] = {}
    required = sorted((one for one in signature.conditions if one.must_hold), key=lambda one: one.costly)
    for item in judged.items:
        occurrence = _occurrence(required, item, view)
        if occurrence is not None and not _only_waited(signature, subject, item, view):
            groups.setdefault(_identity(signature, item, view), []).append(occurrence)
    if len(groups) == 2 and () in groups:
        # Lines that name none are about the only one there is.
        only = next(identity for identity in groups if identity)
        groups = {only: groups[only] + groups[()]}
    count = subject.critical_count or signature.critical_count
    found = []
    for identity, occurrences in sorted(groups.items()):
        occurrences.sort(key=lambda occurrence: (occurrence.item.start, occurrence.item.end))
        life = track_lifecycle(occurrences, judged.streams, signature, count, view.window[1])
        if life is not None:
            if subject.kind == "failure":
                life.state = FIRING  # time alone ends no death: work after it would have refuted it
            found.append(_finding(signature, subject, dict(identity), life, judged.total))
    for finding in found:
        finding.claims = claims(finding, view)
    return found


def _only_waited(signature: Signature, subject: Subject, item: Item, view: View) -> bool:
    """For most of its time no process was left that could have continued: that is the cost of the death.

    A fault that does not depend on a running process (a full disk) still counts.
    """
    slows = signature.kind == "bottleneck" or subject.kind in ("span", "absence")
    if not slows or not view.interrupted:
        return False
    low, high = extent(item, view)
    return high > low and length(intersection([(low, high)], view.interrupted)) > _MOSTLY * (high - low)


def _occurrence(conditions: Sequence[Condition], item: Item, view: View) -> Occurrence | None:
    level, unsure = Level.CRITICAL, False
    for condition in conditions:
        held = condition.judge(item, view)
        if held is Level.NO or (held is Level.UNKNOWN and condition.if_missing == "fail"):
            return None
        if held is Level.UNKNOWN:
            unsure = True
        else:
            level = min(level, held)
    return Occurrence(item, level, unsure, any(condition.unfinished(item, view) for condition in conditions))


def _identity(signature: Signature, item: Item, view: View) -> Identity:
    identity = []
    for name in signature.identity:
        if name == "source":
            if 0 <= item.source < len(view.store.sources):
                identity.append((name, view.store.sources[item.source].spec))
        elif (name == "group" and item.group) or (name == "rank" and item.group.isdecimal()):
            identity.append((name, item.group))
        elif item.fields.get(name) not in (None, ""):
            identity.append((name, str(item.fields[name])))
    return tuple(identity)


def _finding(signature: Signature, subject: Subject, identity: dict[str, str], life: Lifecycle, total: int) -> Found:
    worst = life.critical or signature.severity is Severity.INFO
    return Found(
        signature=signature,
        subject=subject,
        identity=identity,
        occurrences=life.occurrences,
        total=total,
        severity=subject.severity or signature.severity if worst else Severity.WARNING,
        state=life.state,
        first=min(occurrence.item.start for occurrence in life.occurrences),
        last=max(occurrence.item.end for occurrence in life.occurrences),
        since=life.since,
    )
