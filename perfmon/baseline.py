"""`--baseline auto`: limits from the healthy start of the run itself.

The start is healthy up to its first finding. Less than LEAST_S of it teach nothing; more than MOST_S are not waited
for. A run that is bad from its first step has a finding at once, so nothing is learned from it, and no limit is ever
learned beyond the critical one in force: that takes `perfmon calibrate`, by somebody who knows the run to be healthy.
"""

from __future__ import annotations

from dataclasses import replace

from .alignment import Alignment
from .calibration import LEARNED, Calibration, learn
from .diagnosis import Knowledge, judge, view_of
from .model import Severity, TimeBase
from .snapshot import Snapshot
from .store import Store
from .units import format_seconds

LEAST_S, MOST_S = 300.0, 1800.0
_LOOKS = (LEAST_S, 600.0, 1200.0, MOST_S)
"""Seconds of the run after which it is looked at; what was learned then is replaced."""


class Baseline:
    """Learns once the run is old enough, and again as it gets older, until it knows its start."""

    def __init__(self, given: Knowledge) -> None:
        self.knowledge = given
        """With the limits that were learned, as far as any were."""
        self.note = ""
        """What came of it, in one line."""
        self._given = given
        self._looked_s = 0.0

    def look(self, store: Store, alignment: Alignment, observed_s: float) -> bool:
        """Looks at the start of the run, when that is due; whether the limits are others now."""
        due = max((look for look in _LOOKS if look <= observed_s), default=0.0)
        if due <= self._looked_s or alignment.base is TimeBase.NONE:
            return False
        self._looked_s = due
        healthy = self._healthy(store, alignment, due)
        if healthy < LEAST_S:
            return False
        self._looked_s = max(self._looked_s, MOST_S if healthy < due else 0.0)
        calibration = self._learn(store, alignment, healthy)
        if not calibration.learned:
            return False
        self.knowledge = replace(self._given, bands=calibration.applied(self._given.bands))
        self.note = f"limits of {len(calibration.learned)} metrics learned from the first {format_seconds(healthy)}"
        return True

    def _healthy(self, store: Store, alignment: Alignment, seconds: float) -> float:
        """For how many of the first seconds of the run nothing was found."""
        begin = view_of(store, self._given, alignment).whole[0]
        view = view_of(store, self._given, alignment, (begin, begin + seconds))
        first = _first_finding(judge(view, self._given, alignment, (), rows=0))
        if first is None:
            return seconds
        at, signature = first
        if at < LEAST_S:
            self._looked_s = MOST_S
            self.note = f"the run does not begin healthy ({signature}): nothing is learned, the limits stay"
        return at

    def _learn(self, store: Store, alignment: Alignment, seconds: float) -> Calibration:
        begin = view_of(store, self._given, alignment).whole[0]
        view = view_of(store, self._given, alignment, (begin, begin + seconds))
        origin = f"{LEARNED} the first {format_seconds(seconds)} of this run"
        return learn(view.metrics, self._given.bands, origin, capped=True)


def _first_finding(snapshot: Snapshot) -> tuple[float, str] | None:
    """When the first finding began, seconds since the start, and its signature; notes and pending ones are none."""
    found = [
        (finding.first_s, finding.signature)
        for finding in snapshot.findings
        if finding.severity is not Severity.INFO and finding.state != "pending"
    ]
    return min(found, default=None)
