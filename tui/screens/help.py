"""Every key, every command, and what the characters mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.app import ComposeResult
from textual.screen import Screen

from ..listing import Listing
from ..render.help import help_lines
from ..render.prose import Words, dressed
from ..render.rows import Row, between
from ..skin import Skin


class HelpPage(Listing):
    """All of it, one below another; there is nothing to choose, keys scroll."""

    def __init__(self, skin: Skin, pane_name: str, keys: Mapping[str, str], *, id: str | None = "help") -> None:
        super().__init__(skin, id=id)
        self._pane, self._keys = pane_name, keys
        self._laid: tuple[int, list[Words]] = (-1, [])

    def dress(self, skin: Skin) -> None:
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
        return dressed(self._lines(width)[at], self.skin, ground)

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

    def __init__(self, skin: Skin, pane_name: str, keys: Mapping[str, str]) -> None:
        super().__init__()
        self.page = HelpPage(skin, pane_name, keys)

    def compose(self) -> ComposeResult:
        """The page."""
        yield self.page

    def on_mount(self) -> None:
        """Keys go to the page."""
        self.page.focus()

    def dress(self, skin: Skin) -> None:
        """Puts on another skin."""
        self.page.dress(skin)
