"""The base pane, drawn row by row, and panes that list things."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partialmethod

from rich.segment import Segment
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from perfmon.core import plain

from ..render.rows import Fitted, Row, between, cells, changed, crop, merged, sanitize_row
from ..terminal.driver import Timely, filters_for
from ..theme import ThemeStyles

# --- What all panes are: one widget drawn row by row, which repaints only what has changed ---


_LEAST_TITLE = 16
"""Cells of a title that a note leaves it, else it covers all of it."""


class Pane(Timely, Widget):
    """Rows of text.

    A pane returns from `rows` what it shows; `redraw` compares that with what is on the screen and repaints the cells
    that differ. Nothing in a row is markup.
    """

    DEFAULT_CSS = "Pane { width: 1fr; }"

    def __init__(self, skin: ThemeStyles, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.skin = skin
        self._drawn: list[Row] = []
        self._strips: list[Strip] = []
        """Those rows as Textual draws them: it requests lines around those that change, too."""
        self._fits: dict[int, tuple[Row, Row]] = {}
        """Rows by their identity, and as they were fitted: a pane may return some of those of before."""
        self._drawn_for = (0, 0)
        self._note = self._badge = ""

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """Rows to show, one a line; missing ones stay blank."""
        raise NotImplementedError

    def apply_theme(self, skin: ThemeStyles) -> None:
        """Draw everything in another theme."""
        self.skin = skin
        self._drawn, self._strips, self._fits = [], [], {}
        self.redraw()

    def set_note(self, text: str) -> None:
        """Show a text in the first row, where there is no other place for it; "" takes it away."""
        if text != self._note:
            self._note = text
            self.redraw()

    def set_moment(self, text: str) -> None:
        """Show of which moment the pane is, as a badge in its title; "" takes it away."""
        if text != self._badge:
            self._badge = text
            self.redraw()

    @property
    def moment_badge(self) -> Row:
        """The moment as a badge; nothing in a live view."""
        style = "badge-info" if self._badge == "NOW" else "badge-warning"
        return ((f" {self._badge} ", self.skin.style(style)), (" ", self.skin.style("text"))) if self._badge else ()

    def redraw(self) -> None:
        """Repaint what has changed."""
        width, height = self.region.size  # none where it is not on the screen; a pane has no border of its own
        if not width or not height or not self.display:
            return
        if self._drawn_for != (width, height) or not self._drawn:
            self._draw_all()
            self.refresh()
            return
        old, strips = self._drawn, self._strips
        self._drawn = self._fitted(width, height)
        known = {id(row): strip for row, strip in zip(old, strips, strict=True)}  # lines of a log scroll
        parts: list[Region] = []
        for y, (before, after) in enumerate(zip(old, self._drawn, strict=True)):
            span = None if before is after else changed(before, after, width)
            if span is not None:
                parts.append(Region(span[0], y, span[1] - span[0], 1))
                strips[y] = known.get(id(after)) or _strip(after, width)
        if parts:
            self.refresh(*parts)

    def _fitted(self, width: int, height: int) -> list[Row]:
        """All rows, fitted to the width."""
        fill = self.skin.style("text")
        rows = list(self.rows(width, height))[:height]
        if self._note and rows:
            note, shown = f" {plain(self._note, 300)} ", self.skin.style("accent")
            kept = crop(rows[0], width - cells(note), fill) if width - cells(note) >= _LEAST_TITLE else ()
            rows[0] = (*kept, (note if kept else note.ljust(width), shown))
        known, self._fits = self._fits, {}
        blank: Row = ((" " * width, fill),)
        fitted: list[Row] = []
        for row in rows:
            made = known.get(id(row))
            if isinstance(row, Fitted):
                fitted.append(row)
            elif made is not None and made[0] is row:
                fitted.append(made[1])
            else:
                fitted.append(crop(merged(sanitize_row(row)), width, fill))
            self._fits[id(row)] = row, fitted[-1]
        return fitted + [blank] * (height - len(rows))

    def render_line(self, y: int) -> Strip:
        """A line of what was drawn last."""
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width, self.skin.style("text"))

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of a part: rows carry all their styles, so there is nothing to add to them."""
        width = self.size.width
        if self._drawn_for != (width, self.size.height) and self.display:
            self._draw_all()  # a new size is painted before the resize event
        strips = [self.render_line(y) for y in range(crop.y, crop.bottom)]
        if crop.x > 0 or crop.right < width:
            strips = [strip.crop(crop.x, crop.right) for strip in strips]
        for line_filter in filters_for(self.skin):
            strips = [strip.apply_filter(line_filter, self.background_colors[1]) for strip in strips]
        return strips

    def on_resize(self) -> None:
        """Another size, another picture."""
        self.redraw()

    def _draw_all(self) -> None:
        self._drawn_for = (self.size.width, self.size.height)
        self._fits = {}
        self._drawn = self._fitted(*self._drawn_for)
        self._strips = [_strip(row, self._drawn_for[0]) for row in self._drawn]

    def watch_has_focus(self, has_focus: bool) -> None:
        """The title shows the focus."""
        super().watch_has_focus(has_focus)
        self.redraw()

    def title_row(self, number: int, title: str, left: str, right: str, width: int) -> Row:
        """The rule above a pane: its number, its name, its summary, and its keys."""
        skin, focused = self.skin, self.has_focus
        frame = skin.style("frame-focus" if focused else "frame")
        line = skin.glyph("horizontal")
        head = [
            (f"{line}{line} ", frame),
            (f"{number} ", skin.style("footer-key")),
            (f"{title} ", skin.style("title" if focused else "muted")),
            *self.moment_badge,
            (f" {left} " if left else "", skin.style("muted")),
        ]
        tail = [(f" {right} ", skin.style("faint")), (line * 2, frame)] if right else [(line * 2, frame)]
        return between(head, tail, width, (line, frame))


