"""Pages of text: parse coverage of the logs, and the help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfmon.viewmodel import MonitorState, SourceStatus

from ..render.help import help_lines
from ..render.rows import Entry, Row, between
from ..render.sources import doctor
from ..theme import ThemeStyles
from ..widgets.overlays import Page


class DoctorPage(Page):
    """Parse coverage of each log, live; it starts at the log `about`."""

    def __init__(self, skin: ThemeStyles, picture: MonitorState, about: SourceStatus | None = None) -> None:
        super().__init__(skin, id="doctor")
        self._picture = picture
        self._about = about

    def show(self, picture: MonitorState) -> None:
        """Show a newer picture."""
        self._picture = picture
        self.forget()
        self.redraw()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """Return the rows in view."""
        if self._about is not None:
            starts = doctor(self._picture, self.skin, width)[1]
            at = next((i for i, s in enumerate(self._picture.sources) if s.index == self._about.index), 0)
            self.top, self._about = starts[at] if at < len(starts) else 0, None
        return super().rows(width, height)

    def head(self, width: int, height: int) -> Sequence[Row]:
        """Return the title row."""
        skin = self.skin
        left = [(" doctor ", skin.style("title", "panel")), ("parse coverage", skin.style("muted", "panel"))]
        right = [(f" {self.place(height - 1)}  esc back ", skin.style("footer-key", "panel"))]
        return (between(left, right, width, (" ", skin.style("panel"))),)

    def layout_entries(self, width: int) -> Sequence[Entry]:
        """Lay out all logs, one below another."""
        return [Entry(words) for words in doctor(self._picture, self.skin, width)[0]]


class HelpPage(Page):
    """Every key, command and symbol, first the keys of the pane `pane_name`; `keys` are those that the user chose."""

    def __init__(self, skin: ThemeStyles, pane_name: str, keys: Mapping[str, str]) -> None:
        super().__init__(skin, id="help")
        self._pane, self._keys = pane_name, keys

    def head(self, width: int, height: int) -> Sequence[Row]:
        """Return the title row, with the number of further lines."""
        skin = self.skin
        more = max(0, self.count() - self.top - (height - 1))
        left = [(" help ", skin.style("title", "panel")), ("every key and command", skin.style("muted", "panel"))]
        right = [(f" {skin.glyph('down')} {more} more lines ", skin.style("muted", "panel"))] if more else []
        right.append((" ? esc q close ", skin.style("footer-key", "panel")))
        return (between(left, right, width, (" ", skin.style("panel"))),)

    def layout_entries(self, width: int) -> Sequence[Entry]:
        """Lay out all of it."""
        return [Entry(words) for words in help_lines(self._pane, self._keys, self.skin, width)]

    do_help = do_quit = Page.do_back
