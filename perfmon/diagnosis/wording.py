"""Findings and the verdict in words: sentences, figures, advice, the chain of causes."""

from __future__ import annotations

from collections.abc import Sequence

from perfmon.core import Progress, Severity, Shares, counted, evidence_text, format_seconds, format_share
from perfmon.rules import Found, View, fill, share_critical
from perfmon.rules.conditions import Level

from .evidence import NEWEST, evidence_lines, moments
from .result import (
    ConditionState,
    Finding,
    Verdict,
)

VERDICT_SHARE = 0.02
QUALITY_SHARE = 0.20


# --- lost time ------------------------------------------------------------------------------------------------
def root_of(found: Sequence[Found], at: int) -> int:
    """The finding at the end of the chain of explanations."""
    seen = {at}
    while True:
        cause = found[at].explained_by
        if cause is None or cause in seen:
            return at
        seen.add(cause)
        at = cause


# --- words ----------------------------------------------------------------------------------------------------
def worded(
    at: int, finding: Found, found: Sequence[Found], shares: Shares, view: View, pattern_names: Sequence[str]
) -> Finding:
    signature = finding.signature
    wall = max(view.observed_s, 1e-9)
    lost = shares.lost.get(at, 0.0)
    cause = finding.explained_by
    conditions = _conditions(finding, view)
    return Finding(
        signature=signature.id,
        title=signature.title,
        severity=finding.severity,
        state=finding.state,
        identity=finding.identity,
        first_s=_within(finding.first, view),
        last_s=_within(finding.last, view),
        count=len(finding.occurrences),
        lost_s=lost,
        lost_share=lost / wall,
        sentence=_sentence(finding, lost, view, found[cause] if cause is not None else None),
        advice=_advice(finding, view, pattern_names),
        evidence=evidence_lines(finding, view),
        confidence=sum(condition.held is True for condition in conditions) / len(conditions),
        conditions=conditions,
        confused_with=signature.confused_with,
        explained_by=found[cause].signature.id if cause is not None else None,
        unseen=tuple(message for missing, message in signature.unseen if _missing(missing, view)),
        moments=moments(finding, view),
        lost=tuple((low - view.window[0], high - view.window[0]) for low, high in shares.kept.get(at, ())[-NEWEST:]),
    )


def _advice(finding: Found, view: View, pattern_names: Sequence[str]) -> tuple[str, ...]:
    """The signature's, or that for the cause of a failure, or for the format of which the finding's lines are."""
    cause = str(finding.occurrences[0].item.fields.get("cause", ""))
    general = finding.signature.advice_by_cause.get(cause, finding.signature.advice)
    special = finding.signature.advice_for
    if not special:
        return general
    logs = {ref.source for occurrence in finding.occurrences for ref, _ in occurrence.item.refs}
    patterns = {at for source in logs for at in view.store.sources[source].patterns}
    packs = {pattern_names[at].partition("/")[0] for at in patterns if at < len(pattern_names)}
    return next((one.advice for one in special if one.pack in packs), general)


def _within(time: float, view: View) -> float:
    """Seconds since the window's start, cut at its start and end."""
    start, end = view.window
    return min(max(time, start), end) - start


def _missing(name: str, view: View) -> bool:
    if name == "server":
        return bool(view.store.updates) and not any(update.recv_t is not None for update in view.store.updates)
    return not view.spans(name) and name not in view.metrics and name not in view.marks


def _sentence(finding: Found, lost: float, view: View, cause: Found | None) -> str:
    items = [occurrence.item for occurrence in finding.occurrences]
    wall = max(view.observed_s, 1e-9)
    known = {
        **{name: str(value) for name, value in items[0].fields.items()},
        "count": str(len(items)),
        "total": str(finding.total),
        "lost": format_seconds(lost),
        "share": format_share(lost / wall),
        "window": format_seconds(wall),
        "level": f"{view.bands.table['staleness'].good:.0f}" if "staleness" in view.bands.table else "",
        "longest": format_seconds(max(item.end - item.start for item in items)),
        "times": counted(len(items), "time") if len(items) > 1 else "",
        **_figures(finding, view),
        **finding.identity,
    }
    text = fill(finding.sentence, {key: evidence_text(value) for key, value in known.items()}, items, view)
    return f"{text} ({cause.signature.title.lower()} is the cause)" if cause is not None else text