def _strip(row: Row, width: int) -> Strip:
    return Strip([Segment(text, style) for text, style in row], width)


class Request(Message):
    """Something that a pane or page wants the app to do: `request_<action>` of the app does it."""

    def __init__(self, action: str, about: object = None) -> None:
        super().__init__()
        self.action, self.about = action, about


# --- A pane of lines that are more than it has room for: a cursor, scrolling, keys and mouse ---

_WHEEL = 3


class Listing(Pane, can_focus=True):
    """Fixed rows above, and below them those lines that there is room for.

    The cursor stops only at lines that keys can act on; where there is none in sight, keys scroll.
    """

    DEFAULT_CSS = "Listing { height: 1fr; }"
    ALLOW_SELECT = False
    cursor: int | None = None
    """The line that keys act on."""
    top = 0
    """The first line in sight."""
    _above = 0
    _room = 0

    # --- what a kind of listing defines -------------------------------------------------------------------------------
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
        """Act on the line under the cursor."""

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
        """Scroll as little as is needed to have the cursor in sight."""
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

    def _page(self, sign: int) -> None:
        by = sign * max(1, self._room - 1)
        self.top = max(0, min(self.top + by, self.count() - self._room))
        if self.cursor is not None:
            wanted = max(0, min(self.cursor + by, self.count() - 1))
            first, last = self.top, min(self.count(), self.top + self._room)
            near = [at for at in range(first, last) if self.stops_at(at)]
            if near:
                self.cursor = min(near, key=lambda at: abs(at - wanted))
                self.moved()
        self.redraw()

    do_page_down = partialmethod(_page, 1)
    do_page_up = partialmethod(_page, -1)

    # --- the mouse ----------------------------------------------------------------------------------------------------
    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Scroll; the cursor stays where it is."""
        event.stop()
        self.top += _WHEEL
        self.redraw()

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Scroll; the cursor stays where it is."""
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
