"""The board: lanes over one time axis, a selection, and the time cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partialmethod

from textual import events

from perfmon.viewmodel import MonitorState

from ..render.lanes import Geometry, Lane
from ..render.rows import Row
from ..render.timeline import RenderedTimeline, TimelineView, board_title, draw_board
from ..theme import ThemeStyles
from ..widgets.pane import Pane, Request

_ORDERS = ("usual", "worst", "name")


class BoardPane(Pane, can_focus=True):
    """Weight updates, checkpoints, generation, metrics and alerts.

    Posts `Request("cursor", moment)` when a column of the axis is clicked, `Request("open_lane", lane)` for the lane
    that is to be opened, `Request("view")` when it needs a picture with another number of columns.
    """

    def __init__(self, skin: ThemeStyles, picture: MonitorState) -> None:
        super().__init__(skin, id="board")
        self._picture = picture
        self.sight = TimelineView()
        self.span_s = picture.window_s
        self.bare = False
        """Without title and axis: the strip has no room for them."""
        self._drawn_board = RenderedTimeline([], [], 0, 0, 0)

    @property
    def columns(self) -> int:
        """Columns of the chart at this size."""
        return Geometry.of(max(1, self.size.width)).chart

    @property
    def lane(self) -> Lane | None:
        """The lane that the selection is on."""
        drawn = self._drawn_board
        shown = [lane for lane in drawn.lanes if lane is not None]
        at = drawn.selected - drawn.top
        return shown[at] if 0 <= at < len(shown) else None

    def show(self, picture: MonitorState) -> None:
        """Show another picture."""
        self._picture = picture
        self.redraw()

    def point(self, cursor: float | None) -> None:
        """Put the time cursor somewhere, or takes it away."""
        self.sight = replace(self.sight, cursor=cursor)
        self.redraw()

    def want(self, text: str) -> None:
        """Show only lanes with a text in their names."""
        self.sight = replace(self.sight, wanted=text, selected=0, top=0)
        self.redraw()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """Title, axis, lanes."""
        titles = not self.bare and height > 3
        if self._picture.board.viewport.columns != Geometry.of(width).chart:
            # Made for another width: the next picture is on its way.
            return [self.title_row(1, "TIMELINE", "", "", width)] if titles else []
        sight = replace(self.sight, focused=self.has_focus)
        drawn = draw_board(self._picture, width, height - titles, sight, self.skin, header=titles)
        self._drawn_board = drawn
        self.sight = replace(self.sight, top=drawn.top, selected=drawn.selected)
        if not titles:
            return drawn.rows
        left, right = board_title(self._picture.board, self.span_s, self.sight, drawn)
        return [self.title_row(1, "TIMELINE", left, right, width), *drawn.rows]

    # --- keys -------------------------------------------------------------------------------------------------
    def _select(self, at: int) -> None:
        last = max(0, self._drawn_board.count - 1)
        self.sight = replace(self.sight, selected=min(max(0, at), last))
        self.redraw()

    def _select_by(self, by: int) -> None:
        self._select(self.sight.selected + by)

    do_up = partialmethod(_select_by, -1)
    do_down = partialmethod(_select_by, 1)

    def _select_page(self, sign: int) -> None:
        self._select_by(sign * max(1, self.size.height - 3))

    do_page_up = partialmethod(_select_page, -1)
    do_page_down = partialmethod(_select_page, 1)

    do_top = partialmethod(_select, 0)

    def do_bottom(self) -> None:
        """Select the last lane."""
        self._select(self._drawn_board.count)

    def do_sort(self) -> None:
        """The next order of the metrics."""
        order = _ORDERS[(_ORDERS.index(self.sight.order) + 1) % len(_ORDERS)]
        self.sight = replace(self.sight, order=order)
        self.redraw()

    def do_open(self) -> None:
        """Open the selected lane."""
        if self.lane is not None:
            self.post_message(Request("open_lane", self.lane))

    def on_resize(self) -> None:
        """Other columns."""
        self.post_message(Request("view"))

    # --- mouse ------------------------------------------------------------------------------------------------
    def on_click(self, event: events.Click) -> None:
        """A click selects the lane, a second one opens it. One on the axis, or with shift, puts the cursor there."""
        titles = 0 if self.bare or self.size.height <= 3 else 1
        row = event.y - titles
        lanes = self._drawn_board.lanes
        on_lane = 0 <= row < len(lanes) and lanes[row] is not None
        if on_lane:
            shown = sum(lane is not None for lane in lanes[:row])
            self._select(self._drawn_board.top + shown)
        geometry, port = Geometry.of(self.size.width), self._picture.board.viewport
        column = event.x - geometry.begin
        if 0 <= column < geometry.chart and (event.shift or (row == 0 and not on_lane)):
            self.post_message(Request("cursor", port.start + (column + 0.5) * port.column_s))
        elif event.chain >= 2:
            self.do_open()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Select the lane above."""
        event.stop()
        self._select_by(-1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Select the lane below."""
        event.stop()
        self._select_by(1)
