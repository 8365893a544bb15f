"""Findings and the verdict in words: sentences, figures, advice, the chain of causes, and the lines that prove them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from perfmon.core import (
    Progress,
    Ref,
    Severity,
    Shares,
    counted,
    evidence_text,
    format_seconds,
    format_share,
)
from perfmon.hangs import rank_words
from perfmon.rules import FIRING, UPDATE, Found, Hypothesis, Item, Occurrence, View, fill, queued_s, share_critical
from perfmon.rules.conditions import Condition, Level, every_condition
from perfmon.sources.formats import in_words

from .result import ConditionState, EvidenceLine, Finding, HypothesisState, Moment, Verdict

# --- The evidence of a finding: its occurrences, and few lines, the most informative ones first ---

NEWEST = 500
"""Occurrences that a finding lists."""
_LINES = 8
_WORST_FIRST = (0, 1, 4)
_SHOWN_FIRST = (2, 3, 4)
"""Of other occurrences than the worst: the lines with the figures, then the beginnings, then the rest."""


def evidence_lines(finding: Found, view: View) -> tuple[EvidenceLine, ...]:
    """Lines of the worst, the first and the last occurrence, then of others; those that carry the figures first."""
    lines: dict[tuple[str, int], tuple[tuple[int, int, int], str]] = {}
    for place, occurrence in enumerate(_chosen(finding)):
        for role, (ref, text) in _by_role(occurrence.item, view):
            order = (_SHOWN_FIRST[role] if place else _WORST_FIRST[role], place, role)
            lines.setdefault((_name(ref, view), ref.line), (order, text))
    if finding.subject.kind == "quiet" and view.state.state is Progress.STALLED:
        for at, (name, line, text) in enumerate(_last_words(view)):
            lines[name, line] = ((-1, at, 0), text)
    best = sorted(lines.items(), key=lambda line: (line[1][0], line[0]))[:_LINES]
    return tuple(EvidenceLine(name, line, evidence_text(text)) for (name, line), (_, text) in best)


def _last_words(view: View) -> list[tuple[str, int, str]]:
    """The log, number and text of the last dated line of each log, the newest first: what each component stopped at."""
    logs = [state for state in view.logs if state.last is not None and state.last_line[1]]
    logs.sort(key=lambda state: -view.extent(state)[1])
    return [(state.spec, *state.last_line) for state in logs]


def _name(ref: Ref, view: View) -> str:
    return view.store.sources[ref.source].spec


def _chosen(finding: Found) -> list[Occurrence]:
    """The worst, the first and the last occurrence, then the next worst."""
    trigger = next(iter(finding.occurrences[0].item.values), "")

    def badness(occurrence: Occurrence) -> tuple[float, ...]:
        item = occurrence.item
        return (-occurrence.level, -item.values.get(trigger, 0.0), item.start - item.end, item.start)

    ordered = sorted(finding.occurrences, key=badness)
    chosen = [ordered[0], finding.occurrences[0], finding.occurrences[-1], *ordered[1 : _LINES + 1]]
    return list({id(occurrence): occurrence for occurrence in chosen}.values())


def _by_role(item: Item, view: View) -> list[tuple[int, tuple[Ref, str]]]:
    """The lines of an item: 0 the one with most of its figures, 1 the one it begins with, 2 the others.

    Its own log comes first, the others by name: in which order they were read must not show.
    """
    names = [f"{name.partition('.')[0]}=" for name in item.values]
    lines = [line for line in item.refs if line[1]]
    lines.sort(key=lambda line: (line[0].source != item.source, _name(line[0], view), line[0].line))
    best = max(lines, key=lambda line: sum(name in line[1] for name in names), default=None)
    roles = [(0 if line is best else 1 if line is lines[0] else 2, line) for line in lines]
    return sorted(roles, key=lambda role: role[0])


def moments(finding: Found, view: View) -> tuple[Moment, ...]:
    """The newest occurrences; several of one line are numbered in their order."""
    begin, count = view.window[0], Counter[tuple[int, ...]]()
    newest = sorted((occurrence.item for occurrence in finding.occurrences), key=lambda item: (item.end, item.start))[
        -NEWEST:
    ]
    moments = []
    for item in newest:
        name = _unchanging(item)
        unique = (*name, count[name]) if name and count[name] else name
        count[name] += 1
        moments.append(Moment(unique, item.start - begin, item.end - begin, evidence_text(item.key)))
    return tuple(moments)


def _unchanging(item: Item) -> tuple[int, ...]:
    """The permanent identity of an occurrence: its number as a span, or its line."""
    if item.span is not None:
        return (item.span.seq,)
    if item.end > item.start or not item.refs:
        return ()
    ref = item.refs[0][0]
    return (ref.source, ref.line, ref.offset)


_OF_PROCESS = re.compile(r"\bPID\b")
"""What stands for the number of a process in a command."""
VERDICT_SHARE = 0.02
QUALITY_SHARE = 0.20


# --- Lost time ---
def root_of(found: Sequence[Found], at: int) -> int:
    """The finding at the end of the chain of explanations."""
    seen = {at}
    while True:
        cause = found[at].explained_by
        if cause is None or cause in seen:
            return at
        seen.add(cause)
        at = cause


# --- Words ---
def worded(
    at: int, finding: Found, found: Sequence[Found], shares: Shares, view: View, pattern_names: Sequence[str]
) -> Finding:
    signature = finding.signature
    wall = max(view.observed_s, 1e-9)
    lost = shares.lost.get(at, 0.0)
    cause = finding.explained_by
    advice, commands = _advice(finding, view, pattern_names)
    conditions, proof = _conditions(finding, view)
    return Finding(
        signature=signature.id,
        title=signature.title_by_cause.get(_cause_of(finding), signature.title),
        severity=finding.severity,
        state=finding.state,
        identity=finding.identity,
        first_s=_within(finding.first, view),
        last_s=_within(finding.last, view),
        since_s=_within(finding.since, view),
        count=len(finding.occurrences),
        lost_s=lost,
        lost_share=lost / wall,
        sentence=_sentence(finding, lost, view, found[cause] if cause is not None else None),
        advice=advice,
        commands=commands,
        evidence=evidence_lines(finding, view),
        confidence=sum(condition.held is True for condition in conditions) / len(conditions),
        conditions=conditions,
        confused_with=signature.confused_with,
        explained_by=found[cause].signature.id if cause is not None else None,
        unseen=tuple(message for missing, message in signature.unseen if _missing(missing, view)),
        hypotheses=tuple(_hypothesis(one, view) for one in _hypotheses_of(at, found)),
        moments=moments(finding, view),
        lost=tuple((low - view.window[0], high - view.window[0]) for low, high in shares.kept.get(at, ())[-NEWEST:]),
        proof=proof,
    )


def _cause_of(finding: Found) -> str:
    """The cause of a failure; "" without one."""
    return str(finding.occurrences[0].item.fields.get("cause", ""))


def _advice(finding: Found, view: View, pattern_names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The signature's advice, or that for the cause of a failure, or for the format of which the finding's lines are;
    and the commands that go with it. Those about a process are left out where the run died.
    """
    general = finding.signature.advice_by_cause.get(_cause_of(finding), finding.signature.advice)
    special, commands = finding.signature.advice_for, finding.signature.commands
    commands = commands if view.death is None else tuple(one for one in commands if not _OF_PROCESS.search(one))
    if not special:
        return general, commands
    logs = {ref.source for occurrence in finding.occurrences for ref, _ in occurrence.item.refs}
    patterns = {at for source in logs for at in view.store.sources[source].patterns}
    packs = {pattern_names[at].partition("/")[0] for at in patterns if at < len(pattern_names)}
    return next(((one.advice, (*one.commands, *commands)) for one in special if one.pack in packs), (general, commands))


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
        "others": _others(str(finding.identity.get("group", "")), view),
        **_figures(finding, view),
        **finding.identity,
    }
    text = fill(finding.sentence, {key: evidence_text(value) for key, value in known.items()}, items, view)
    return f"{text} ({cause.signature.title.lower()} is the cause)" if cause is not None else text


