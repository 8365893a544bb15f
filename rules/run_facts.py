"""What is known of a run: its data with what is open ended for now, each reading once, and the facts that follow.

A run that goes on and one that is over go through the same here; where somebody watches (`present`), what has begun and
not ended counts as far as it has come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from perfmon.core import Window, length, union, without

from .activity import Activity, activity_of, inner_of, startup_of
from .death import Death
from .duplicate_engines import DuplicateEngines, find_duplicate_engines
from .finished import death_of_run, failed_start, over_at
from .goals import TimeLimit, Way, held_up, limit_of, productive_of, way_of
from .open_spans import begun, in_flight, still_open
from .run_boundaries import Restart, apart, dark_run, restarts_of
from .run_state import RunState, state_of
from .run_view import BY_START, RunView
from .runs import Boundary, boundaries, downtime_of, pauses_of, run_began, started, wasted_of
from .silence import Quiet, bygone_of, quiet_logs
from .stalls import Stall, stalls_of
from .tracks import UPDATE, Item, Track


@dataclass
class View(RunView):
    """What conditions and reports see of a run."""

    # --- one normalisation ------------------------------------------------------------------------------------
    @cached_property
    def _spans(self) -> dict[str, list[Item]]:
        """Those that have ended; while somebody watches with what is certain already of those that have not."""
        spans = self._ended_spans()
        if self.recent_spans is not None:
            if UPDATE in spans:
                waiting = in_flight(self.recent_spans[UPDATE], self)
                spans[UPDATE] = sorted((*spans[UPDATE], *waiting), key=BY_START)
            for kind, opened in still_open(self, spans).items():
                spans[kind] = sorted((*spans.get(kind, ()), *opened), key=BY_START)
        return spans

    @cached_property
    def _twice(self) -> DuplicateEngines | None:
        return find_duplicate_engines(self)

    @cached_property
    def _judged(self) -> Mapping[str, Track]:
        """The tracks without what a log and a poller both tell."""
        twice = self._twice
        return self.metrics if twice is None else {name: twice.once(track) for name, track in self.metrics.items()}

    @cached_property
    def marks(self) -> dict[str, Track]:
        """Every mark's track, likewise."""
        tracks, twice = self._all_marks(), self._twice
        return tracks if twice is None else {name: twice.once(track) for name, track in tracks.items()}

    def tells_apart(self, metric: str, group: str) -> bool:
        """Whether a metric is told of this group."""
        if super().tells_apart(metric, group):
            return True
        return self._twice is not None and metric in self._judged and (metric, group) in self._twice.given

    # --- facts ------------------------------------------------------------------------------------------------
    @property
    def begun(self) -> Mapping[str, Sequence[float]]:
        """When spans began that have not ended, by kind."""
        return self.fact(begun)

    @property
    def quiet_logs(self) -> list[Quiet]:
        """Stretches without a line, log by log."""
        return self.fact(quiet_logs)

    @property
    def bygone(self) -> Mapping[int, float]:
        """Logs whose run is over, by index, with the moment at which it was."""
        return self.fact(bygone_of)

    @property
    def apart(self) -> list[Window]:
        """The time between different runs."""
        return self.fact(apart)

    @property
    def restarts(self) -> list[Restart]:
        """Where a later run begins in the same logs."""
        return self.fact(restarts_of)

    @property
    def dark(self) -> list[Window]:
        """Stretches in which no log printed a line, whatever the cause."""
        return self.fact(dark_run)

    @property
    def activity(self) -> Activity:
        """The progress that the logs tell of."""
        return self.fact(activity_of)

    @property
    def inner(self) -> set[int]:
        """The ids of the counters that count within another one."""
        return self.fact(inner_of)

    @property
    def way(self) -> Way | None:
        """How far the run is."""
        return self.fact(way_of)

    @property
    def limit(self) -> TimeLimit | None:
        """How long it may last."""
        return self.fact(limit_of)

    @property
    def stalls(self) -> list[Stall]:
        """Where the run stood still."""
        return self.fact(stalls_of)

    @property
    def productive(self) -> list[Window]:
        """The time of which evidence shows that it was spent on progress."""
        return self.fact(productive_of)

    @property
    def startup(self) -> list[Window]:
        """The time before the run got under way."""
        return self.fact(startup_of)

    @property
    def boundaries(self) -> list[Boundary]:
        """Where later runs begin in the same logs."""
        return self.fact(boundaries)

    @property
    def run_began(self) -> float:
        """When the last run in the logs began."""
        return self.fact(run_began)

    @property
    def started(self) -> float:
        """When the start of that began, with the tries of it that failed."""
        return self.fact(started)

    @property
    def downtime(self) -> list[Window]:
        """The time between a run and the one that resumed it."""
        return self.fact(downtime_of)

    @property
    def wasted(self) -> list[Window]:
        """The time in which steps were made again."""
        return self.fact(wasted_of)

    @property
    def pauses(self) -> list[Window]:
        """The time between runs that lines divide."""
        return self.fact(pauses_of)

    @property
    def death(self) -> Death | None:
        """What the last run in the logs died of."""
        return self.fact(death_of_run)

    @property
    def over_at(self) -> float | None:
        """When the run failed or ended; None where it goes on."""
        return self.fact(over_at)

    @property
    def state(self) -> RunState:
        """How the run stands."""
        return self.fact(state_of)

    def held_up(self, kind: str) -> list[Window]:
        """The time in which a phase of a kind held up the work."""
        return held_up(kind, self)

    @cached_property
    def observed_s(self) -> float:
        """Seconds of the window but for those between different runs."""
        return length(without([self.window], self.apart)) if self.window[1] > self.window[0] else 0.0

    @cached_property
    def interrupted(self) -> list[Window]:
        """The time in which no process was left that could go on, or one made steps again after that."""
        after = [(self.death.time, self.window[1])] if self.death is not None and self.timed else []
        return union([*self.downtime, *self.wasted, *after])

    @cached_property
    def failed_start(self) -> Death | None:
        """What the last start died of, while it is tried once more."""
        return failed_start(self) if self.death is None else None
