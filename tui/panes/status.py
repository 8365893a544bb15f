"""The answer rows; the first and the last row of the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.events import Click

from perfmon.viewmodel import MonitorState

from ..render.header_footer import HeaderInfo, footer_action, footer_row, header_row, scrubber_in
from ..render.rows import Row, row_cells
from ..render.summary import answer_rows
from ..theme import ThemeStyles
from ..widgets.pane import Pane, Request


class AnswerPane(Pane):
    """Verdict, progress, why and next, where the window went."""

    can_focus = False

    def __init__(self, skin: ThemeStyles, picture: MonitorState) -> None:
        super().__init__(skin, id="answer")
        self._picture = picture

    def show(self, picture: MonitorState) -> None:
        """Show another picture."""
        self._picture = picture
        self.redraw()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """As many of the four as fit."""
        rows = answer_rows(self._picture, width, height, self.skin)
        badge = self.moment_badge
        if badge and rows:
            rows[0] = (*badge, *answer_rows(self._picture, max(0, width - row_cells(badge)), 1, self.skin)[0])
        return rows

    def on_click(self, event: Click) -> None:
        """A click opens what the rows are about."""
        event.stop()
        self.post_message(Request("verdict"))


class HeaderPane(Pane):
    """The sources, and the state of the run."""

    can_focus = False

    def __init__(self, skin: ThemeStyles, picture: MonitorState, info: HeaderInfo) -> None:
        super().__init__(skin, id="header")
        self._picture, self._info = picture, info

    def show(self, picture: MonitorState, info: HeaderInfo) -> None:
        """Show another picture, seen from another place."""
        self._picture, self._info = picture, info
        self.redraw()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """One."""
        return [header_row(self._picture, self._info, width, self.skin)]

    def on_click(self, event: Click) -> None:
        """A click on the bar of a replay goes to that part of it."""
        bar = scrubber_in(self._drawn[0] if self._drawn else (), self.skin)
        if bar is not None and bar[0] <= event.x < bar[1]:
            event.stop()
            self.post_message(Request("share", (event.x - bar[0] + 0.5) / (bar[1] - bar[0])))


class FooterPane(Pane):
    """The keys that matter now."""

    can_focus = False

    def __init__(self, skin: ThemeStyles, info: HeaderInfo, remapped: Mapping[str, str]) -> None:
        super().__init__(skin, id="footer")
        self._info, self._pane, self._remapped = info, "board", remapped

    def show(self, info: HeaderInfo, pane: str) -> None:
        """Show the keys of a pane, and the layout: nothing else of the header is shown here."""
        same = pane == self._pane and info.preset == self._info.preset
        self._info, self._pane = info, pane
        if not same or not self._drawn:
            self.redraw()

    def on_click(self, event: Click) -> None:
        """A click does what stands there."""
        action = footer_action(event.x, self._pane, self._info, self.size.width, self._remapped)
        if action is not None:
            event.stop()
            self.post_message(Request("action", action))

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """One."""
        return [footer_row(self._pane, self._info, width, self.skin, self._remapped)]
