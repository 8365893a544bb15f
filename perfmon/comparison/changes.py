"""Changes between two runs: of each metric, and of each finding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import comb, sqrt

from perfmon.core import (
    CELLS,
    FEWEST_BLOCKS,
    REST,
    Resampled,
    Severity,
    mean_change,
    metric_unit,
    percentile,
    quantile_change,
    resample,
    summarise,
)
from perfmon.diagnosis import Diagnosis, Finding
from perfmon.rules import HIGHER, LOWER, Band, Bands

from .model import LEVELS, FindingChange, FindingSide, Kind, LostShare, MetricChange, MetricVerdict, Run, Shift, Side

# --- How each metric moved, and whether that is more than chance and enough to matter ---

FEWEST = 5
"""With fewer samples of a metric in either run it is not judged."""
MATERIAL = 0.05
"""A change matters from this share of the larger side on, and of the distance from good to critical where there is one.
"""
_MATERIAL_PCT = 1.0
"""Percentages without limits: points."""
_MOST = 200
"""So many metrics are compared; the ones that are judged come first."""
_P50, _P95 = 0.50, 0.95
_QUANTILES = {"p50": _P50, "p95": _P95}
_DECIDES_TOO = {LOWER: "p95", HIGHER: "mean", "": "p95"}
"""Statistic that decides if the mean has not moved: a longer tail is bad, but of throughput only the sum counts."""
_UNSURE = "may be chance"


def metric_changes(before: Run, after: Run) -> tuple[MetricChange, ...]:
    """Every metric of either run, by name."""
    names = sorted(
        (name for name in {*before.samples, *after.samples} if not _is_counter(name, before, after)),
        key=lambda name: (_rank(name, after.bands), name),
    )
    found = {name: _change(name, before, after) for name in names[:_MOST]}
    stages = after.stages
    if stages is not None and not found.keys().isdisjoint(stages.parts):
        whole = found.get(stages.whole)
        moved = whole is not None and whole.verdict in ("better", "worse")
        decide = {stages.whole} if moved else {stages.whole, *stages.parts}
        found = {name: replace(change, explains=name not in decide) for name, change in found.items()}
    return tuple(sorted(found.values(), key=lambda change: change.name))


def _is_counter(name: str, before: Run, after: Run) -> bool:
    """Return true for what only grows in both runs: its mean is no property of a run."""
    if after.bands.direction(name.partition("{")[0]):
        return False
    held = [run.samples.get(name, ()) for run in (before, after)]
    return all(
        len(one) >= FEWEST and one[-1] > one[0] and all(low <= high for low, high in pairwise(one)) for one in held
    )


def _rank(name: str, bands: Bands) -> tuple[int, bool]:
    base = name.partition("{")[0]
    return (0 if bands.get(base) else 1 if bands.direction(base) else 2, base != name)


def _change(name: str, before: Run, after: Run) -> MetricChange:
    base, _, group = name.partition("{")
    better, unit, group = after.bands.direction(base), metric_unit(base), group.removesuffix("}")
    runs = (before, after)
    held = [run.samples.get(name, ()) for run in runs]
    if not (held[0] and held[1]):
        alone = [_side(base, sorted(values), float(len(values)), run) for values, run in zip(held, runs, strict=True)]
        why = "only before" if held[0] else "only after"
        return MetricChange(name, unit, better, alone[0], alone[1], {}, None, why, group=group)
    drawn = [resample(values, tuple(_QUANTILES.values())) for values in held]
    early, late = (_side(base, d.ordered, d.effective, run) for d, run in zip(drawn, runs, strict=True))
    assert early is not None  # noqa: S101 - both have values
    assert late is not None  # noqa: S101
    shifts, band = _shifts(early, late, *drawn), (after.given or after.bands).get(base)
    floor = _floor(base, before, after)
    least = {name: max(floor, _least(name, (early, late), band, unit)) for name in shifts}
    moves = {name: _moves(shift, least[name]) for name, shift in shifts.items()}
    if any(run.by_means for run in runs):
        moves = {name: move if name == "mean" else 0 for name, move in moves.items()}
    matters = abs(shifts["mean"].change) >= least["mean"] and shifts["mean"].change != 0
    verdict, why = _verdict(moves, matters, better, (early, late), drawn)
    return MetricChange(
        name=name,
        unit=unit,
        better=better,
        before=early,
        after=late,
        shifts=shifts,
        verdict=verdict,
        why=why,
        moved=bool(moves["mean"] or moves[_DECIDES_TOO[better]]),
        good_anyway=all(_good(base, d.ordered, run) for d, run in zip(drawn, runs, strict=True)),
        group=group,
        unsure=why == _UNSURE,
    )


def _floor(metric: str, before: Run, after: Run) -> float:
    """The change of a part of the whole, or of what is measured like it, from which on it matters."""
    stages = after.stages
    if stages is None or metric == stages.whole or metric_unit(metric) != metric_unit(stages.whole):
        return 0.0
    means = [sum(held) / len(held) for run in (before, after) if (held := run.samples.get(stages.whole))]
    return LOST * max(means, default=0.0)


def _side(metric: str, ordered: Sequence[float], effective: float, run: Run) -> Side | None:
    if not ordered:
        return None
    band = run.bands.get(metric)
    return Side(summarise(ordered), effective, _level(band, ordered), band.origin if band is not None else "")


def _level(band: Band | None, ordered: Sequence[float]) -> str | None:
    """Level of the bad tail."""
    if band is None:
        return None
    return LEVELS[band.level(percentile(ordered, _P95 if band.higher_is_worse else 1.0 - _P95))]


def _good(metric: str, ordered: Sequence[float], run: Run) -> bool:
    return _level((run.given or run.bands).get(metric), ordered) == "good"


def _shifts(early: Side, late: Side, before: Resampled, after: Resampled) -> dict[str, Shift]:
    shifts = {"mean": Shift(late.summary.mean - early.summary.mean, mean_change(before, after))}
    for statistic, quantile in _QUANTILES.items():
        change = getattr(late.summary, statistic) - getattr(early.summary, statistic)
        shifts[statistic] = Shift(change, quantile_change(before, after, quantile))
    return shifts


def _least(statistic: str, sides: Iterable[Side], band: Band | None, unit: str) -> float:
    """Return the smallest change of a statistic that matters."""
    floor = MATERIAL * abs(band.critical - band.good) if band else _MATERIAL_PCT if unit == "%" else 0.0
    values: list[float] = [getattr(side.summary, statistic) for side in sides]
    return max(floor, *(MATERIAL * abs(value) for value in values))


def _moves(shift: Shift, least: float) -> int:
    """1 up, -1 down, 0 where that may be chance or is too small to matter."""
    if not shift.beyond_chance or abs(shift.change) < least or shift.change == 0:
        return 0
    return 1 if shift.change > 0 else -1


def _verdict(
    moves: Mapping[str, int],
    matters: bool,
    better: str,
    sides: Sequence[Side],
    drawn: Sequence[Resampled],
) -> tuple[MetricVerdict | None, str]:
    counts = [side.summary.count for side in sides]
    if min(counts) < FEWEST:
        return None, f"too few samples: {counts[0]} and {counts[1]}"
    if min(side.blocks for side in drawn) < FEWEST_BLOCKS:
        return None, "too few independent samples"
    decides = "mean" if moves["mean"] else _DECIDES_TOO[better]
    move = moves[decides]
    if better not in (LOWER, HIGHER):
        return None, "has no better direction"
    if not move:
        return (None, _UNSURE) if matters else ("same", "too small to matter")
    return ("better" if (move < 0) == (better == LOWER) else "worse"), decides


# --- Findings that are gone, new or still there, and whose the time was ---

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
    return {signature: _finding_side(held) for signature, held in by_signature.items()}


def _finding_side(findings: list[Finding]) -> FindingSide:
    return FindingSide(
        severity=max((finding.severity for finding in findings), key=lambda severity: severity.rank),
        count=sum(finding.count for finding in findings),
        lost_s=sum(finding.lost_s for finding in findings),
        lost_share=sum(finding.lost_share for finding in findings),
        sentence=max(findings, key=lambda finding: finding.lost_s).sentence,
        explained_by=findings[0].explained_by if all(finding.explained_by for finding in findings) else None,
    )


def _proven(signature: str, found_in: Run, missing_in: Run) -> bool:
    """Return true if the run without the finding was observed well enough to prove that."""
    names = missing_in.looked_for_in.get(signature, ())
    if not names:
        return any(missing_in.seen.values())
    return any(_is_conclusive(found_in.seen.get(name, 0) or ENOUGH, missing_in.seen.get(name, 0)) for name in names)


def _is_conclusive(held: int, looked: int) -> bool:
    """Return true if `looked` observations without it mean anything, given `held` of which at most all showed it."""
    return looked >= min(ENOUGH, held) and _chance(held, held, looked) <= _RARE


def _chance(found: int, held: int, looked: int) -> float:
    """Probability that all of `found` are among `held` observations and none among `looked` more (Fisher, one side)."""
    return comb(held, found) / comb(held + looked, found)


def _rare(signature: str, early: FindingSide | None, late: FindingSide | None, before: Run, after: Run) -> bool:
    """Return true if it is so rare that the other run may lack it by chance; silences are not counted."""
    if not before.looked_for_in.get(signature, ()):
        return False
    side, run, other = (early, before, after) if early is not None else (late, after, before)
    held = _looked(signature, run)
    return side is not None and held > 0 and _chance(min(side.count, held), held, _looked(signature, other)) > _RARE


def _spread(signature: str, sides: tuple[FindingSide | None, FindingSide | None], runs: tuple[Run, Run]) -> int:
    """Return 1 if it shows in clearly more of the observations after, -1 in fewer, as if they were independent.

    They are not: an update that waits has neighbours that do. So this alone is no change.
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
    """Number of observations in which a signature could show."""
    names = run.looked_for_in.get(signature, ()) or run.seen
    return max((run.seen.get(name, 0) for name in names), default=0)


