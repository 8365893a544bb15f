"""What of a run is compared: its diagnosis, its samples in time order, and how often what rules look at was seen."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfmon.calibration import uncalibrated
from perfmon.diagnosis import Knowledge
from perfmon.rules.bands import Bands, load_bands
from perfmon.rules.schema import Signature
from perfmon.rules.tracks import Track
from perfmon.rules.view import View
from perfmon.snapshot import Snapshot

GROUPS = 16
"""So many groups of a metric are compared one by one; with more, none."""


@dataclass(frozen=True, slots=True)
class Run:
    """One side of a comparison."""

    snapshot: Snapshot
    bands: Bands
    """With the limits that hold for this run."""
    samples: Mapping[str, Sequence[float]]
    """Values in time order, by `metric` or `metric{group}`."""
    seen: Mapping[str, int] = field(default_factory=dict)
    """How often each kind of span, metric, mark and progress was observed."""
    looked_for_in: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Spans and metrics of which one at least must be there for a signature to show; () where silence tells too."""
    given: Bands | None = None
    """Limits that somebody set. Learned ones say what is usual, and leave room for noise in which a change may hide."""


def run_of(snapshot: Snapshot, view: View, knowledge: Knowledge) -> Run:
    """Takes from a view what is needed of it: the rest may be forgotten."""
    samples: dict[str, Sequence[float]] = {}
    for name, track in view.metrics.items():
        samples[name] = array("d", track.values)
        if view.bands.direction(name):  # of what is judged somebody wants to know which engine it was
            samples |= _grouped(name, track)
    looked_for_in = {signature.id: _looked_for_in(signature) for signature in knowledge.signatures}
    given = uncalibrated(view.bands, load_bands()).holding(view.told_of)
    return Run(snapshot, view.bands, samples, _seen(view), looked_for_in, given)


def _looked_for_in(signature: Signature) -> tuple[str, ...]:
    """Marks are printed when something is wrong, and so are silences: that there are none is good news."""
    if any(subject.kind not in ("span", "metric") for subject in signature.subjects):
        return ()
    return tuple(subject.name for subject in signature.subjects)


def _grouped(name: str, track: Track) -> dict[str, Sequence[float]]:
    """The samples of each group, where there are several: engines, servers, queues."""
    groups: dict[str, array[float]] = {}
    for at, value in enumerate(track.values):
        group = track.group(at)
        if group not in groups and len(groups) == GROUPS:
            return {}
        groups.setdefault(group, array("d")).append(value)
    return {f"{name}{{{group}}}": values for group, values in groups.items() if group} if len(groups) > 1 else {}


def _seen(view: View) -> Counter[str]:
    seen = Counter({kind: len(view.spans(kind)) for kind in view.span_kinds})
    for tracks in (view.metrics, view.marks, view.steps):
        for name, track in tracks.items():
            seen[name] = max(seen[name], len(track))
    return seen
