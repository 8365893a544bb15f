"""From a store to a Snapshot: laid on one axis, judged, shared out, put in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from perfmon.rules.bands import DEFAULT_ASYNC_LEVEL, Bands
from perfmon.rules.conditions.base import Level
from perfmon.rules.engine import find
from perfmon.rules.found import Found, share_critical
from perfmon.rules.run_state import component_states
from perfmon.rules.schema import Signature
from perfmon.rules.sentences import fill
from perfmon.rules.stalls import overdue_s
from perfmon.rules.view import View
from perfmon.rules.wording import counted, format_share

from . import __version__
from .alignment import Alignment, align
from .config import WHOLE, Detail
from .evidence import NEWEST, evidence_lines, moments
from .facts import (
    goal_of,
    metric_stats,
    no_verdict_text,
    role_gpus,
    slowest_rows,
    source_infos,
    timeline_rows,
    unjudged,
    unseen_signals,
)
from .ledger import (
    CHECKPOINT,
    DOWNTIME,
    EVALUATION,
    PRODUCTIVE,
    REST,
    RESTORE,
    STARTUP,
    UNACCOUNTED,
    WASTED,
    Claim,
    Shares,
    Window,
    share_out,
    without,
)
from .model import ALL_LEGS, Progress, Severity, TimeBase
from .recent import Recent
from .snapshot import (
    Assessment,
    ClockOffset,
    ConditionState,
    Finding,
    LedgerEntry,
    RunInfo,
    Snapshot,
    SourceInfo,
    Verdict,
)
from .stats import median
from .store import Store
from .text import evidence_text
from .units import format_seconds

VERDICT_SHARE = 0.02
QUALITY_SHARE = 0.20
_RISE = 1.0
"""Steps of staleness between parts of a run that are no accident."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the rules know before they see a run."""

    signatures: tuple[Signature, ...]
    bands: Bands
    async_level: float | None = None
    """From the configuration; else learned from the run."""
    learned: str = ""
    """What came of learning limits from the run's own start, in one line; empty where that was not tried."""


def diagnose(
    store: Store,
    knowledge: Knowledge,
    pattern_names: Sequence[str] = (),
    clip: tuple[float | None, float | None] = (None, None),
    alignment: Alignment | None = None,
    detail: Detail = WHOLE,
    present: float | None = None,
    recent: Recent | None = None,
) -> Snapshot:
    """The picture of all that is in `store`, within `clip` (seconds on the run's axis; None is open).

    `present` is the moment until which the logs are watched, if they are;
    `recent` saves looking at all spans of a long run.
    """
    alignment = alignment or align(store)
    view = view_of(store, knowledge, alignment, clip, present, recent)
    return judge(view, knowledge, alignment, pattern_names, detail)


def judge(
    view: View, knowledge: Knowledge, alignment: Alignment, pattern_names: Sequence[str], detail: Detail = WHOLE
) -> Snapshot:
    """The picture of what `view` shows."""
    store = view.store
    found = find(knowledge.signatures, view)
    shares = _shares(found, view)
    findings = [_worded(at, finding, found, shares, view, pattern_names) for at, finding in enumerate(found)]
    verdict = _verdict(found, findings, shares, view)
    unseen = unseen_signals(view)
    infos = source_infos(store, view, alignment, pattern_names)
    complete = [update.legs for update in store.updates].count(ALL_LEGS)
    metrics = metric_stats(view, detail.points)
    odd = () if verdict is not None else unjudged(view, metrics, knowledge.signatures)
    assessment = _assessment(view, verdict, found, odd)
    return Snapshot(
        version=__version__,
        run=_run_info(view, alignment, infos),
        verdict=verdict,
        findings=tuple(sorted(findings, key=lambda f: (-f.severity.rank, -f.lost_s, f.first_s, f.signature))),
        ledger=_ledger(found, shares, view.observed_s),
        metrics=metrics,
        traces_complete=complete,
        traces_partial=len(store.updates) - complete,
        clock_offsets=tuple(
            ClockOffset(store.sources[o.source].spec, o.seconds, o.uncertainty_s, o.traces, o.contradictory)
            for o in alignment.offsets
        ),
        skew_detected=any(offset.contradictory for offset in alignment.offsets)
        or any(state.stepped_back or state.stepped for state in store.sources),
        timeline=timeline_rows(view, detail.rows),
        slowest=slowest_rows(view),
        summary=verdict.sentence if verdict is not None else no_verdict_text(assessment, view, len(findings), odd),
        assessment=assessment,
        unseen=unseen,
        dropped=dict(store.dropped),
    )


_PROOF = 3
"""So much progress of a kind proves that a run goes on."""
_READ_SHARE = 0.5
"""Of the lines of the logs: where fewer are recognised and no progress is seen, nothing can be said."""


