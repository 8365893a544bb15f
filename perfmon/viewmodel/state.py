"""The state of a running monitor at one instant: the diagnosis, and what only a live view needs.

Times are absolute seconds on the run's axis (like `Diagnosis.run.start`), unless a name states otherwise. Everything is
frozen: the monitor's thread makes it, the screen's thread reads it, neither waits for the other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from perfmon.core import Progress, TimeBase, common_folder, plural_of
from perfmon.diagnosis import Assessment, Diagnosis, Finding
from perfmon.sources import grouped

from .board import AlertKey, AlertState, Board, CollectivesState, Overview, Viewport

if TYPE_CHECKING:
    from perfmon.sources.remote import HostState
    from perfmon.store import Seen


BEYOND = 1.5
"""Times the limit of the rhythm: by then a stall would be known."""
_PAUSE_S, _PAUSE = 10.0, 2.0
"""Seconds, and times the usual interval, from which on a pause is shown."""
_UNUSED_S = 60.0
"""Seconds without output of servers from which on it is shown that they may be idle."""
_UNOBTRUSIVE = (Assessment.HEALTHY, Assessment.LEARNING)


class Freshness(StrEnum):
    """Age of a source relative to its rhythm."""

    FRESH = "fresh"
    IDLE = "idle"
    """Silent as its system is without requests: that proves nothing."""
    LAGGING = "lagging"
    STALE = "stale"
    WAITING = "waiting"
    """Nothing was read of it yet."""
    ENDED = "ended"
    """Nothing more will come: a pipe that closed, a complete file."""


class RunState(StrEnum):
    """Activity of the monitor."""

    LOADING = "loading"
    """The existing contents of the logs are being read."""
    LIVE = "live"
    REPLAY = "replay"
    PAUSED = "paused"
    """A replay or demo that stands still; pausing the view of a live run is the screen's own affair."""
    ENDED = "ended"
    """Every source has ended."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A finding through time: it outlives the window that it was found in."""

    number: int
    """From 1, in the order in which alerts appeared; never reused in a session."""
    key: AlertKey
    finding: Finding
    """As it was seen last."""
    state: AlertState
    began: float
    """Time at which it first fired, or became pending."""
    last: float
    """Last occurrence."""
    changed: float
    """Time of the last change of `state`."""
    count: int
    """Occurrences over the whole session, those that left the window included."""
    lost_s: float
    """Seconds lost over the whole session."""
    inhibited_by: str | None = None
    """Signature of the finding that explains it."""
    silenced_until: float | None = None
    flapping: bool = False
    """It changed between firing and resolved several times within its window."""
    activity: tuple[float, ...] = ()
    """Moments of its occurrences, newest last, for a sparkline; bounded."""
    since: float = 0.0
    """Beginning of its present period: later than `began` where it had been over."""
    until: float | None = None
    """The last time at which it is known to hold, if that is not the present: its logs went stale before, or pollers
    prove it later, while the run is silent."""

    def held_until(self, now: float) -> float:
        """Up to when it is known to hold."""
        return now if self.until is None else self.until

    def holds_still(self, now: float) -> bool:
        """Return True if it is known to hold at `now`."""
        over = (AlertState.RESOLVED, AlertState.PENDING, AlertState.UNKNOWN)
        return self.state not in over and self.held_until(now) >= now


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """A log at this instant."""

    index: int
    name: str
    freshness: Freshness
    format: str
    """Packs that recognised its lines, joined by `+`; `unknown` when none did."""
    bytes: int
    lines: int
    events: int
    bytes_per_s: float
    lines_per_s: float
    """Both over the last seconds."""
    age_s: float | None
    """Seconds since something was last read of it; None when nothing was."""
    last: float | None
    """Time of its last dated line."""
    errors: int
    skipped: int
    notes: tuple[str, ...] = ()
    patterns: Mapping[str, int] = field(default_factory=dict)
    unparsed: tuple[str, ...] = ()
    """A few lines that no pattern recognised, made safe to show."""
    offset_s: float | None = None
    """Clock offset against the client's, if weight updates show it."""
    warning_lines: int = 0
    error_lines: int = 0
    """Lines that state a warning, and an error or worse."""
    levels_exact: bool = True
    """All lines were counted for that; otherwise there are at least so many."""


_FEW, _LITTLE = 20, 0.2


