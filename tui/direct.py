"""Paints what panes have changed straight onto the terminal, without the compositor.

Textual puts every repaint together out of all the widgets that touch it: needed where something is open over the
panes or moves, and half of what a repaint costs where nothing is. What is painted here is what the compositor would
paint, so both may take turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rich.style import Style
from textual.app import App
from textual.geometry import Region
from textual.widget import Widget

from .render.rows import Row, within

SYNC_START, SYNC_END = "\x1b[?2026h", "\x1b[?2026l"
_END = "\x1b[0m"
_MOST_STYLES = 2048
Span = tuple[int, int, int]
"""Row of a pane, its first cell that changed and one past the last one."""


class Direct:
    """Paints the panes of an app; what several of them change in one go reaches the terminal together."""

    def __init__(self, app: App[int]) -> None:
        self._app = app
        self._waiting: list[tuple[Widget, str]] = []
        self._opens: dict[tuple[int, int], tuple[Style | None, Style, str]] = {}
        """By the `id` of the style that is worn and of the one that is put on, for hashes of styles are worked out in
        Python; that both are kept here keeps their `id` their own."""

    def paint(self, pane: Widget, region: Region, rows: Sequence[Row], spans: Sequence[Span]) -> bool:
        """Whether these spans of a pane whose rows fill that region are painted; if not, the compositor has to."""
        if not self._waiting:  # else that was looked at in this go, and will be again when all of it is sent
            if not self._alone():
                return False
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.append((pane, "".join([self._text(rows[span[0]], span, region) for span in spans])))
        return True

    def _alone(self) -> bool:
        """Nothing is open over the panes, and none of them is about to move."""
        app = self._app
        driver = app._driver
        return (
            driver is not None
            and not app.is_headless
            and not driver.is_inline
            and len(app.screen_stack) == 1
            and not app.screen._layout_required
            and not app._batch_count
        )

    def _text(self, row: Row, span: Span, region: Region) -> str:
        y, first, end = span
        parts = [f"\x1b[{region.y + y + 1};{region.x + first + 1}H"]
        worn: Style | None = None
        whole = first == 0 and end == region.width
        if whole:  # whatever stood there, and however many cells it really took
            worn = row[-1][1]
            parts += (self._opening(worn), f"\x1b[{region.width}X")
        opens = self._opens
        for text, style in row if whole else within(row, first, end):
            known = opens.get((id(worn), id(style)))
            parts += (known[2] if known is not None else self._opening(style, worn), text)
            worn = style
        parts.append(_END)
        return "".join(parts)

    def _opening(self, style: Style, worn: Style | None = None) -> str:
        """What puts a style on, where another one is worn; None: whatever was worn before."""
        known = self._opens.get((id(worn), id(style)))
        if known is not None:
            return known[2]
        if worn is not None and style.color is not None and _alike(style, worn):
            opened = self._told(Style(color=style.color))  # a third of the bytes: most differ in that alone
        else:
            opened = f"\x1b[0;{told[2:]}" if (told := self._told(style)) else _END
        if len(self._opens) >= _MOST_STYLES:  # a cursor makes some of its own
            self._opens.clear()
        self._opens[id(worn), id(style)] = worn, style, opened
        return opened

    def _told(self, style: Style) -> str:
        return style.render("\0", color_system=self._app.console._color_system).partition("\0")[0]

    def flush(self) -> None:
        """Sends what waits to the terminal."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        app = self._app
        driver = app._driver
        if driver is None or not self._alone():
            for pane, _ in waiting:
                pane.refresh()
            return
        at = app.cursor_position
        told = "".join([text for _, text in waiting])
        begin, end = (SYNC_START, SYNC_END) if app._sync_available else ("", "")
        driver.write(f"{begin}{told}\x1b[{at.y + 1};{at.x + 1}H{end}")
        driver.flush()


def _alike(style: Style, worn: Style) -> bool:
    """Whether nothing but the colour of the text differs."""
    return style.bgcolor == worn.bgcolor and style.without_color == worn.without_color