def _run_info(view: View, alignment: Alignment, infos: tuple[SourceInfo, ...]) -> RunInfo:
    start, end = view.window
    state = view.state
    components = {one.component: one.state for one in component_states(view)}
    of_one = Counter(one.source for one in view.boundaries)  # without a clock all may have one time
    runs = 1 + max(len({round(one.time) for one in view.boundaries}), *of_one.values(), 0)
    return RunInfo(
        start,
        end,
        view.observed_s,
        alignment.base,
        infos,
        state.state,
        state.since,
        components,
        goal_of(view),
        runs,
        role_gpus(view),
        None if view.limit is None else view.limit.left_s,
    )


def _assessment(view: View, verdict: Verdict | None, found: Sequence[Found], odd: Sequence[str]) -> Assessment:
    """What can be said of the run as a whole; healthy only with proof."""
    if verdict is not None:
        return Assessment.FINDING
    logs = [state for state in view.store.sources if not state.polled]
    if not logs:
        samples = max((len(track) for track in view.metrics.values()), default=0)
        return Assessment.HEALTHY if samples >= _PROOF else Assessment.LEARNING
    lines, events = sum(state.lines for state in logs), sum(sum(state.patterns.values()) for state in logs)
    if not view.activity.tracks and lines and events < _READ_SHARE * lines:
        return Assessment.UNREADABLE
    if view.activity.count < _PROOF:
        return Assessment.LEARNING
    grave = any(one.counts and one.severity is Severity.CRITICAL and one.explained_by is None for one in found)
    state = view.state.state
    if odd or grave or state in (Progress.STALLED, Progress.SILENT) or overdue_s(view) > 0:
        return Assessment.WATCH
    return Assessment.HEALTHY


def view_of(
    store: Store,
    knowledge: Knowledge,
    alignment: Alignment,
    clip: tuple[float | None, float | None] = (None, None),
    present: float | None = None,
    recent: Recent | None = None,
) -> View:
    """The store as the rules see it, with the bands that hold for this run."""
    window = None
    if clip != (None, None):
        low, high = clip
        window = (float("-inf") if low is None else low, float("inf") if high is None else high)
    shifts = {index: shift for index, shift in alignment.shifts.items() if shift}
    view = View(store, knowledge.bands, shifts, window, alignment.base != TimeBase.NONE, alignment.guessed)
    view.present, view.recent = present, recent
    view.bands = knowledge.bands.holding(view.told_of).with_async_level(_async_level(view, knowledge))
    return view


def _async_level(view: View, knowledge: Knowledge) -> float:
    """The configured level, else the level that the run keeps to, but not below the default.

    A run at its barrier keeps returning to the same staleness, which it has reached with its first steps. Where the
    last third is staler than the one before the run is still rising; where it is staler than a first third that kept
    to a level, something has changed meanwhile, however long the run has stayed at what it came to. In both cases
    what it began with says more.
    """
    if knowledge.async_level is not None:
        return knowledge.async_level
    values = list(view.track("staleness").values)
    if not values:
        return DEFAULT_ASYNC_LEVEL
    third = len(values) // 3
    usual = median(values)
    if third:
        begin, middle, end = (median(part) for part in (values[:third], values[third:-third], values[-third:]))
        kept = begin if _keeps(values[:third]) else middle
        usual = begin if end > kept + _RISE else max(usual, min(middle, end))
    return max(DEFAULT_ASYNC_LEVEL, float(int(usual)))


def _keeps(values: Sequence[float]) -> bool:
    """Whether staleness keeps to a level: that of a run that only just begins rises to it."""
    half = len(values) // 2
    return half > 0 and median(values[-half:]) <= median(values[:half]) + _RISE


# --- lost time ------------------------------------------------------------------------------------------------
def _root(found: Sequence[Found], at: int) -> int:
    """The finding at the end of the chain of explanations."""
    seen = {at}
    while True:
        cause = found[at].explained_by
        if cause is None or cause in seen:
            return at
        seen.add(cause)
        at = cause


def _shares(found: Sequence[Found], view: View) -> Shares:
    claims = [
        Claim(at, finding.rank, low, high)
        for at, finding in enumerate(found)
        for low, high in without(finding.claims, view.apart)
    ]
    return share_out(view.window, claims, _proven(view), view.apart)


def _proven(view: View) -> list[tuple[str, list[Window]]]:
    """What evidence shows of the time that no finding claims, the stronger first."""
    over = view.death
    after = [(over.time, view.window[1])] if over is not None and view.timed else []
    restore = [(item.start, item.end) for item in view.spans("checkpoint-load")]
    return [
        (DOWNTIME, [*view.downtime, *after]),
        (RESTORE, restore),
        (WASTED, view.wasted),
        (CHECKPOINT, view.held_up("checkpoint-write")),
        (EVALUATION, view.held_up("evaluation")),
        (PRODUCTIVE, view.productive),
        (STARTUP, view.startup),
    ]