def little_is_recognised(source: SourceStatus) -> bool:
    """Return True if so few lines of a log are recognised that a format of its own may help."""
    return source.lines >= _FEW and source.events < _LITTLE * source.lines


def levels_text(sources: Sequence[SourceStatus], room: int) -> str:
    """`12 errors, 30 warnings` of some logs, as much of it as there is room for; "" without any."""
    errors, warnings = sum(one.error_lines for one in sources), sum(one.warning_lines for one in sources)
    more = "" if all(one.levels_exact for one in sources) else "+"
    parts = [(errors, "error", "err"), (warnings, "warning", "warn")]
    full = ", ".join(f"{count}{more} {word}{'s' * (count != 1)}" for count, word, _ in parts if count)
    brief = " ".join(f"{count}{more} {word}" for count, _, word in parts if count)
    least = f"{errors}{more} err" if errors else ""
    return next((text for text in (full, brief, least) if len(text) <= room), "")


@lru_cache(maxsize=8)
def _runs_of(names: tuple[str, ...]) -> Mapping[str, str]:
    if len(names) < 2 or any(":" in name for name in names):
        return {}
    places = {os.path.normpath(f"/{name}"): name for name in names}
    groups = grouped(places, "/" + common_folder(names).strip("/"))
    return {places[path]: one.name for one in groups for path in one.paths} if len(groups) > 1 else {}


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording that is being made, or that failed."""

    path: str
    bytes: int
    since_s: float
    """Seconds since it was begun."""
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class MonitorState:
    """Everything on the screen but the log lines, which the log book holds."""

    number: int
    """Grows with every picture."""
    state: RunState
    time_base: TimeBase
    now: float
    """The present on the axis; where the run is over, a moment soon after its end."""
    window_s: float
    """Seconds before `now` that the snapshot judges."""
    snapshot: Diagnosis | None
    """None until something was read."""
    alerts: tuple[Alert, ...]
    """Most pressing first: firing by cost, then pending, inhibited, resolved."""
    board: Board
    sources: tuple[SourceStatus, ...]
    lines: int
    lines_per_s: float
    progress: float | None
    """Share of the history that was read, 0 to 1; None once all of it was."""
    stale_s: float | None
    """Age of the newest line when it is too old for a verdict about the present; None otherwise."""
    recording: Recording | None = None
    position_s: float | None = None
    duration_s: float | None = None
    speed: float | None = None
    """Of a replay or demo."""
    notices: tuple[str, ...] = ()
    """Messages for the user: rotated logs, a recording that failed; newest last, bounded."""
    seen: tuple[Seen, ...] = ()
    """Latest readings of GPUs, hosts and queues; `Seen.at` is a time on the axis."""
    links: tuple[HostState, ...] = ()
    """The machines that are watched over SSH."""
    actual: float | None = None
    """The present moment, however long the run has had no output, where that is later than `now`: pollers continue."""
    begin: float | None = None
    """The moment of the first line on the axis; None if no line has a time."""
    unjudged_s: float | None = None
    """Age of the verdict, where it is more than a moment and what came since was not judged yet; None otherwise."""
    judged_until: float | None = None
    """The moment up to which was judged, where lines came since then; None otherwise."""
    collectives: CollectivesState | None = None
    """None without logs of NCCL Inspector."""
    overview: Overview | None = None
    """The whole run; None where no line has a time."""
    dated: bool = False
    """The run is not of today: a time of day alone would be taken for one of today."""
    yearless: bool = False
    """Its lines have no year: the axis begins with a leap year."""
    together: bool = False
    """The logs are of several runs, by their folders, and are taken for one."""
    unfound: str = ""
    """Reason why the sources hold no logs when they were opened; "" where they do."""

    @property
    def folder(self) -> str:
        """The folder that all logs lie in, with its last slash; "" where there is none, or only one log."""
        return common_folder([source.name for source in self.sources]) if len(self.sources) > 1 else ""

    @property
    def runs(self) -> Mapping[str, str]:
        """The run of each log by its name, where those of several runs are taken for one; else nothing."""
        return _runs_of(tuple(source.name for source in self.sources)) if self.together else {}

    @property
    def is_over(self) -> bool:
        """The run has ended or failed, by its own logs: that nothing comes any more is no news."""
        return self.snapshot is not None and self.snapshot.run.state in (Progress.FINISHED, Progress.FAILED)

    @property
    def verdict_finding(self) -> Finding | None:
        """The costliest finding of the verdict's signature."""
        return None if self.snapshot is None else self.snapshot.verdict_finding

    @property
    def past_s(self) -> float | None:
        """`stale_s`, unless the verdict holds up to the present all the same, as one does that is that silence."""
        verdict = None if self.snapshot is None else self.snapshot.verdict
        if self.stale_s is None or verdict is None:
            return self.stale_s
        alerts = [alert for alert in self.alerts if alert.finding.signature == verdict.signature]
        return None if any(alert.holds_still(self.now) for alert in alerts) else self.stale_s

    @property
    def before_silence(self) -> bool:
        """The run is silent, and its verdict is about the time before: whether it still runs is the first question."""
        snapshot = self.snapshot
        known = snapshot is not None and snapshot.verdict is not None and snapshot.run.state is not Progress.STALLED
        return known and self.past_s is not None and not self.is_over

    @property
    def dropped(self) -> str:
        """The requests that servers had when their output ended: `48 requests running, 320 waiting`; "" elsewhere."""
        load = None if self.snapshot is None or self.is_over or self.past_s is None else self.snapshot.run.load
        if load is None:
            return ""
        running, waiting = load
        queued = f", {waiting:,.0f} waiting" if waiting else ""
        return f"{running:,.0f} {plural_of(running, 'request')} running{queued}"

    @property
    def pause_since(self) -> float | None:
        """The time since which a run makes no progress, if that is longer than usual; None if it makes
        some, or is idle.
        """
        run = None if self.snapshot is None else self.snapshot.run
        if run is None or run.pace is None or run.idle is not None or run.state is not Progress.RUNNING:
            return None
        if self.unused_since is not None:
            return None
        if self.state in (RunState.ENDED, RunState.LOADING):
            return None
        late = self._known_until - run.pace.last > max(_PAUSE_S, _PAUSE * run.pace.usual_s)
        return run.pace.last if late else None

    @property
    def overdue_s(self) -> float | None:
        """Seconds without progress where the rhythm of the run allows no such pause; None elsewhere.

        The rules may not call it a stall: lines that they do not know may be work.
        """
        since, pace = self.pause_since, None if self.snapshot is None else self.snapshot.run.pace
        late = since is not None and pace is not None and self._known_until - since > BEYOND * pace.limit_s
        return self._known_until - since if late and since is not None else None

    @property
    def idle_since(self) -> float | None:
        """The time since which servers have no request, where there is nothing else to state; None elsewhere."""
        found = self.snapshot
        if found is None or found.assessment not in _UNOBTRUSIVE or self.state in (RunState.ENDED, RunState.LOADING):
            return None
        return found.run.idle

    @property
    def unused_since(self) -> float | None:
        """The time since which servers that print nothing without requests have printed nothing: they are idle or hung;
        None where that is not long, or something else is stated.
        """
        found = self.snapshot
        if found is None or found.verdict is not None or self.state in (RunState.ENDED, RunState.LOADING):
            return None
        since = found.run.unused
        return since if since is not None and self.present - since >= _UNUSED_S else None

    @property
    def _known_until(self) -> float:
        """The present, but not later than what was judged: lines that came since then may report progress."""
        return self.present if self.judged_until is None else min(self.present, self.judged_until)

    @property
    def present(self) -> float:
        """The time that the ages of readings are relative to."""
        return self.now if self.actual is None else max(self.now, self.actual)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The requested part of the axis."""

    end: float | None = None
    """None: the present, and it moves."""
    span_s: float | None = None
    """Seconds; None: as much as is judged."""
    columns: int = 100
    charted: tuple[str, ...] = ()
    """Lanes of metrics that are shown as charts."""
    points: int = 0
    """Parts of the range that a chart shows."""


def empty_picture(window_s: float) -> MonitorState:
    """Return the state before anything was read."""
    return MonitorState(
        number=0, state=RunState.LOADING, time_base=TimeBase.NONE, now=0.0, window_s=window_s, snapshot=None,
        alerts=(), board=Board(Viewport(0.0, window_s, 1), (), (), ()), sources=(), lines=0, lines_per_s=0.0,
        progress=0.0, stale_s=None,
    )  # fmt: skip
