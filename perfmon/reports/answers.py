"""The three answers at the head of a page: what is wrong, why and what to do next, where the window went."""

from __future__ import annotations

from collections.abc import Sequence

from perfmon.drawing import bar, fit
from perfmon.picture import Alert, AlertState, Picture, RunState
from perfmon.snapshot import ConditionState, Finding, LedgerEntry, Snapshot, Verdict
from perfmon.units import format_seconds

from .escape import fenced, inline, table
from .wording import HELD, behind, percent, verdict_line

_HELD = {True: f"{HELD[True]} holds", False: f"{HELD[False]} does not", None: f"{HELD[None]} not observed"}
_ALIVE = (AlertState.FIRING, AlertState.ACKED, AlertState.SILENCED, AlertState.RESOLVING, AlertState.UNKNOWN)
_BAR = 60
_NAMES = 24


def headline(snapshot: Snapshot | None) -> str:
    """The state of the run in a few words; text of a signature, to be made safe."""
    if snapshot is None:
        return "… nothing read yet"
    if snapshot.verdict is None:
        return (
            "✓ no bottleneck found" if any(source.events for source in snapshot.run.sources) else "? nothing observed"
        )
    return f"{snapshot.verdict.severity.label} {snapshot.verdict.title}"


def cautions(picture: Picture | None) -> list[str]:
    """Reasons why the verdict may be outdated."""
    if picture is None:
        return []
    said = []
    if picture.state is RunState.LOADING or picture.progress is not None:
        said.append(f"The existing log history was still being read ({percent(picture.progress or 0.0)}).")
    if picture.past_s is not None:
        said.append(f"The newest line was {format_seconds(picture.past_s)} old: the verdict may be outdated.")
    return said


def verdict_lines(snapshot: Snapshot, picture: Picture | None) -> list[str]:
    """The first answer."""
    verdict = snapshot.verdict
    if verdict is None:
        return ["## Verdict", "", f"**{inline(snapshot.summary or 'No bottleneck found.')}**"]
    facts = [verdict_line(snapshot, verdict), *_since(verdict, picture)]
    lines = ["## Verdict", "", f"**{inline(verdict.sentence)}**", "", inline(" · ".join(facts))]
    if len(verdict.chain) > 1:
        lines += ["", "Chain: " + " ← ".join(inline(link, 80) for link in verdict.chain)]
    return lines


def _since(verdict: Verdict, picture: Picture | None) -> list[str]:
    alerts = [alert for alert in (picture.alerts if picture else ()) if alert.finding.signature == verdict.signature]
    alerts = [alert for alert in alerts if alert.state in _ALIVE]
    if picture is None or not alerts:
        return []
    began = min(max(alert.began, alert.since) for alert in alerts)  # it may have been over meanwhile
    end = max(alert.held_until(picture.now) for alert in alerts)
    return [f"for {format_seconds(max(0.0, end - began))}", _times(sum(alert.count for alert in alerts))]


def _times(count: int) -> str:
    return f"{count} occurrence{'s' * (count != 1)}"


def why_lines(snapshot: Snapshot, picture: Picture | None) -> list[str]:
    """The second answer: conditions with their values, rivals, the next thing to do."""
    finding = behind(snapshot, snapshot.verdict) if snapshot.verdict else None
    if finding is None:
        return []
    lines = ["## Why, and next steps", ""]
    if finding.conditions:
        lines += [*table(("", "condition and value"), map(_condition, finding.conditions)), ""]
    rivals = [_rival(name, snapshot.findings, picture) for name in finding.confused_with]
    lines += [f"- ruled out: {rival}" for rival in rivals]
    lines += [f"- not observed: {inline(missing)}" for missing in finding.unseen]
    lines += [f"- **next:** {inline(advice)}" for advice in finding.advice[:1]]
    return lines if lines[-1] else lines[:-1]


def _condition(condition: ConditionState) -> tuple[str, str]:
    return _HELD[condition.held], condition.text


def _rival(text: str, findings: Sequence[Finding], picture: Picture | None) -> str:
    """Signatures that are often confused with a finding, and their state."""
    name = text.partition(":")[0].strip()
    found = [finding for finding in findings if finding.signature == name]
    alerts: list[Alert] = [alert for alert in (picture.alerts if picture else ()) if alert.finding.signature == name]
    state = alerts[0].state.value if alerts else found[0].state if found else "not found"
    return f"{inline(text, 300)} (*{inline(state, 40)}*)"


def ledger_lines(snapshot: Snapshot) -> list[str]:
    """The third answer: a table of causes, and the same as bars."""
    if not snapshot.ledger:
        return []
    rows = [(entry.cause, format_seconds(entry.lost_s), percent(entry.share)) for entry in snapshot.ledger]
    bars = [_bar(entry) for entry in snapshot.ledger if entry.share > 0]
    head = ["## Time breakdown", "", *table(("cause", "time", "share"), rows, frozenset({1, 2}))]
    return [*head, "", *fenced(bars)] if bars else head


def _bar(entry: LedgerEntry) -> str:
    return f"{fit(entry.cause, _NAMES)} {percent(entry.share):>6} {bar(entry.share, _BAR)}".rstrip()
