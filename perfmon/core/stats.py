"""Statistics of lists of values, and block bootstrap."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import itemgetter

# --- Statistics of a list of values ---


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of a metric for `*_stats.txt` and `--json`; all in the metric's unit."""

    count: int
    mean: float
    stdev: float
    """Of the population: sqrt(mean of squared deviations)."""
    min: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value at `share` (0..1) of an ascending, non-empty sequence, interpolated linearly between neighbours."""
    position = (len(ordered) - 1) * share
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def median(values: Sequence[float]) -> float:
    """The middle of a non-empty sequence."""
    return percentile(sorted(values), 0.5)


def summarise(values: Sequence[float]) -> Summary:
    """Summary of a non-empty sequence; quickest when its values ascend."""
    ordered = sorted(values)
    count = len(ordered)
    mean = math.fsum(ordered) / count
    return Summary(
        count=count,
        mean=mean,
        stdev=math.dist(ordered, [mean] * count) / math.sqrt(count),
        min=ordered[0],
        p50=percentile(ordered, 0.50),
        p90=percentile(ordered, 0.90),
        p95=percentile(ordered, 0.95),
        p99=percentile(ordered, 0.99),
        max=ordered[-1],
    )


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Least-squares slope of (x, y) points, in y per x; 0 for fewer than two distinct x."""
    from statistics import linear_regression  # 2.5 ms that most runs do not need

    if len({x for x, _ in points}) < 2:
        return 0.0
    return linear_regression(*zip(*points, strict=True)).slope


# --- Block bootstrap of a metric's samples: confidence intervals of its mean and quantiles ---
#
# Samples of a run follow each other in time and are alike: sixteen servers take one update at once. So neighbours are
# drawn together. The samples are put into at most CELLS cells of equal counts in time order; blocks of neighbouring
# cells, as long as the cells remember each other (Politis and White, 2004), are drawn with replacement, and the axis is
# closed to a circle. Intervals of quantiles come from the resampled shares of samples below the quantile (Woodruff).
#
# All of it is a pure function of the values. Both sides of a difference use the same random numbers, the one forwards
# and the other backwards: exchanging the sides mirrors the interval exactly.

RESAMPLES = 1000
CELLS = 64
FEWEST_BLOCKS = 5
"""Fewer independent blocks give no interval."""
_TAIL = 0.025
_Z = 1.959964
_BEYOND = 2.0
"""Effective samples beyond a quantile that an interval of it needs."""

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Resampled:
    """The samples of one side, and what came of resampling them."""

    ordered: Sequence[float]
    """All values, ascending."""
    mean: float
    blocks: int
    """Independent blocks that the resampling has."""
    effective: float
    """Number of independent samples with the same information on the mean; at most that of the samples."""
    deviations: Sequence[float]
    """Of each resample's mean from `mean`, as wide as for few blocks they have to be."""
    ranks: Mapping[float, Sequence[float]]
    """By quantile, the deviation of each resample's share of samples below the quantile."""


