"""What a metric is in each log and group that tells it, so that one sick engine is not hidden among healthy ones."""

from __future__ import annotations

from dataclasses import dataclass

from perfmon.rules.view import View

from .stats import Summary, summarise
from .units import metric_unit

_LEVELS = ("good", "warning", "critical")


@dataclass(frozen=True, slots=True)
class Part:
    """One metric of one log and group over the window."""

    metric: str
    source: str
    """Name of the log that tells it; that of the client for weight updates."""
    group: str
    """Rank, engine, URL, `host:name` ...; "" where the lines name none."""
    unit: str
    """As `units.metric_unit` says; values and limits are in it."""
    summary: Summary
    last: float
    level: str | None
    """Band of `last`: good, warning, critical; None for a metric without a band."""
    good: float | None = None
    critical: float | None = None
    """Limits of the band, as they hold for this run."""
    lower_is_worse: bool = False


def parts(view: View) -> tuple[Part, ...]:
    """Every metric of `view`, by metric, log and group; its cost grows with the samples of the window."""
    return tuple(part for metric in sorted(view.metrics) for part in _parts(metric, view))


def _parts(metric: str, view: View) -> list[Part]:
    track, band = view.metrics[metric], view.bands.get(metric)
    told: dict[tuple[str, str], list[float]] = {}
    for at, value in enumerate(track.values):
        told.setdefault((view.store.sources[track.source(at)].spec, track.group(at)), []).append(value)
    return [
        Part(
            metric=metric,
            source=source,
            group=group,
            unit=metric_unit(metric),
            summary=summarise(values),
            last=values[-1],
            level=None if band is None else _LEVELS[band.level(values[-1])],
            good=None if band is None else band.good,
            critical=None if band is None else band.critical,
            lower_is_worse=band is not None and not band.higher_is_worse,
        )
        for (source, group), values in sorted(told.items())
    ]
