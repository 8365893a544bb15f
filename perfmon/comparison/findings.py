"""Findings that are gone, new or still there, and whose the time was."""

from __future__ import annotations

from collections.abc import Iterable
from math import comb, sqrt

from perfmon.ledger import REST
from perfmon.model import Severity
from perfmon.resampling import CELLS, mean_change, resample
from perfmon.snapshot import Finding, Snapshot

from .runs import Run
from .values import FindingChange, FindingSide, Kind, LostShare, Shift

ENOUGH = 5
"""A finding is gone when what it is looked for in was observed so often without it; or as often as before."""
_RARE = 0.05
"""Nor may it be likelier than that to find none, had each of both runs' observations the same chance to show it."""
LOST = 0.02
"""A share of the time counts from here on, as it does for a verdict of one run."""
_SPREAD = 0.1
"""A finding is no small matter, whatever it cost, that shows in so large a share more of what was observed."""
_SIGMAS = 1.96
_WITH_PAUSES = 1.01
_PENDING = "pending"
_REST = REST


def finding_changes(before: Run, after: Run) -> tuple[FindingChange, ...]:
    """By signature, the costliest first: sources and hosts, which have other names in another run, are put together."""
    held = (_sides(before.snapshot.findings), _sides(after.snapshot.findings))
    titles = {f.signature: f.title for run in (before, after) for f in run.snapshot.findings}
    changes = []
    for signature in {**held[0], **held[1]}:
        early, late = held[0].get(signature), held[1].get(signature)
        kind: Kind = "gone" if late is None else "new" if early is None else "still"
        proven = {"gone": _proven(signature, before, after), "new": _proven(signature, after, before)}.get(kind, True)
        looked = (_looked(signature, before), _looked(signature, after))
        rare = proven and kind != "still" and _rare(signature, early, late, before, after)
        spread = _spread(signature, (early, late), (before, after)) if proven and not rare else 0
        changes.append(FindingChange(signature, titles[signature], kind, early, late, proven, looked, rare, spread))
    return tuple(sorted(changes, key=_order))


def _order(change: FindingChange) -> tuple[float, float, str]:
    lost = max(side.lost_share for side in (change.before, change.after) if side is not None)
    return (-change.severity.rank, -lost, change.signature)


def _sides(findings: Iterable[Finding]) -> dict[str, FindingSide]:
    by_signature: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.state != _PENDING:
            by_signature.setdefault(finding.signature, []).append(finding)
    return {signature: _side(held) for signature, held in by_signature.items()}


def _side(findings: list[Finding]) -> FindingSide:
    costliest = max(findings, key=lambda finding: finding.lost_s)
    return FindingSide(
        severity=max((finding.severity for finding in findings), key=lambda severity: severity.rank),
        count=sum(finding.count for finding in findings),
        lost_s=sum(finding.lost_s for finding in findings),
        lost_share=sum(finding.lost_share for finding in findings),
        sentence=costliest.sentence,
    )


def _proven(signature: str, found_in: Run, missing_in: Run) -> bool:
    """Whether the run without the finding was seen well enough to say so."""
    names = missing_in.looked_for_in.get(signature, ())
    if not names:
        return any(missing_in.seen.values())
    return any(_tells(found_in.seen.get(name, 0) or ENOUGH, missing_in.seen.get(name, 0)) for name in names)


def _tells(held: int, looked: int) -> bool:
    """Whether so many observations without it say anything, beside so many of which, at most, all showed it."""
    return looked >= min(ENOUGH, held) and _chance(held, held, looked) <= _RARE


def _chance(found: int, held: int, looked: int) -> float:
    """How likely all of `found` are among `held` observations and none among `looked` more (Fisher, one side)."""
    return comb(held, found) / comb(held + looked, found)


def _rare(signature: str, early: FindingSide | None, late: FindingSide | None, before: Run, after: Run) -> bool:
    """Whether it was found so seldom that it could as well have come in the other run; silences are not counted."""
    if not before.looked_for_in.get(signature, ()):
        return False
    side, run, other = (early, before, after) if early is not None else (late, after, before)
    held = _looked(signature, run)
    return side is not None and held > 0 and _chance(min(side.count, held), held, _looked(signature, other)) > _RARE