def _others(group: str, view: View) -> str:
    """The ranks of the run that a group of ranks (`0, 2`) leaves out; "" where the logs do not report how many it has,
    or where most are left out.
    """
    sizes, ranks = view.metrics.get("nccl_ranks"), {int(rank) for rank in group.split(",") if rank.strip().isdecimal()}
    if not sizes or not ranks:
        return ""
    others = set(range(int(max(sizes.values)))) - ranks
    return rank_words(others) if 0 < len(others) <= len(ranks) else ""


def _figures(finding: Found, view: View) -> dict[str, str]:
    """The figures of its conditions for its last occurrence."""
    last = finding.occurrences[-1].item
    figures = (condition.figures(last, view) for condition in finding.signature.conditions)
    return {slot: figure for each in figures for slot, figure in each.items()}


def _conditions(finding: Found, view: View) -> tuple[tuple[ConditionState, ...], tuple[str, ...]]:
    """The conditions with the values that were met, and the names of what meets them."""
    best, levels = finding.best(view)
    states: list[ConditionState] = []
    lost = finding.signature.lost
    names = [lost.spans] if lost is not None and lost.spans and view.spans(lost.spans) else []
    names += [best.item.span.kind] if best.item.span is not None else []
    names += [subject.name for subject in finding.signature.subjects if subject.kind == "absence"]
    for condition, level in zip(finding.signature.conditions, levels, strict=True):
        if condition.role == "gate":
            continue
        deciding = condition.deciding(best.item, view)
        states.append(_state(deciding, best.item, None if level is Level.UNKNOWN else level.holds, view))
        if level.holds:
            names += [name for one in every_condition((deciding,)) for name in _seen_in(one)]
    return tuple(states), tuple(dict.fromkeys(names))


