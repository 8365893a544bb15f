"""Pages that open over the panes: `:doctor` and the help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.app import ComposeResult
from textual.screen import Screen

from perfmon.viewmodel import MonitorState, SourceStatus

from ..render.help import help_lines
from ..render.rows import Row, Words, between, styled
from ..render.sources import doctor
from ..theme import ThemeStyles
from ..widgets.pane import Listing

# --- Parse coverage of each log, live: the page of `:doctor` ---


class DoctorPage(Listing):
    """All logs, one below another; there is nothing to choose, keys scroll."""

    def __init__(
        self, skin: ThemeStyles, picture: MonitorState, about: SourceStatus | None = None, *, id: str | None = "doctor"
    ) -> None:
        super().__init__(skin, id=id)
        self._picture = picture
        self._about = about
        self._laid: tuple[int, int, list[Words], list[int]] = (-1, -1, [], [])

    def show(self, picture: MonitorState) -> None:
        """Repaints what differs from the picture before."""
        self._picture = picture
        self.redraw()

    def dress(self, skin: ThemeStyles) -> None:
        """Puts on another skin."""
        self._laid = (-1, -1, [], [])
        super().dress(skin)

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The page; the first time it begins at the log that was asked for."""
        if self._about is not None:
            starts = self._lay(width)[3]
            at = next((i for i, s in enumerate(self._picture.sources) if s.index == self._about.index), 0)
            self.top, self._about = starts[at] if at < len(starts) else 0, None
        return super().rows(width, height)

    def head(self, width: int, height: int) -> Sequence[Row]:
        """The title row."""
        skin = self.skin
        left = [
            (" doctor ", skin.style("title", "panel")),
            ("parse coverage", skin.style("muted", "panel")),
        ]
        place = self.place(height - 1)
        right = [(f" {place}  esc back ", skin.style("footer-key", "panel"))]
        return (between(left, right, width, (" ", skin.style("panel"))),)

    def count(self) -> int:
        """Lines of the page."""
        return len(self._lay(self.size.width)[2])

    def line(self, at: int, width: int, ground: str) -> Row:
        """A line of the page."""
        return styled(self._lay(width)[2][at], self.skin, ground)

    def stops_at(self, at: int) -> bool:
        """Nowhere."""
        return False

    def do_back(self) -> None:
        """Closes the page."""
        self.screen.dismiss(None)

    def _lay(self, width: int) -> tuple[int, int, list[Words], list[int]]:
        if self._laid[:2] != (width, self._picture.number):
            self._laid = (width, self._picture.number, *doctor(self._picture, self.skin, width))
        return self._laid


class DoctorScreen(Screen[None]):
    """Opens over everything; the app goes on giving it pictures."""

    def __init__(self, skin: ThemeStyles, picture: MonitorState, about: SourceStatus | None = None) -> None:
        super().__init__()
        self.page = DoctorPage(skin, picture, about)

    def compose(self) -> ComposeResult:
        """The page."""
        yield self.page

    def on_mount(self) -> None:
        """Keys go to the page."""
        self.page.focus()

    def show(self, picture: MonitorState) -> None:
        """Update from a new picture."""
        self.page.show(picture)

    def dress(self, skin: ThemeStyles) -> None:
        """Puts on another skin."""
        self.page.dress(skin)


# --- Every key, every command, and what the characters mean ---


class HelpPage(Listing):
    """All of it, one below another; there is nothing to choose, keys scroll."""

    def __init__(self, skin: ThemeStyles, pane_name: str, keys: Mapping[str, str], *, id: str | None = "help") -> None:
        super().__init__(skin, id=id)
        self._pane, self._keys = pane_name, keys
        self._laid: tuple[int, list[Words]] = (-1, [])

    def dress(self, skin: ThemeStyles) -> None:
        """Puts on another skin."""
        self._laid = (-1, [])
        super().dress(skin)

    def head(self, width: int, height: int) -> Sequence[Row]:
        """The title row, with the number of further lines."""
        skin = self.skin
        more = max(0, self.count() - self.top - (height - 1))
        left = [(" help ", skin.style("title", "panel")), ("every key and command", skin.style("muted", "panel"))]
        right = [(f" {skin.glyph('down')} {more} more lines ", skin.style("muted", "panel"))] if more else []
        right.append((" ? esc q close ", skin.style("footer-key", "panel")))
        return (between(left, right, width, (" ", skin.style("panel"))),)

    def count(self) -> int:
        """Lines of the page."""
        return len(self._lines(self.size.width))

    def line(self, at: int, width: int, ground: str) -> Row:
        """A line of the page."""
        return styled(self._lines(width)[at], self.skin, ground)

    def stops_at(self, at: int) -> bool:
        """Nowhere."""
        return False

    def do_back(self) -> None:
        """Closes the page."""
        self.screen.dismiss(None)

    do_help = do_quit = do_back

    def _lines(self, width: int) -> list[Words]:
        if self._laid[0] != width:
            self._laid = (width, help_lines(self._pane, self._keys, self.skin, width))
        return self._laid[1]


class HelpScreen(Screen[None]):
    """Opens over everything. `pane_name` is the pane whose keys go first, `keys` those that the user chose."""

    def __init__(self, skin: ThemeStyles, pane_name: str, keys: Mapping[str, str]) -> None:
        super().__init__()
        self.page = HelpPage(skin, pane_name, keys)

    def compose(self) -> ComposeResult:
        """The page."""
        yield self.page

    def on_mount(self) -> None:
        """Keys go to the page."""
        self.page.focus()

    def dress(self, skin: ThemeStyles) -> None:
        """Puts on another skin."""
        self.page.dress(skin)
