"""Metrics of logs and pollers: last values, quantiles of the window, and thresholds."""

from __future__ import annotations

from collections.abc import Iterable

from perfmon.parts import Part

from .families import Families
from .names import named

STATISTICS = ("p50", "p90", "p95", "p99", "max", "mean")
"""Statistics of the window, by the label `stat`."""
LEVELS = {"good": 0.0, "warning": 1.0, "critical": 2.0}


def add_measured(families: Families, parts: Iterable[Part]) -> None:
    """Three families a metric (last value, window, limits), and the level of the last value for all of them."""
    limited: set[str] = set()
    for part in parts:
        base, factor, operation = named(part.metric)
        labels = {"metric": part.metric, "log": part.source, "group": part.group, "op": operation}
        said = f"of {part.metric}, by log and group"
        families.gauge(f"last_{base}", f"Last value {said}", part.last * factor, **labels)
        for stat in STATISTICS:
            value = getattr(part.summary, stat) * factor
            families.gauge(f"window_{base}", f"Statistics over the window {said}", value, stat=stat, **labels)
        families.gauge("samples", "Samples in the window, by metric, log and group", part.summary.count, **labels)
        if part.level is not None:
            families.gauge(
                "level", "Level of the last value: 0 good, 1 warning, 2 critical", LEVELS[part.level], **labels
            )
            if part.metric not in limited:
                limited.add(part.metric)
                _add_limits(families, part)


def _add_limits(families: Families, part: Part) -> None:
    base, factor, operation = named(part.metric)
    worse = "below" if part.lower_is_worse else "above"
    for name, value in (("good", part.good), ("critical", part.critical)):
        if value is not None:
            families.gauge(
                f"limit_{base}",
                f"Thresholds of {part.metric}: warning starts at good, critical starts at critical",
                value * factor,
                metric=part.metric,
                op=operation,
                limit=name,
                worse=worse,
            )