def resample(values: Sequence[float], quantiles: Sequence[float] = (), resamples: int = RESAMPLES) -> Resampled:
    """Resamples a non-empty sequence that is in time order."""
    count = len(values)
    ordered = sorted(values)
    edges = [count * at // min(count, CELLS) for at in range(min(count, CELLS) + 1)]
    cells = [values[low:high] for low, high in pairwise(edges)]
    sizes = [len(cell) for cell in cells]
    sums = [math.fsum(cell) for cell in cells]
    mean = math.fsum(ordered) / count
    length = block_length([total / size for total, size in zip(sums, sizes, strict=True)])
    blocks = max(1, round(len(cells) / length))
    if blocks < FEWEST_BLOCKS or ordered[0] == ordered[-1]:
        still = [0.0] * resamples
        return Resampled(ordered, mean, blocks, float(count), still, dict.fromkeys(quantiles, still))
    draw = _Draw(sizes, length, blocks, resamples)
    widened = math.sqrt(blocks / (blocks - 1))
    deviations = [widened * (drawn - mean) for drawn in draw.ratios(sums)]
    ranks = {}
    for quantile in quantiles:
        reached = percentile(ordered, quantile).__ge__
        below = [float(sum(map(reached, cell))) for cell in cells]
        usual, wider = sum(below) / count, widened * student(blocks - 1) / _Z
        ranks[quantile] = [wider * (share - usual) for share in draw.ratios(below)]
    return Resampled(ordered, mean, blocks, _effective(ordered, mean, deviations), deviations, ranks)


def mean_change(before: Resampled, after: Resampled) -> Interval | None:
    """95 % interval of the difference of the means; None if there are too few blocks."""
    if min(before.blocks, after.blocks) < FEWEST_BLOCKS:
        return None
    change = after.mean - before.mean
    width = student(_freedom(before, after)) / _Z
    paired = zip(before.deviations, reversed(after.deviations), strict=True)
    return _interval([change + width * (moved - kept) for kept, moved in paired])


def quantile_change(before: Resampled, after: Resampled, quantile: float) -> Interval | None:
    """95 % interval of the difference of a quantile that both were resampled for; None if too few are beyond it."""
    for side in (before, after):
        if side.blocks < FEWEST_BLOCKS or side.effective * min(quantile, 1.0 - quantile) < _BEYOND:
            return None
    kept, moved = (_quantiles(side, quantile) for side in (before, after))
    return _interval([late - early for early, late in zip(kept, reversed(moved), strict=True)])


def _quantiles(side: Resampled, quantile: float) -> list[float]:
    """A quantile in each resample: where its share has shifted, the neighbours in the samples take its place."""
    shares = (min(1.0, max(0.0, quantile - moved)) for moved in side.ranks[quantile])
    return [percentile(side.ordered, share) for share in shares]


def _interval(differences: list[float]) -> Interval:
    """The middle 95 %; the upper end is found as the lower one of the mirrored values, so that both mirror exactly."""
    mirrored = sorted(-difference for difference in differences)
    return percentile(sorted(differences), _TAIL) + 0.0, 0.0 - percentile(mirrored, _TAIL)


def _variance(deviations: Sequence[float]) -> float:
    return math.fsum(value * value for value in deviations) / len(deviations)


def _effective(ordered: Sequence[float], mean: float, deviations: Sequence[float]) -> float:
    count, by_chance = len(ordered), _variance(deviations)
    spread = math.fsum((value - mean) ** 2 for value in ordered) / (count - 1)
    return float(count) if by_chance <= 0 else min(float(count), spread / by_chance)


def _freedom(before: Resampled, after: Resampled) -> float:
    """Degrees of freedom of the difference of two means (Welch)."""
    kept, moved = _variance(before.deviations), _variance(after.deviations)
    parts = kept**2 / (before.blocks - 1) + moved**2 / (after.blocks - 1)
    return (kept + moved) ** 2 / parts if parts > 0 else float(min(before.blocks, after.blocks) - 1)


def student(freedom: float) -> float:
    """The 97.5 % quantile of Student's t, within 1 % from four degrees of freedom on (Cornish-Fisher)."""
    z, first = _Z, (_Z**3 + _Z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def block_length(values: Sequence[float]) -> int:
    """Number of neighbours to draw together: 1 if neighbours are no more alike than others."""
    count = len(values)
    longest = max(1, count // FEWEST_BLOCKS)
    mean = math.fsum(values) / max(count, 1)
    off = [value - mean for value in values]
    spread = math.fsum(value * value for value in off) / max(count, 1)
    if longest < 2 or spread <= 0:
        return 1

    def alike(lag: int) -> float:
        return math.fsum(a * b for a, b in zip(off, off[lag:], strict=False)) / count / spread

    runs = max(5, math.ceil(math.sqrt(math.log10(count))))
    noise = 2 * math.sqrt(math.log10(count) / count)
    known = [alike(lag) for lag in range(1, min(count - 1, longest + runs) + 1)]
    # The last lag that is more than noise, before a run of such that are not.
    last = next(
        (at for at in range(len(known)) if all(abs(value) < noise for value in known[at : at + runs])), len(known)
    )
    if last == 0:
        return 1
    window = min(2 * last, len(known))
    weights = [(lag, min(1.0, 2.0 * (1.0 - lag / (window + 1)))) for lag in range(1, window + 1)]
    total = 1.0 + 2.0 * math.fsum(weight * known[lag - 1] for lag, weight in weights)
    slope = 2.0 * math.fsum(weight * lag * known[lag - 1] for lag, weight in weights)
    if total <= 0:
        return 1
    length = math.cbrt(2.0 * slope**2 / (4.0 / 3.0 * total**2) * count)
    return max(1, min(longest, math.ceil(length)))


class _Draw:
    """Draws blocks of neighbouring cells; what is drawn is the same for everything of the same shape."""

    def __init__(self, sizes: Sequence[int], length: int, blocks: int, resamples: int) -> None:
        self._length = length
        self._getters = _getters(len(sizes), blocks, resamples)
        totals = self._blocks([float(size) for size in sizes])
        self._counts = [sum(get(totals)) for get in self._getters]

    def ratios(self, sums: Sequence[float]) -> list[float]:
        """Of each resample the sum of its blocks per sample in them."""
        totals = self._blocks(sums)
        return [sum(get(totals)) / count for get, count in zip(self._getters, self._counts, strict=True)]

    def _blocks(self, sums: Sequence[float]) -> list[float]:
        """The sum of the block that begins at each cell."""
        if self._length == 1:
            return list(sums)
        running = [0.0, *accumulate([*sums, *sums[: self._length]])]
        return [running[at + self._length] - running[at] for at in range(len(sums))]


@lru_cache(maxsize=128)
def _getters(cells: int, blocks: int, resamples: int) -> list[Callable[[Sequence[float]], tuple[float, ...]]]:
    chance = random.Random(f"perfmon/{cells}/{blocks}")  # noqa: S311 - statistics, no secrets
    return [itemgetter(*chance.choices(range(cells), k=blocks)) for _ in range(resamples)]
