"""Several runs at a glance: of each its state, its verdict and the age of its newest line."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from perfmon.core import Config, PerfmonError, TimeBase, format_seconds, format_share, plain
from perfmon.sources import LogGroup
from perfmon.textgraphics import compact

from .state_file import State, read_state, state_of_picture

_WINDOW = "600s"
_MINUTE_S = 60.0
_WRITTEN_S = 300.0
_CURRENT_S = 10.0
"""A running monitor writes its state more often than that."""
_ZONES_S = 15 * 3600.0
"""The clock of a log may be that of any time zone."""
_MANY_STEPS = 100_000.0
"""So many are rounded: a list has little room for them."""
_MOST = 60
_FIRST_DATE = 946_684_800.0
"""Earlier times (before 2000) are times of day, or have no year."""
_UNSURE = ("silent", "unreadable")
"""Words of runs that may need attention."""
_DAY_S = 24 * 3600.0
_STEPS, _UNIT = ("step", "item", "iteration", ""), 8
"""Units that are steps, and the most cells of another one."""
_CONDITIONS = {
    "silent": "no end logged, no output for {}",
    "overdue": "no progress for {}",
    "idle": "no requests for {}",
    "unused": "idle or hung for {}: no output since then",
    "healthy": "no bottleneck found",
    "watch": "a metric is critical, no cause known",
    "learning": "too little progress to judge",
    "unreadable": "no known log format",
}


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in a list of runs."""

    group: LogGroup
    changed: float
    """Time of the last write to its newest log, in seconds since 1970; 0 where none can be read."""
    state: State | None = None
    """None until its logs were looked at."""
    problem: str = ""
    """Reason why they cannot be read."""
    last: float | None = None
    """Time of the last line by the clock of its logs, in seconds since 1970; None where they have no date."""

    @property
    def word(self) -> str:
        """The state of the run in one word."""
        if self.problem:
            return "unreadable"
        if self.state is None:
            return "reading"
        if not self.state.observed:
            return "unknown"  # notes and settings, too, may look like logs
        name = self.state.condition[0]
        if name in ("silent", "idle", "unused"):
            return "silent" if name == "silent" else "idle"
        return self.state.progress or "unknown"

    @property
    def level(self) -> str:
        """That of its state; unknown without one."""
        return "unknown" if self.state is None else self.state.level

    @property
    def severity(self) -> str:
        """The same; of a run that is silent that of the verdict about the time before, if it has one."""
        return (
            self.state.severity
            if self.state is not None and self.word == "silent" and self.state.severity
            else self.level
        )

    @property
    def verdict(self) -> str:
        """Title and cost of the verdict, or why there is none."""
        state = self.state
        if self.problem or state is None:
            return self.problem
        if not state.observed:
            return _CONDITIONS["learning" if state.assessment == "learning" else "unreadable"]
        name, seconds = state.condition
        if name == "silent" and state.dropped:
            return f"hung or dead with {plain(state.dropped, _MOST)}"
        if not state.severity:
            if name == "watch" and state.sentence:
                return state.sentence.partition(": ")[0]
            return _CONDITIONS.get(name, "").format(format_seconds(seconds))
        share = format_share(state.lost_share)
        lost = f", {state.lost_by} lost {share}" if state.lost_by else f", {share} lost"
        lost = lost if state.lost_share > 0 else ""
        before = "before: " if self.word == "silent" else ""
        return f"{before}{state.title}{lost}{f': {state.cause}' if state.cause else ''}"

    @property
    def steps(self) -> str:
        """Steps that are done, and of how many; epochs and the like have that word. "" where no line reports them."""
        state = self.state
        if state is None or state.done is None:
            return ""
        unit = "" if state.counted.removesuffix("s") in _STEPS else f" {plain(state.counted, _UNIT)}"
        return f"{_count(state.done)}{'' if state.total is None else f'/{_count(state.total)}'}{unit}"

    @property
    def left(self) -> str:
        """The time that the rest takes at the present pace; "" where that is unknown, or it does not continue."""
        left = None if self.state is None else self.state.left_s
        return "" if left is None or left <= 0 else format_seconds(left)

    def age_text(self, now: float) -> str:
        """Time since its newest line; `-` where that is unknown.

        A log is dated by its last write; one whose last line is much older was copied, or touched.
        """
        age = max(0.0, now - self.changed)
        if self.last is not None and now - self.last > age + _ZONES_S:
            age = now - self.last
        return "-" if not self.changed else f"{age:.0f} s" if age < _MINUTE_S else format_seconds(age)


def _count(amount: float) -> str:
    return f"{amount:,.0f}" if amount < _MANY_STEPS else compact(amount, 5)


def ordered(rows: Iterable[RunRow]) -> list[RunRow]:
    """Those that need attention first (critical, warning, silent for less than a day), then the newest, at last what no
    format knows; those that are written to all the time by name: a list that changes with each line cannot be read.
    """
    now = time.time()
    rank = {"critical": 0, "warning": 1}

    def place(row: RunRow) -> tuple[int, float, str]:
        age = now - row.changed
        unsure = row.word in _UNSURE and age < _DAY_S
        unread = row.state is not None and not row.state.observed
        attention = 4 if unread else rank.get(row.severity, 2 if unsure else 3)
        return attention, age if age > _WRITTEN_S else 0.0, row.group.name

    return sorted(rows, key=place)


def rows_of(groups: Iterable[LogGroup]) -> list[RunRow]:
    """Runs that were not looked at yet, in the order of `ordered`."""
    return ordered(RunRow(group, _changed(group)) for group in groups)


def look(row: RunRow, config: Config) -> RunRow:
    """The row with the state of its run: of a running monitor, or else by the ends of its logs."""
    from perfmon.monitor import glance  # the list is shown before all that reads logs is loaded

    row = replace(row, changed=_changed(row.group))
    watched = read_state(row.group.specs)
    if watched is not None and watched.age_s <= _CURRENT_S:
        return replace(row, state=watched, problem="")
    try:
        picture = glance(row.group.specs, config, _WINDOW).picture
    except PerfmonError as error:
        return replace(row, problem=plain(str(error), 200))
    state = state_of_picture(row.group.specs, picture)._replace(run="observed")
    last = max((source.last for source in picture.sources if source.last is not None), default=0.0)
    dated = picture.time_base is TimeBase.WALL and last > _FIRST_DATE
    return replace(row, state=state, problem="", last=last if dated else None)


def _changed(group: LogGroup) -> float:
    newest = 0.0
    for path in group.paths:
        with suppress(OSError):
            newest = max(newest, os.stat(path).st_mtime)
    return newest
