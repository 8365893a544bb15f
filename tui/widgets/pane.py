"""What all panes are: one widget drawn row by row, which repaints only what has changed."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from perfmon.text import plain

from .asciionly import filters_for
from .render.rows import Fitted, Row, between, changed, cropped, harmless, merged, strip_of, sure
from .skin import Skin
from .timely import Timely


class Pane(Timely, Widget):
    """Rows of text.

    A pane says in `rows` what it shows; `redraw` compares that with what is on the screen and repaints the cells that
    differ. Nothing in a row is markup.
    """

    DEFAULT_CSS = "Pane { width: 1fr; }"

    def __init__(self, skin: Skin, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.skin = skin
        self._drawn: list[Row] = []
        self._drawn_for = (0, 0)
        self._raw: list[Row] = []
        self._strips: dict[int, Strip] = {}
        self._said = ""
        self._titled: tuple[tuple[object, ...], Row] = ((), ())
        """The last title, and what it was made of: it says the same for long."""

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """What to show, a row a line; what is missing stays blank."""
        raise NotImplementedError

    def dress(self, skin: Skin) -> None:
        """Puts on another skin."""
        self.skin = skin
        self._drawn, self._raw = [], []
        self.redraw()

    def tell(self, text: str) -> None:
        """Says something in the first row, where there is no other place for it; "" takes it away."""
        if text != self._said:
            self._said = text
            self.redraw()

    def redraw(self) -> None:
        """Repaints what has changed."""
        width, height = self.region.size  # none where it is not on the screen; a pane has no border of its own
        if not width or not height or not self.display:
            return
        if self._drawn_for != (width, height) or not self._drawn:
            self._draw_anew()
            self.refresh()
            return
        old = self._drawn
        fresh = self._drawn = self._fitted(width, height)
        parts: list[Region] = []
        for y, (before, after) in enumerate(zip(old, fresh, strict=True)):
            span = None if before is after else changed(before, after, width)
            if span is None:
                continue
            # A terminal may count other cells for some characters.
            first, end = span if sure(before) and sure(after) else (0, width)
            self._strips.pop(y, None)
            parts.append(Region(first, y, end - first, 1))
        if parts:
            self.refresh(*parts)

    def _fitted(self, width: int, height: int) -> list[Row]:
        """All rows, fitted to the width."""
        blank: Row = ((" " * width, self.skin.style("text")),)
        made = list(self.rows(width, height))[:height]
        if self._said and made:
            made[0] = ((f" {plain(self._said, 300)}".ljust(width), self.skin.style("accent")),)
        fill = self.skin.style("text")
        raw, self._raw = self._raw, made
        old = self._drawn
        known = min(len(raw), len(old))
        return [
            row
            if isinstance(row, Fitted)
            else old[y]
            if y < known and row == raw[y]  # most are made anew and say the same: to see that costs next to nothing
            else cropped(merged(harmless(row)), width, fill)
            for y, row in enumerate(made)
        ] + [blank] * (height - len(made))

    def render_line(self, y: int) -> Strip:
        """A line of what was drawn last."""
        strip = self._strips.get(y)
        if strip is not None:
            return strip
        width = self.size.width
        if y >= len(self._drawn):
            return Strip.blank(width, self.skin.style("text"))
        strip = self._strips[y] = strip_of(self._drawn[y], width)
        return strip

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of a part: rows carry all their styles, so there is nothing to add to them."""
        width = self.size.width
        if self._drawn_for != (width, self.size.height) and self.display:
            self._draw_anew()  # a new size is painted before the pane is told of it
        strips = [self.render_line(y) for y in range(crop.y, crop.bottom)]
        if crop.x > 0 or crop.right < width:
            strips = [strip.crop(crop.x, crop.right) for strip in strips]
        for line_filter in filters_for(self.skin):
            strips = [strip.apply_filter(line_filter, self.background_colors[1]) for strip in strips]
        return strips

    def on_resize(self) -> None:
        """Another size, another picture."""
        self.redraw()

    def _draw_anew(self) -> None:
        """Draws all rows."""
        self._drawn_for = (self.size.width, self.size.height)
        self._drawn, self._raw = [], []
        self._strips.clear()
        self._drawn = self._fitted(*self._drawn_for)

    def watch_has_focus(self, has_focus: bool) -> None:
        """The title says who has the keys."""
        super().watch_has_focus(has_focus)
        self.redraw()

    def title_row(self, number: int, title: str, left: str, right: str, width: int) -> Row:
        """The rule above a pane: its number, its name, what it says of itself, and its keys."""
        skin, focused = self.skin, self.has_focus
        how = (number, title, left, right, width, skin, focused)
        if how == self._titled[0]:
            return self._titled[1]
        frame = skin.style("frame-focus" if focused else "frame")
        line = skin.glyph("horizontal")
        head = [
            (f"{line}{line} ", frame),
            (f"{number} ", skin.style("footer-key")),
            (f"{title} ", skin.style("title" if focused else "muted")),
            (f" {left} " if left else "", skin.style("muted")),
        ]
        tail = [(f" {right} ", skin.style("faint")), (line * 2, frame)] if right else [(line * 2, frame)]
        row = between(head, tail, width, (line, frame))
        self._titled = how, row
        return row


class Asked(Message):
    """A pane wants something done that is the app's to do."""

    def __init__(self, action: str, about: object = None) -> None:
        super().__init__()
        self.action, self.about = action, about
