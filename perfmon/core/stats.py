"""Statistics of a list of values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Summary:
    """What `*_stats.txt` and `--json` say of a metric; all in the metric's unit."""

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
    count = len(points)
    if count < 2:
        return 0.0
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread == 0:
        return 0.0
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
