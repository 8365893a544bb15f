"""One `*_stats.txt`: the statistics of a metric, one figure a line, as a person and `awk` can read it."""

from __future__ import annotations

from collections.abc import Iterator

from perfmon.snapshot import MetricStats

from .layout import one_line
from .wording import STATISTICS, limits_text, percent


def stats_text(metric: MetricStats) -> Iterator[str]:
    """Name and unit, then `statistic value` in that unit, then the share of samples in each band."""
    yield f"{one_line(metric.name, 200)}" + (f" ({one_line(metric.unit, 40)})" if metric.unit else "")
    for name in STATISTICS:
        yield f"{name:<9}{getattr(metric.summary, name):.10g}"
    yield f"{'last':<9}{metric.last:.10g}"
    if metric.band is None:
        return
    yield f"band     {metric.band}" + (
        f" (thresholds from {one_line(metric.bands_from, 80)})" if metric.bands_from else ""
    )
    for band, limit in zip(("good", "warning", "critical"), limits_text(metric), strict=True):
        yield f"{band:<9}{percent(metric.band_shares.get(band, 0.0)):>8} of samples  {limit}"


def absent_text(name: str) -> Iterator[str]:
    """Content of the file of a metric without data."""
    yield name
    yield "count    0"
    yield "not observed"
