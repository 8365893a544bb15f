"""How a run stands, in the few words and figures that a status line has room for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .text import evidence_text

if TYPE_CHECKING:
    from .picture import Picture
    from .snapshot import MetricStats, Snapshot

POINTS = 24
"""Values of the headline metric that are kept, over the window."""


class State(NamedTuple):
    """How a run stands."""

    specs: tuple[str, ...]
    """What is observed: absolute paths where they are paths."""
    age_s: float
    """Seconds since it was written."""
    run: str
    """What the monitor is doing (`picture.RunState`), or `observed` for a single look."""
    severity: str
    """Of the verdict: critical, warning, info; "" when there is no bottleneck."""
    signature: str
    """Of the verdict; "" without one."""
    title: str
    sentence: str
    lost_s: float
    lost_share: float
    """Fraction of the window that the verdict costs."""
    firing: int
    """Alerts that fire; findings, for a single look."""
    observed: bool
    """Some line was recognised."""
    stale_s: float | None = None
    """Age of the newest line, when it is too old for a verdict."""
    metric: str = ""
    """The metric that tells most of the verdict; "" when none does."""
    unit: str = ""
    value: float | None = None
    """Its last value."""
    values: tuple[float | None, ...] = ()
    """The largest of each part of the window, oldest first; None where nothing was measured."""
    progress: str = ""
    """The state of the run itself, as its logs prove it; "" where nothing was read."""
    assessment: str = ""
    """What can be said of it as a whole."""


def firing_of(picture: Picture) -> int:
    """How many alerts of a picture fire."""
    return sum(alert.state in ("firing", "acked") for alert in picture.alerts)


def state_of_picture(specs: tuple[str, ...], picture: Picture) -> State:
    """How a live run stands."""
    stale_s = None if picture.is_over else picture.past_s
    if not picture.is_over and stale_s is None and (picture.snapshot is None or picture.snapshot.verdict is None):
        # What a silent log would have said is not known: that is not green.
        ages = [source.age_s for source in picture.sources if source.freshness == "stale" and source.age_s is not None]
        stale_s = max(ages, default=None)
    return state_of(specs, picture.snapshot, picture.state.value, firing_of(picture), stale_s)


def state_of(
    specs: tuple[str, ...], snapshot: Snapshot | None, run: str, firing: int | None = None, stale_s: float | None = None
) -> State:
    """How a run stands; without `firing`, the findings that fire are counted, but those that another one explains."""
    verdict = snapshot.verdict if snapshot else None
    if firing is None:
        found = snapshot.findings if snapshot else ()
        told = {finding.signature for finding in found if finding.state == "firing"}
        firing = sum(finding.state == "firing" and finding.explained_by not in told for finding in found)
    metric = _headline(snapshot) if snapshot else None
    return State(
        specs=specs,
        age_s=0.0,
        run=run,
        severity=verdict.severity.value if verdict else "",
        signature=evidence_text(verdict.signature) if verdict else "",
        title=evidence_text(verdict.title) if verdict else "",
        sentence=evidence_text(verdict.sentence) if verdict else evidence_text(snapshot.summary) if snapshot else "",
        lost_s=_finite(verdict.lost_s) or 0.0 if verdict else 0.0,
        lost_share=_finite(verdict.lost_share) or 0.0 if verdict else 0.0,
        firing=firing,
        observed=any(source.events for source in snapshot.run.sources) if snapshot else False,
        stale_s=_finite(stale_s),
        metric=evidence_text(metric.name) if metric else "",
        unit=evidence_text(metric.unit) if metric else "",
        value=_finite(metric.last) if metric else None,
        values=_values(metric, snapshot.run.wall_s) if metric and snapshot else (),
        progress=snapshot.run.state.value if snapshot else "",
        assessment=snapshot.assessment.value if snapshot else "",
    )


def _headline(snapshot: Snapshot) -> MetricStats | None:
    """The metric of the verdict's first condition that names one; without a verdict the one that is critical most."""
    verdict = snapshot.verdict
    if verdict is not None:
        told = [finding for finding in snapshot.findings if finding.signature == verdict.signature]
        words = [word for finding in told for one in finding.conditions for word in one.text.replace(":", " ").split()]
        return next((snapshot.metrics[word] for word in words if word in snapshot.metrics), None)
    banded = [metric for metric in snapshot.metrics.values() if metric.band not in (None, "good")]
    return max(banded, key=lambda metric: metric.band_shares.get("critical", 0.0), default=None)


def _values(metric: MetricStats, wall_s: float) -> tuple[float | None, ...]:
    kept: list[float | None] = [None] * POINTS
    for time_s, value in metric.series:
        at = min(POINTS - 1, max(0, int(time_s / wall_s * POINTS))) if wall_s > 0 else POINTS - 1
        before = kept[at]
        if _finite(value) is not None and (before is None or value > before):
            kept[at] = value
    return tuple(kept)


def _finite(value: float | None) -> float | None:
    return value if value is not None and abs(value) < 1e300 else None
