"""A pane of lines that are more than it has room for: a cursor, scrolling, keys and mouse."""

from __future__ import annotations

from collections.abc import Sequence

from textual.events import Click, MouseScrollDown, MouseScrollUp

from .pane import Pane
from .render.rows import Row

_WHEEL = 3


class Listing(Pane, can_focus=True):
    """Fixed rows above, and below them those lines that there is room for.

    The cursor stops only at lines that somebody can act on; where there is none in sight, keys scroll.
    """

    DEFAULT_CSS = "Listing { height: 1fr; }"
    ALLOW_SELECT = False
    cursor: int | None = None
    """The line that keys act on."""
    top = 0
    """The first line in sight."""
    _above = 0
    _room = 0

    # --- what a kind of listing says of itself ------------------------------------------------------------------------
    def head(self, width: int, height: int) -> Sequence[Row]:
        """The fixed rows."""
        return ()

    def foot(self, width: int, height: int) -> Sequence[Row]:
        """The fixed rows below."""
        return ()

    def count(self) -> int:
        """Number of lines."""
        raise NotImplementedError

    def line(self, at: int, width: int, ground: str) -> Row:
        """One line, on that ground of the skin."""
        raise NotImplementedError

    def stops_at(self, at: int) -> bool:
        """Return true if the cursor can be on that line."""
        return True

    def moved(self) -> None:
        """The user moved the cursor."""

    def do_open(self) -> None:
        """Acts on the line under the cursor."""

    # --- drawing ------------------------------------------------------------------------------------------------------
    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The head, and the lines in sight."""
        head = list(self.head(width, height))[:height]
        foot = list(self.foot(width, height))[: height - len(head)]
        self._above, self._room = len(head), height - len(head) - len(foot)
        self.top = max(0, min(self.top, self.count() - self._room))
        below = range(self.top, min(self.count(), self.top + self._room))
        blank: list[Row] = [()] * (self._room - len(below) if foot else 0)
        return [*head, *(self.line(at, width, self._ground(at)) for at in below), *blank, *foot]

    def _ground(self, at: int) -> str:
        return "cursor" if at == self.cursor and self.has_focus else "background"

    @property
    def sight(self) -> tuple[int, int]:
        """First line in sight and one past the last, as drawn last."""
        return self.top, min(self.count(), self.top + self._room)

    def place(self, room: int) -> str:
        """`3-9 of 20` where `room` lines are not enough for all, else ""."""
        count = self.count()
        top = max(0, min(self.top, count - room))
        return f"{top + 1}-{min(count, top + room)} of {count}" if 0 < room < count else ""

    def reveal(self) -> None:
        """Scrolls as little as is needed to have the cursor in sight."""
        if self.cursor is not None and self._room:
            self.top = min(self.cursor, max(self.top, self.cursor - self._room + 1))

    # --- moving -------------------------------------------------------------------------------------------------------
    def do_down(self) -> None:
        """To the next line."""
        first, last = self.sight
        begin = self.cursor + 1 if self.cursor is not None and first <= self.cursor < last else first
        self._go(next((at for at in range(begin, min(last + 1, self.count())) if self.stops_at(at)), None), 1)

    def do_up(self) -> None:
        """To the line before."""
        first, last = self.sight
        begin = self.cursor - 1 if self.cursor is not None and first <= self.cursor < last else last - 1
        self._go(next((at for at in range(begin, max(first - 2, -1), -1) if self.stops_at(at)), None), -1)

    def do_page_down(self) -> None:
        """On by what is in sight."""
        self._page(max(1, self._room - 1))

    def do_page_up(self) -> None:
        """Back by what is in sight."""
        self._page(-max(1, self._room - 1))

    def do_top(self) -> None:
        """To the beginning."""
        self.top = 0
        self._go(next((at for at in range(self.count()) if self.stops_at(at)), None), 0)

    def do_bottom(self) -> None:
        """To the end."""
        self.top = self.count()
        self._go(next((at for at in reversed(range(self.count())) if self.stops_at(at)), None), 0)

    def _go(self, to: int | None, scroll: int) -> None:
        if to is None:
            self.top = max(0, self.top + scroll)
        else:
            keep = self.top
            self.cursor = to
            if scroll or not keep <= to < keep + self._room:
                self.reveal()
            self.moved()
        self.redraw()

    def _page(self, by: int) -> None:
        self.top = max(0, min(self.top + by, self.count() - self._room))
        if self.cursor is not None:
            wanted = max(0, min(self.cursor + by, self.count() - 1))
            first, last = self.top, min(self.count(), self.top + self._room)
            near = [at for at in range(first, last) if self.stops_at(at)]
            if near:
                self.cursor = min(near, key=lambda at: abs(at - wanted))
                self.moved()
        self.redraw()

    # --- the mouse ----------------------------------------------------------------------------------------------------
    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Scrolls; the cursor stays where it is."""
        event.stop()
        self.top += _WHEEL
        self.redraw()

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Likewise."""
        event.stop()
        self.top = max(0, self.top - _WHEEL)
        self.redraw()

    def on_click(self, event: Click) -> None:
        """A click chooses a line, a double click acts on it."""
        offset = event.get_content_offset(self)
        at = -1 if offset is None else offset.y - self._above + self.top
        if (
            offset is None
            or not self._above <= offset.y < self._above + self._room
            or at >= self.count()
            or not self.stops_at(at)
        ):
            return
        event.stop()
        self.cursor = at
        self.moved()
        self.redraw()
        if event.chain == 2:
            self.do_open()