def _figures(finding: Found, view: View) -> dict[str, str]:
    """The figures of its conditions for its last occurrence."""
    last = finding.occurrences[-1].item
    figures = (condition.figures(last, view) for condition in finding.signature.conditions)
    return {slot: figure for each in figures for slot, figure in each.items()}


def _conditions(finding: Found, view: View) -> tuple[ConditionState, ...]:
    best, levels = finding.best(view)
    return tuple(
        ConditionState(
            f"{condition.explain()}: {evidence_text(condition.describe(best.item, view))}",
            None if level is Level.UNKNOWN else level.holds,
        )
        for condition, level in zip(finding.signature.conditions, levels, strict=True)
        if condition.role != "gate"
    )


# --- verdict --------------------------------------------------------------------------------------------------
def verdict_among(found: Sequence[Found], findings: Sequence[Finding], shares: Shares, view: View) -> Verdict | None:
    """The verdict: a failure, else a stall, else the costliest root cause, else a fault or bad quality."""
    wall = view.observed_s

    def verdict(at: int, with_cost: bool = True) -> Verdict:
        alike = [seconds for i, seconds in shares.lost.items() if found[i].signature.id == found[at].signature.id]
        return verdict_of(findings[at], sum(alike, 0.0) if with_cost else 0.0, max(wall, 1e-9), _chain(at, found))

    failed = [at for at, finding in enumerate(found) if finding.signature.kind == "failure"]
    if failed:
        return verdict(min(failed, key=lambda at: found[at].rank))
    if view.state.state is Progress.STALLED:
        gaps = [at for at, finding in enumerate(found) if finding.counts and finding.subject.kind == "quiet"]
        hung = [at for at in gaps if found[at].subject.name == "all"]
        if hung:
            return verdict(root_of(found, max(hung, key=lambda at: found[at].last)))
    costly = _roots(found, shares)
    if costly and wall > 0:
        at, cost = max(costly.items(), key=lambda item: (item[1], -found[item[0]].rank, -item[0]))
        if cost >= VERDICT_SHARE * wall:
            return verdict(at)
    for kind in ("fault", "quality"):
        named = [at for at, f in enumerate(found) if f.signature.kind == kind and f.explained_by is None and _often(f)]
        if named:
            return verdict(min(named, key=lambda at: found[at].rank), with_cost=False)
    return None


def _roots(found: Sequence[Found], shares: Shares) -> dict[int, float]:
    """Seconds lost to each root cause, with what it explains: a symptom is never the verdict where its cause is known.

    All findings of a signature count as one; its costliest stands for them.
    """
    groups: dict[str, dict[int, float]] = {}
    for at, finding in enumerate(found):
        if finding.signature.kind in ("bottleneck", "failure") and at in shares.lost:
            root = root_of(found, at)
            costs = groups.setdefault(found[root].signature.id, {})
            costs[root] = costs.get(root, 0.0) + shares.lost[at]
    return {max(costs, key=lambda at: (costs[at], -at)): sum(costs.values()) for costs in groups.values()}


def _often(finding: Found) -> bool:
    if not finding.counts:
        return False
    if finding.signature.kind == "fault":
        return finding.severity is not Severity.INFO
    return share_critical(finding.occurrences, finding.total) >= QUALITY_SHARE


def verdict_of(finding: Finding, lost: float = 0.0, wall: float = 1.0, chain: tuple[str, ...] = ()) -> Verdict:
    """The verdict of a finding, which cost `lost` of `wall` seconds and explains a `chain` of others."""
    cost = f"; {format_share(lost / wall)} of the observed {format_seconds(wall)} lost" if lost > 0 else ""
    advice = finding.advice[0]
    advice += "" if advice.endswith((".", "?", "!")) else "."
    return Verdict(
        signature=finding.signature,
        title=finding.title,
        severity=finding.severity,
        sentence=f"{finding.title}: {finding.sentence.rstrip('.')}{cost}. {advice}",
        lost_s=lost,
        lost_share=lost / wall,
        confidence=finding.confidence,
        chain=chain,
    )


def _chain(at: int, found: Sequence[Found]) -> tuple[str, ...]:
    """The findings that this one explains, directly or through others, then itself: from the symptom to the cause."""
    symptoms = [finding for i, finding in enumerate(found) if i != at and finding.counts and root_of(found, i) == at]
    symptoms.sort(key=lambda finding: -finding.rank)
    ids = list(dict.fromkeys([*(finding.signature.id for finding in symptoms), found[at].signature.id]))
    return tuple(ids) if len(ids) > 1 else ()