def problem(change: FindingChange) -> bool:
    """Bad for a run: a note is not."""
    return change.severity is not Severity.INFO


def weighty(change: FindingChange, before: Diagnosis, after: Diagnosis) -> bool:
    """More than an isolated event: a run's verdict, or as costly as one has to be, or critical repeatedly."""
    verdicts = {run.verdict.signature for run in (before, after) if run.verdict is not None}
    held = [side for side in (change.before, change.after) if side is not None]
    costs_nothing = all(side.lost_s <= 0 for side in held)
    again = costs_nothing and any(side.severity is Severity.CRITICAL and side.count > 1 for side in held)
    return change.signature in verdicts or again or any(side.lost_share >= LOST for side in held)


def lost_change(before: Diagnosis, after: Diagnosis) -> Shift:
    """Change of the share of time lost to findings; without an interval where a run has no time."""
    shares = [_lost_by_time(run) for run in (before, after)]
    change = _lost_share(after) - _lost_share(before)
    if not (shares[0] and shares[1]):
        return Shift(change, None)
    drawn = [resample(held) for held in shares]
    interval = mean_change(drawn[0], drawn[1])
    if interval is None:
        return Shift(change, None)
    return Shift(change, (min(interval[0], change), max(interval[1], change)))  # only the newest times are known


def _lost_share(run: Diagnosis) -> float:
    return sum(entry.share for entry in run.ledger if entry.cause not in REST)


def _lost_by_time(run: Diagnosis) -> list[float]:
    """The share that was lost of each of many stretches of equal length, in time order.

    Of a finding only the newest intervals are kept: the time before the first of those is left out. Empty where logs
    of several runs lie apart: their times are unknown.
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


def lost_shares(before: Diagnosis, after: Diagnosis) -> tuple[LostShare, ...]:
    """Every cause's share of both runs, as their ledgers have them."""
    shares = [{entry.cause: entry.share for entry in run.ledger} for run in (before, after)]
    causes = dict.fromkeys([*shares[0], *shares[1]])
    rest = [cause for cause in REST if cause in causes]
    named = [cause for cause in causes if cause not in rest]
    return tuple(LostShare(cause, shares[0].get(cause, 0.0), shares[1].get(cause, 0.0)) for cause in [*named, *rest])