def _seen_in(condition: Condition) -> Sequence[str]:
    """Names of the metrics and events that show that a condition is met; none where it requires that one is missing."""
    absent = getattr(condition, "none", False)
    return () if absent or condition.role == "gate" else (*condition.metric_names(), *condition.other_names())


def _state(condition: Condition, item: Item, held: bool | None, view: View) -> ConditionState:
    words, value = in_words(evidence_text(condition.words(item, view))), evidence_text(condition.describe(item, view))
    return ConditionState(words, held, value, condition.bound(item, view))


# --- Hypotheses: the evidence for and against each possible cause ---
def _hypotheses_of(at: int, found: Sequence[Found]) -> Sequence[Hypothesis]:
    """Those of the finding, or of the first one that it explains."""
    explained = (one.hypotheses for one in found if one.explained_by == at and one.hypotheses)
    return found[at].hypotheses or next(explained, ())


def _hypothesis(one: Hypothesis, view: View) -> HypothesisState:
    supporting, contradicting, unseen = list[str](), list[str](), list[str]()
    for condition, level in zip(one.signature.conditions, one.levels, strict=True):
        if level is Level.UNKNOWN:
            unseen += _names_in(condition)
        elif condition.role != ("gate" if level.holds else "supporting"):
            text = in_words(evidence_text(condition.describe(one.item, view)))
            (supporting if level.holds else contradicting).append(text)
    signature = one.signature
    undecided = f"needs {signature.decided_by}" if one.is_undecidable else "open"
    standing = "shown" if one.proven else "refuted" if one.refuted else undecided
    return HypothesisState(
        signature.id, signature.title, standing, *(tuple(dict.fromkeys(x)) for x in (supporting, contradicting, unseen))
    )


def _names_in(condition: Condition) -> Iterator[str]:
    for part in every_condition((condition,)):
        yield from part.metric_names()


# --- The verdict ---
def verdict_among(found: Sequence[Found], findings: Sequence[Finding], shares: Shares, view: View) -> Verdict | None:
    """The verdict: a failure, a stall or the grave fault before it, the costliest root cause, a fault, bad quality."""
    wall = view.observed_s

    def verdict(at: int, with_cost: bool = True) -> Verdict:
        alike = [seconds for i, seconds in shares.lost.items() if found[i].signature.id == found[at].signature.id]
        chain = _chain(at, found)
        lost = sum(alike, 0.0) if with_cost else 0.0
        own = found[at].signature.lost
        # Who has a symptom waits for it: the run loses that time.
        who = own.who if own is not None and not chain and view.spans(UPDATE) else ""
        return verdict_of(findings[at], lost, max(wall, 1e-9), chain, who)

    failed = [at for at, finding in enumerate(found) if finding.signature.kind == "failure"]
    if failed and all(findings[at].severity is not Severity.CRITICAL for at in failed):
        # It was stopped: a fault that was critical until then is why.
        faults = [at for at, f in enumerate(found) if f.signature.kind == "fault" and f.explained_by is None]
        failed = [at for at in faults if findings[at].severity is Severity.CRITICAL] or failed
    if failed:
        return verdict(min(failed, key=lambda at: found[at].rank))
    if view.state.state is Progress.STALLED:
        hung = [at for at, f in enumerate(found) if f.counts and (f.subject.kind, f.subject.name) == ("quiet", "all")]
        if hung:
            stall = root_of(found, max(hung, key=lambda at: found[at].last))
            return verdict(min(_grave_before(stall, found, view), key=lambda at: found[at].rank, default=stall))
    costly = _roots(found, shares, view)
    costly = {at: cost for at, cost in costly.items() if not _is_outranked(at, costly, found, wall)}
    if costly and wall > 0:
        at, cost = max(costly.items(), key=lambda item: (item[1], -found[item[0]].rank, -item[0]))
        if cost >= VERDICT_SHARE * wall:
            return verdict(at)
    if not view.timed:
        shown = [at for at, one in enumerate(found) if _shows_its_share(one)]
        if shown:
            return verdict(root_of(found, min(shown, key=lambda at: found[at].rank)), with_cost=False)
    for kind in ("fault", "quality"):
        named = [at for at, f in enumerate(found) if f.signature.kind == kind and f.explained_by is None and _often(f)]
        if named:
            first = min(named, key=lambda at: found[at].rank)
            return verdict(first, with_cost=found[first].signature.lost is not None)
    return None


