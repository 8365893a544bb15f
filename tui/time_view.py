"""The time that the user looks at: live or a fixed range, its length, and the time cursor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from perfmon.viewmodel import MonitorState

_LEAST_SPAN_S = 5.0
MOST_S = 400 * 86400.0
"""Longer than any run: all of it is in view then."""


@dataclass(slots=True)
class TimeNavigation:
    """Changes with every key that moves in time; the app requests the view that follows from it."""

    span_s: float | None = None
    """Seconds in view; None: as much as is judged."""
    end: float | None = None
    """The time at which the view is frozen; None follows the present."""
    cursor: float | None = None
    lines_then: int = 0
    """Lines that had been read when the view was frozen."""
    frozen_at: float = 0.0
    """The present when it was frozen."""
    _live_s: float | None = None
    _frozen_s: float | None = None
    """Span before the view was frozen, and since."""

    @property
    def paused(self) -> bool:
        """The view is frozen."""
        return self.end is not None

    def pause(self, picture: MonitorState) -> None:
        """Freeze the view where it is."""
        if self.end is None:
            port = picture.board.viewport
            self.end, self.lines_then, self.frozen_at = port.end, picture.lines, picture.now
            self._live_s, self._frozen_s = self.span_s, port.end - port.start
            self.span_s = self._frozen_s

    @property
    def stands_at(self) -> float | None:
        """The time that a frozen view is about; None: the present."""
        if self.cursor is not None or self.end is None:
            return self.cursor
        return min(self.end, self.frozen_at)  # the last column is one that time had not filled yet

    def live(self) -> None:
        """Follow the present again, over as much time as before, unless that was changed in between."""
        if self.end is not None and self.span_s == self._frozen_s:
            self.span_s = self._live_s
        self.end = self.cursor = None

    def zoom(self, factor: float, picture: MonitorState) -> None:
        """Show more (`factor` > 1) or less time than the picture does."""
        port = picture.board.viewport
        old = self.span_s if self.span_s is not None and self.end is not None else port.end - port.start
        self.span_s = span = min(MOST_S, max(_LEAST_SPAN_S, old * factor))
        if self.end is not None and self.cursor is not None:
            # What is under the cursor stays where it is.
            self.end = self.cursor + (self.end - self.cursor) / old * span

    def show(self, start: float, end: float, picture: MonitorState) -> None:
        """Show a range of time; one that reaches the present follows it."""
        self.pause(picture)
        self.cursor = None
        self.span_s = self._frozen_s = min(MOST_S, max(_LEAST_SPAN_S, end - start))
        self.end = (start + end + self.span_s) / 2
        if self.end >= picture.now:
            self.end = None

    def move(self, columns: int, picture: MonitorState) -> None:
        """Move the cursor by columns; at its edges the view moves too."""
        self.pause(picture)
        port = picture.board.viewport
        at = self.cursor if self.cursor is not None else min(picture.now, port.end) + port.column_s * (columns < 0)
        self.put(at + columns * port.column_s)

    def put(self, moment: float) -> None:
        """Put the cursor on a time."""
        self.cursor = moment
        if self.end is None:
            return
        span = self.span_s or _LEAST_SPAN_S
        if moment < self.end - span:
            self.end = moment + 0.9 * span
        elif moment > self.end:
            self.end = moment + 0.1 * span

    def jump(self, moments: Iterable[float], onward: bool, picture: MonitorState) -> bool:
        """Go to the next of some times, or the one before; False when there is none."""
        port = picture.board.viewport
        at = self.cursor if self.cursor is not None else picture.now
        slack = 0.51 * port.column_s
        fitting = [time for time in moments if (time > at + slack if onward else time < at - slack)]
        if not fitting:
            return False
        self.pause(picture)
        self.put(min(fitting) if onward else max(fitting))
        return True
