"""How each metric moved, and whether that is more than chance and enough to matter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from perfmon.resampling import FEWEST_BLOCKS, Interval, Resampled, mean_change, quantile_change, resample
from perfmon.rules.bands import HIGHER, LOWER, Band, Bands
from perfmon.stats import percentile, summarise
from perfmon.units import metric_unit

from .runs import Run
from .values import MetricChange, Said, Shift, Side

FEWEST = 5
"""With fewer samples of a metric in either run nothing is said about it."""
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
"""What decides where the mean has not moved: a longer tail is no good news, but of throughput the sum is all."""
_UNSURE = "may be chance"
_LEVELS = ("good", "warning", "critical")


def metric_changes(before: Run, after: Run) -> tuple[MetricChange, ...]:
    """Every metric of either run, by name."""
    names = sorted({*before.samples, *after.samples}, key=lambda name: (_rank(name, after.bands), name))
    changes = [_change(name, before, after) for name in names[:_MOST]]
    return tuple(sorted(changes, key=lambda change: change.name))


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
    moves = {name: _moves(shift, _least(name, (early, late), band, unit)) for name, shift in shifts.items()}
    matters = abs(shifts["mean"].change) >= _least("mean", (early, late), band, unit) and shifts["mean"].change != 0
    verdict, why = _said(moves, matters, better, (early, late), drawn)
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


def _side(metric: str, ordered: Sequence[float], effective: float, run: Run) -> Side | None:
    if not ordered:
        return None
    band = run.bands.get(metric)
    return Side(summarise(ordered), effective, _level(band, ordered), band.origin if band is not None else "")


def _level(band: Band | None, ordered: Sequence[float]) -> str | None:
    """Of the bad tail."""
    if band is None:
        return None
    return _LEVELS[band.level(percentile(ordered, _P95 if band.higher_is_worse else 1.0 - _P95))]


def _good(metric: str, ordered: Sequence[float], run: Run) -> bool:
    return _level((run.given or run.bands).get(metric), ordered) == "good"


def _shifts(early: Side, late: Side, before: Resampled, after: Resampled) -> dict[str, Shift]:
    shifts = {"mean": Shift(late.summary.mean - early.summary.mean, mean_change(before, after))}
    for statistic, quantile in _QUANTILES.items():
        change = getattr(late.summary, statistic) - getattr(early.summary, statistic)
        shifts[statistic] = Shift(change, quantile_change(before, after, quantile))
    return shifts


def _least(statistic: str, sides: Iterable[Side], band: Band | None, unit: str) -> float:
    """From which change on a statistic matters."""
    floor = MATERIAL * abs(band.critical - band.good) if band else _MATERIAL_PCT if unit == "%" else 0.0
    values: list[float] = [getattr(side.summary, statistic) for side in sides]
    return max(floor, *(MATERIAL * abs(value) for value in values))


def _beyond_chance(ci95: Interval | None) -> bool:
    return ci95 is not None and (ci95[0] > 0 or ci95[1] < 0)


def _moves(shift: Shift, least: float) -> int:
    """1 up, -1 down, 0 where that may be chance or is too small to matter."""
    if not _beyond_chance(shift.ci95) or abs(shift.change) < least or shift.change == 0:
        return 0
    return 1 if shift.change > 0 else -1


def _said(
    moves: Mapping[str, int],
    matters: bool,
    better: str,
    sides: Sequence[Side],
    drawn: Sequence[Resampled],
) -> tuple[Said | None, str]:
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
