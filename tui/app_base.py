"""What handlers may use of the app: its parts, the time that it shows, its own cost."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App

from perfmon.viewmodel import MonitorState

from .terminal.driver import Timely

if TYPE_CHECKING:
    from perfmon.monitor import Monitor

    from .actions import Action
    from .messages import AppOptions
    from .panes.alerts import AlertPane
    from .panes.logs import LogPane
    from .panes.sources import SourcesPane
    from .panes.timeline import BoardPane
    from .theme import ThemeStyles


# --- View of the user: live or at a fixed time, its width, and the time cursor ---

_LEAST_SPAN_S, _MOST_S = 30.0, 7 * 86400.0


@dataclass(slots=True)
class Journey:
    """Changes with every key that moves in time; the app asks for the view that follows from it."""

    span_s: float
    usual_s: float
    end: float | None = None
    """The moment at which the view stands still; None follows the present."""
    cursor: float | None = None
    lines_then: int = 0
    """Lines that had been read when the view was frozen."""

    @property
    def paused(self) -> bool:
        """The view stands still."""
        return self.end is not None

    def pause(self, picture: MonitorState) -> None:
        """Stands still where it is."""
        if self.end is None:
            self.end, self.lines_then = picture.board.viewport.end, picture.lines

    def stands_at(self, picture: MonitorState) -> float | None:
        """The moment that somebody looks at in a view that stands still, of which `picture` is; None: the present."""
        if self.cursor is not None or self.end is None:
            return self.cursor
        port = picture.board.viewport
        # The last column is one that time had not filled yet.
        return picture.now if self.end - port.column_s < picture.now < self.end else self.end

    def live(self) -> None:
        """Follows the present again."""
        self.end = self.cursor = None

    def zoom(self, factor: float) -> None:
        """More (`factor` > 1) or less time."""
        old = self.span_s
        self.span_s = min(_MOST_S, max(_LEAST_SPAN_S, old * factor))
        if self.end is not None and self.cursor is not None:
            # What is under the cursor stays where it is.
            share = (self.end - self.cursor) / old
            self.end = self.cursor + share * self.span_s

    def usual(self) -> None:
        """As much time as is judged."""
        self.zoom(self.usual_s / self.span_s)

    def move(self, columns: int, picture: MonitorState) -> None:
        """Moves the cursor by columns; the view goes along at its edges."""
        self.pause(picture)
        port = picture.board.viewport
        at = self.cursor if self.cursor is not None else min(picture.now, port.end) + port.column_s * (columns < 0)
        self.put(at + columns * port.column_s)

    def put(self, moment: float) -> None:
        """Puts the cursor on a moment."""
        self.cursor = moment
        if self.end is None:
            return
        if moment < self.end - self.span_s:
            self.end = moment + 0.9 * self.span_s
        elif moment > self.end:
            self.end = moment + 0.1 * self.span_s

    def jump(self, moments: Iterable[float], onward: bool, picture: MonitorState) -> bool:
        """To the next of some moments, or the one before; False when there is none."""
        port = picture.board.viewport
        at = self.cursor if self.cursor is not None else picture.now
        slack = 0.51 * port.column_s
        fitting = [time for time in moments if (time > at + slack if onward else time < at - slack)]
        if not fitting:
            return False
        self.pause(picture)
        self.put(min(fitting) if onward else max(fitting))
        return True


# --- Common base of all actions: the parts of the app, and its own methods ---


class Base(Timely, App[int]):
    """The app as its doings see it; `PerfmonApp` has what is not here."""

    monitor: Monitor
    opening: AppOptions
    picture: MonitorState
    journey: Journey
    preset: str
    hidden: set[str]
    zoomed: str | None
    theme_name: str
    board: BoardPane
    alerts: AlertPane
    sources: SourcesPane
    log_pane: LogPane
    skin: ThemeStyles

    def say(self, text: str) -> None:
        """Says something for a few seconds."""
        raise NotImplementedError

    def do(self, action: Action) -> None:
        """Does an action where the keys are."""
        raise NotImplementedError

    def arrange(self) -> None:
        """Lays the panes out anew."""
        raise NotImplementedError

    def dress(self, name: str) -> None:
        """Puts on a theme."""
        raise NotImplementedError

    @property
    def pane_name(self) -> str:
        """The pane that has the keys."""
        raise NotImplementedError

    @property
    def strip(self) -> bool:
        """There is room for the timeline only."""
        raise NotImplementedError

    def shown_panes(self) -> set[str]:
        """The panes that have rows."""
        raise NotImplementedError

    def focus_first(self) -> None:
        """Gives the keys to the first pane that is shown."""
        raise NotImplementedError

    def uncover(self) -> None:
        """Leaves what is open over the panes."""
        while len(self.screen_stack) > 1:
            self.pop_screen()


# --- Resource usage of perfmon itself, shown because a monitor must not slow the run down ---

_STATM = Path("/proc/self/statm")
_LEAST_S = 1.5


class OwnCost:
    """Processor time and memory of this process."""

    def __init__(self) -> None:
        self._at, self._used = time.monotonic(), _cpu_s()
        self.cpu_percent: float | None = None
        """Of one core, since the last look; None before the second one."""
        self.rss_bytes: int | None = None

    def look(self) -> None:
        """Measures again, but not over less than some seconds: processor time is counted in ticks."""
        now = time.monotonic()
        if now - self._at < _LEAST_S and self.cpu_percent is not None:
            return
        used = _cpu_s()
        if now > self._at:
            self.cpu_percent = 100.0 * (used - self._used) / (now - self._at)
        self._at, self._used = now, used
        self.rss_bytes = _rss()


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system


def _rss() -> int | None:
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import psutil  # elsewhere than on Linux

        return int(psutil.Process().memory_info().rss)
