"""`--baseline auto`: limits from the healthy start of the run itself.

The start is healthy up to its first finding. Less than LEAST_S of it teach nothing; more than MOST_S are not waited
for. A run that is bad from its first step has a finding at once, so nothing is learned from it, and no limit is ever
learned beyond the critical one in force: that takes `perfmon calibrate`, by somebody who knows the run to be healthy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from perfmon.rules.view import View
from perfmon.rules.wording import counted

from .alignment import Alignment
from .calibration import FEWEST, LEARNED, learn
from .config import FIGURES
from .diagnosis import Knowledge, judge, view_of
from .model import Severity, TimeBase
from .snapshot import Snapshot
from .store import Store
from .units import format_seconds

LEAST_S, MOST_S = 300.0, 1800.0
_LOOKS = (LEAST_S, 600.0, 1200.0, MOST_S)
"""Seconds of the run after which it is looked at; what was learned then is replaced."""
_JUST_BEFORE_S = 1e-3
_MOVED_S = 60.0
"""A log that was laid elsewhere by more than that tells of another start."""


class Baseline:
    """Learns once the run is old enough, and again as it gets older, until it knows its start."""

    def __init__(self, given: Knowledge) -> None:
        self.knowledge = given
        """With the limits that were learned, as far as any were."""
        self.note = ""
        """What came of it, in one line."""
        self._given = given
        self._looked_s = 0.0
        self._shifts: dict[int, float] = {}

    def look(self, store: Store, alignment: Alignment, observed_s: float) -> bool:
        """Looks at the start of the run, as often as is due; whether the limits are others now.

        What is learned does not depend on when it is called, but on what was observed.
        """
        before = self.knowledge
        shifts = dict(alignment.shifts)
        if any(abs(shift - shifts.get(log, 0.0)) > _MOVED_S for log, shift in self._shifts.items()):
            self.knowledge, self._looked_s = self._given, 0.0  # what lay at the start lies elsewhere now
        self._shifts = shifts
        if alignment.base is not TimeBase.NONE and any(self._looked_s < look <= observed_s for look in _LOOKS):
            whole = view_of(store, self._given, alignment)
            start = _Start(store, alignment, whole.whole[0])
            for look in _LOOKS:
                if self._looked_s < look <= whole.observed_s:
                    self._look(start, look)
        return self.knowledge is not before

    def _look(self, start: _Start, seconds: float) -> None:
        """Judges a longer start by what a shorter one taught: what gets worse slowly does not become usual."""
        self._looked_s = seconds
        first = _first_finding(judge(start.view(self.knowledge, seconds), self.knowledge, start.alignment, (), FIGURES))
        if first is not None:
            seconds, self._looked_s = first[0] - _JUST_BEFORE_S, MOST_S
            if seconds < LEAST_S:
                self.note = f"the run does not start healthy ({first[1]}): nothing learned, thresholds unchanged"
                return
        origin = f"{LEARNED} the first {format_seconds(seconds)} of this run"
        view = start.view(self._given, seconds)
        calibration = learn(view.metrics, self._given.bands.holding(view.told_of), origin, capped=True)
        if calibration.learned:
            self.knowledge = replace(self._given, bands=calibration.applied(self._given.bands))
            count = counted(len(calibration.learned), "metric")
            self.note = f"thresholds of {count} learned from the first {format_seconds(seconds)}"
        elif self.knowledge is self._given:
            why = "the thresholds already fit" if calibration.held_already else f"no metric has {FEWEST} samples"
            self.note = f"nothing learned from the first {format_seconds(seconds)}: {why}"


@dataclass(frozen=True, slots=True)
class _Start:
    store: Store
    alignment: Alignment
    begin: float

    def view(self, knowledge: Knowledge, seconds: float) -> View:
        """The first seconds of the run."""
        return view_of(self.store, knowledge, self.alignment, (self.begin, self.begin + seconds))


def _first_finding(snapshot: Snapshot) -> tuple[float, str] | None:
    """When the first finding began, seconds since the start, and its signature; notes and pending ones are none."""
    found = [
        (finding.first_s, finding.signature)
        for finding in snapshot.findings
        if finding.severity is not Severity.INFO and finding.state != "pending"
    ]
    return min(found, default=None)