def _ledger(found: Sequence[Found], shares: Shares, wall_s: float) -> tuple[LedgerEntry, ...]:
    lost: dict[str, float] = {}
    for at, seconds in shares.lost.items():
        if seconds > 0:
            lost[found[at].signature.id] = lost.get(found[at].signature.id, 0.0) + seconds
    rows = sorted(lost.items(), key=lambda row: (-row[1], row[0]))
    rows += [(name, shares.rest[name]) for name in REST if shares.rest[name] > 0 or name in (PRODUCTIVE, UNACCOUNTED)]
    if wall_s <= 0:
        # Of no time at all nothing is known: shares add up to one all the same.
        return tuple(LedgerEntry(cause, seconds, float(cause == UNACCOUNTED)) for cause, seconds in rows)
    return tuple(LedgerEntry(cause, seconds, seconds / wall_s) for cause, seconds in rows)


# --- words ----------------------------------------------------------------------------------------------------
def _worded(
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
        unseen=tuple(say for missing, say in signature.unseen if _missing(missing, view)),
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
    """Seconds since the window's start; what began before it, or goes on after it, is told as if cut there."""
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
    """What its conditions say of its last occurrence."""
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
def _verdict(found: Sequence[Found], findings: Sequence[Finding], shares: Shares, view: View) -> Verdict | None:
    wall = view.observed_s
    lost: dict[str, float] = {}
    for at, seconds in shares.lost.items():
        lost[found[at].signature.id] = lost.get(found[at].signature.id, 0.0) + seconds
    failed = [at for at, finding in enumerate(found) if finding.signature.kind == "failure"]
    if failed:
        at = min(failed, key=lambda at: found[at].rank)
        return _told(at, found, findings, lost.get(found[at].signature.id, 0.0), view)
    if view.state.state is Progress.STALLED:
        hung = [at for at, finding in enumerate(found) if _is_stall(finding)]
        if hung:
            at = _root(found, max(hung, key=lambda at: found[at].last))
            return _told(at, found, findings, lost.get(found[at].signature.id, 0.0), view)
    costly = _roots(found, shares)
    if costly and wall > 0:
        at, cost = max(costly.items(), key=lambda item: (item[1], -found[item[0]].rank, -item[0]))
        if cost >= VERDICT_SHARE * wall:
            return _told(at, found, findings, lost.get(found[at].signature.id, 0.0), view)
    for kind in ("fault", "quality"):
        named = [at for at, f in enumerate(found) if f.signature.kind == kind and f.explained_by is None and _often(f)]
        if named:
            return _told(min(named, key=lambda at: found[at].rank), found, findings, 0.0, view)
    return None


def _is_stall(finding: Found) -> bool:
    return finding.counts and finding.subject.kind == "quiet" and finding.subject.name == "all"


def _roots(found: Sequence[Found], shares: Shares) -> dict[int, float]:
    """Seconds lost to each root cause, with what it explains: a symptom is never the verdict where its cause is known.

    All findings of a signature count as one; its costliest stands for them.
    """
    groups: dict[str, dict[int, float]] = {}
    for at, finding in enumerate(found):
        if finding.signature.kind in ("bottleneck", "failure") and at in shares.lost:
            root = _root(found, at)
            costs = groups.setdefault(found[root].signature.id, {})
            costs[root] = costs.get(root, 0.0) + shares.lost[at]
    return {max(costs, key=lambda at: (costs[at], -at)): sum(costs.values()) for costs in groups.values()}


def _often(finding: Found) -> bool:
    if not finding.counts:
        return False
    if finding.signature.kind == "fault":
        return finding.severity is not Severity.INFO
    return share_critical(finding.occurrences, finding.total) >= QUALITY_SHARE


def _told(at: int, found: Sequence[Found], findings: Sequence[Finding], lost: float, view: View) -> Verdict:
    return verdict_of(findings[at], lost, max(view.observed_s, 1e-9), _chain(at, found))


def verdict_of(finding: Finding, lost: float = 0.0, wall: float = 1.0, chain: tuple[str, ...] = ()) -> Verdict:
    """The answer that a finding is, which cost `lost` of `wall` seconds and explains a `chain` of others."""
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
    """What this finding explains, directly or through others, then itself: from the symptom to the cause."""
    symptoms = [finding for i, finding in enumerate(found) if i != at and finding.counts and _root(found, i) == at]
    symptoms.sort(key=lambda finding: -finding.rank)
    ids = list(dict.fromkeys([*(finding.signature.id for finding in symptoms), found[at].signature.id]))
    return tuple(ids) if len(ids) > 1 else ()
