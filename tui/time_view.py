"""The time that the user looks at: live or a fixed range, its length, and the time cursor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from perfmon.viewmodel import MonitorState

_LEAST_SPAN_S, _MOST_S = 30.0, 7 * 86400.0


@dataclass(slots=True)
class TimeNavigation:
    """Changes with every key that moves in time; the app requests the view that follows from it."""

    span_s: float
    usual_s: float
    end: float | None = None
    """The time at which the view is frozen; None follows the present."""
    cursor: float | None = None
    lines_then: int = 0
    """Lines that had been read when the view was frozen."""
    frozen_at: float = 0.0
    """The present when it was frozen."""

    @property
    def paused(self) -> bool:
        """The view is frozen."""
        return self.end is not None

    def pause(self, picture: MonitorState) -> None:
        """Freeze the view where it is."""
        if self.end is None:
            self.end, self.lines_then, self.frozen_at = picture.board.viewport.end, picture.lines, picture.now

    @property
    def stands_at(self) -> float | None:
        """The time that a frozen view is about; None: the present."""
        if self.cursor is not None or self.end is None:
            return self.cursor
        return min(self.end, self.frozen_at)  # the last column is one that time had not filled yet

    def live(self) -> None:
        """Follow the present again."""
        self.end = self.cursor = None

    def zoom(self, factor: float) -> None:
        """Show more (`factor` > 1) or less time."""
        old = self.span_s
        self.span_s = min(_MOST_S, max(_LEAST_SPAN_S, old * factor))
        if self.end is not None and self.cursor is not None:
            # What is under the cursor stays where it is.
            share = (self.end - self.cursor) / old
            self.end = self.cursor + share * self.span_s

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
        if moment < self.end - self.span_s:
            self.end = moment + 0.9 * self.span_s
        elif moment > self.end:
            self.end = moment + 0.1 * self.span_s

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