def _spread(signature: str, sides: tuple[FindingSide | None, FindingSide | None], runs: tuple[Run, Run]) -> int:
    """Whether it shows in clearly more (1) or fewer (-1) of the observations after: as if they were independent.

    They are not: an update that waits has neighbours that do. So this much is not enough to call it a change.
    """
    if not runs[0].looked_for_in.get(signature, ()):
        return 0
    held = [_looked(signature, run) for run in runs]
    if not all(held):
        return 0
    found = [0 if side is None else min(side.count, of) for side, of in zip(sides, held, strict=True)]
    more = found[1] / held[1] - found[0] / held[0]
    pooled, each = sum(found) / sum(held), 1.0 / held[0] + 1.0 / held[1]
    if abs(more) < _SPREAD or abs(more) - each / 2.0 < _SIGMAS * sqrt(pooled * (1.0 - pooled) * each):
        return 0
    return 1 if more > 0 else -1


def _looked(signature: str, run: Run) -> int:
    """How often what a signature is looked for in was observed."""
    names = run.looked_for_in.get(signature, ()) or run.seen
    return max((run.seen.get(name, 0) for name in names), default=0)


def problem(change: FindingChange) -> bool:
    """Bad for a run: a note is not."""
    return change.severity is not Severity.INFO


def weighty(change: FindingChange, before: Snapshot, after: Snapshot) -> bool:
    """More than an isolated event: a run's verdict, or as costly as one has to be, or critical again and again."""
    verdicts = {run.verdict.signature for run in (before, after) if run.verdict is not None}
    held = [side for side in (change.before, change.after) if side is not None]
    costs_nothing = all(side.lost_s <= 0 for side in held)
    again = costs_nothing and any(side.severity is Severity.CRITICAL and side.count > 1 for side in held)
    return change.signature in verdicts or again or any(side.lost_share >= LOST for side in held)


def lost_change(before: Snapshot, after: Snapshot) -> Shift:
    """How the share of time that any finding cost moved; without an interval where a run has no time."""
    shares = [_lost_by_time(run) for run in (before, after)]
    change = _lost_share(after) - _lost_share(before)
    if not (shares[0] and shares[1]):
        return Shift(change, None)
    drawn = [resample(held) for held in shares]
    return Shift(change, mean_change(drawn[0], drawn[1]))


def _lost_share(run: Snapshot) -> float:
    return sum(entry.share for entry in run.ledger if entry.cause not in _REST)


def _lost_by_time(run: Snapshot) -> list[float]:
    """The share that was lost of each of many stretches of equal length, in time order.

    Of a finding only the newest stretches are told: the time before the first of those is left out. Empty where logs
    of several runs lie apart: when that was is not told.
    """
    cut = [finding for finding in run.findings if sum(b - a for a, b in finding.lost) < 0.99 * finding.lost_s]
    begin = max((finding.lost[0][0] for finding in cut if finding.lost), default=0.0)
    whole = run.run.end - run.run.start
    length = (whole - begin) / CELLS
    if length <= 0 or whole > _WITH_PAUSES * run.run.wall_s:
        return []
    lost = [0.0] * CELLS
    for low, high in (stretch for finding in run.findings for stretch in finding.lost):
        for at in range(max(0, int((low - begin) / length)), min(CELLS, int((high - begin) / length) + 1)):
            cell = begin + at * length
            lost[at] += max(0.0, min(high, cell + length) - max(low, cell)) / length
    return lost


def lost_shares(before: Snapshot, after: Snapshot) -> tuple[LostShare, ...]:
    """Every cause's share of both runs, as their ledgers have them."""
    shares = [{entry.cause: entry.share for entry in run.ledger} for run in (before, after)]
    causes = dict.fromkeys([*shares[0], *shares[1]])
    rest = [cause for cause in _REST if cause in causes]
    named = [cause for cause in causes if cause not in rest]
    return tuple(LostShare(cause, shares[0].get(cause, 0.0), shares[1].get(cause, 0.0)) for cause in [*named, *rest])