def _grave_before(stall: int, found: Sequence[Found], view: View) -> list[int]:
    """Critical faults that held before a run stood still, and still do: that it stands adds little."""
    since = view.state.since or 0.0
    firing = [(at, one) for at, one in enumerate(found) if one.state == FIRING and one.first < since and at != stall]
    grave = [(at, one) for at, one in firing if one.signature.kind == "fault" and one.severity is Severity.CRITICAL]
    return [at for at, one in grave if one.explained_by is None and _often(one)]


def _is_outranked(at: int, costly: Mapping[int, float], found: Sequence[Found], wall: float) -> bool:
    """True where another root, that matters and still fires, comes before it whatever it cost."""
    own = found[at].signature.id
    return any(
        own in found[other].signature.outranks and found[other].state == FIRING and cost >= VERDICT_SHARE * wall
        for other, cost in costly.items()
    )


def _roots(found: Sequence[Found], shares: Shares, view: View) -> dict[int, float]:
    """Seconds lost to each root cause, or during which requests wait for it, with what it explains: a symptom is never
    the verdict where its cause is known.

    All findings of a signature count as one; its costliest stands for them.
    """
    groups: dict[str, dict[int, float]] = {}
    for at, finding in enumerate(found):
        cost = max(shares.lost.get(at, 0.0), queued_s(finding, view))
        if finding.signature.kind in ("bottleneck", "failure") and cost > 0:
            root = root_of(found, at)
            costs = groups.setdefault(found[root].signature.id, {})
            costs[root] = costs.get(root, 0.0) + cost
    return {max(costs, key=lambda at: (costs[at], -at)): sum(costs.values()) for costs in groups.values()}


def _shows_its_share(finding: Found) -> bool:
    """True for a bottleneck whose share of each step the lines themselves state: it needs no clock."""
    costing = finding.signature.lost
    by_share = costing is not None and finding.subject.kind == "metric" and finding.subject.name in costing.share
    return finding.signature.kind == "bottleneck" and by_share and _often(finding)


def _often(finding: Found) -> bool:
    if not finding.counts:
        return False
    if finding.signature.kind == "fault":
        return finding.severity is not Severity.INFO
    return share_critical(finding.occurrences, finding.total) >= QUALITY_SHARE


def verdict_of(
    finding: Finding, lost: float = 0.0, wall: float = 1.0, chain: tuple[str, ...] = (), who: str = ""
) -> Verdict:
    """The verdict of a finding, which cost `lost` of `wall` seconds (of `who`) and explains a `chain` of others."""
    share, observed = format_share(lost / wall), format_seconds(wall)
    cost = f"; {who} lost {share} of the observed {observed}" if who else f"; {share} of the observed {observed} lost"
    cost = cost if lost > 0 else ""
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
        lost_by=who,
    )


def _chain(at: int, found: Sequence[Found]) -> tuple[str, ...]:
    """The findings that this one explains, directly or through others, then itself: from the symptom to the cause."""
    symptoms = [finding for i, finding in enumerate(found) if i != at and finding.counts and root_of(found, i) == at]
    symptoms.sort(key=lambda finding: -finding.rank)
    ids = list(dict.fromkeys([*(finding.signature.id for finding in symptoms), found[at].signature.id]))
    return tuple(ids) if len(ids) > 1 else ()
