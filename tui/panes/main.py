"""The panes of every screen of a run: its first and last row, the answer rows, and the board over one time axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partialmethod
from operator import is_

from textual import events

from perfmon.viewmodel import MonitorState

from ..render.header_footer import HeaderInfo, footer_action, footer_row, header_row, scrubber_in
from ..render.lanes import Geometry, Lane
from ..render.rows import Row, row_cells
from ..render.summary import answer_rows
from ..render.timeline import RenderedTimeline, TimelineView, board_title, draw_board, newest_moment
from ..theme import ThemeStyles
from ..widgets.pane import Pane, Request

_DRAGGED = 2
"""Columns from which on a press is a drag, and no click."""
_ORDERS = ("verdict", "kind", "name")


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

    def on_click(self, event: events.Click) -> None:
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

    def on_click(self, event: events.Click) -> None:
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

    def on_click(self, event: events.Click) -> None:
        """A click does what stands there."""
        action = footer_action(event.x, self._pane, self._info, self.size.width, self._remapped)
        if action is not None:
            event.stop()
            self.post_message(Request("action", action))

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """One."""
        return [footer_row(self._pane, self._info, width, self.skin, self._remapped)]


class BoardPane(Pane, can_focus=True):
    """Weight updates, checkpoints, generation, metrics and alerts.

    Posts `Request("cursor", moment)` when a column of the axis is clicked, `Request("centre", moment)` for one of the
    whole run, `Request("range", (start, end))` for the time that the mouse was dragged over, `Request("open_lane",
    lane)` for the lane that is to be opened, `Request("view")` when it needs a picture with another number of columns.
    """

    def __init__(self, skin: ThemeStyles, picture: MonitorState) -> None:
        super().__init__(skin, id="board")
        self._picture = picture
        self.sight = TimelineView()
        self.bare = False
        """Without title and axis: the strip has no room for them."""
        self._drawn_board = RenderedTimeline([], [], [], 0, 0)
        self._drawn_of: tuple[object, ...] = (None,)
        self._drawn_for_sight: tuple[object, ...] = ()
        """Objects and view that the rows were drawn of: most pictures of a second change neither."""
        self._pressed: int | None = None
        """Column at which the mouse was pressed."""
        self._was_dragged = False

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

    @property
    def selected(self) -> int:
        """Place of the selected lane among all of them."""
        return self._drawn_board.selected

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
        self.sight = replace(self.sight, wanted=text, chosen=None, top=0)
        self.redraw()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """Title, axis, lanes."""
        titles = not self.bare and height > 3
        if self._picture.board.viewport.columns != Geometry.of(width).chart:
            # Made for another width: the next picture is on its way.
            return [self.title_row(1, "TIMELINE", "", "", width)] if titles else []
        sight = replace(self.sight, focused=self.has_focus)
        picture = self._picture
        objects = (picture.board, picture.snapshot, picture.overview, self.skin)
        moment = int(picture.now), newest_moment(picture)
        same = all(map(is_, objects, self._drawn_of)) and (sight, width, height, moment) == self._drawn_for_sight
        if not same:
            self._drawn_board = draw_board(
                picture, width, height - titles, sight, self.skin, titles, self._drawn_board
            )  # fmt: skip
        drawn, self._drawn_of = self._drawn_board, objects
        self._drawn_for_sight = (replace(sight, top=drawn.top), width, height, moment)
        self.sight = replace(self.sight, top=drawn.top)
        if not titles:
            return drawn.rows
        left, right = board_title(self._picture.board, self.sight, drawn)
        return [self.title_row(1, "TIMELINE", left, right, width), *drawn.rows]

    # --- keys -------------------------------------------------------------------------------------------------
    def _select(self, at: int) -> None:
        keys = self._drawn_board.keys
        self.sight = replace(self.sight, chosen=keys[min(max(0, at), len(keys) - 1)] if keys else None)
        self.redraw()

    def _select_by(self, by: int) -> None:
        self._select(self._drawn_board.selected + by)

    do_up = partialmethod(_select_by, -1)
    do_down = partialmethod(_select_by, 1)

    def _select_page(self, sign: int) -> None:
        self._select_by(sign * max(1, self.size.height - 3))

    do_page_up = partialmethod(_select_page, -1)
    do_page_down = partialmethod(_select_page, 1)

    do_top = partialmethod(_select, 0)

    def do_bottom(self) -> None:
        """Select the last lane."""
        self._select(len(self._drawn_board.keys))

    def do_expand(self) -> None:
        """Give each weight update a row, or all of them one."""
        self.sight = replace(self.sight, expanded=not self.sight.expanded)
        self.redraw()

    def do_sort(self) -> None:
        """The next order of the lanes."""
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
    def _row(self, y: int) -> int:
        """Row below the title."""
        return y - (0 if self.bare or self.size.height <= 3 else 1)

    def _column(self, x: int) -> int:
        """Column of the chart, within it."""
        geometry = Geometry.of(self.size.width)
        return min(geometry.chart - 1, max(0, x - geometry.begin))

    def _moments(self, columns: tuple[int, int], whole: bool) -> tuple[float, float]:
        """The time from the beginning of one column to the end of another, of the overview or of the timeline."""
        picture = self._picture
        port = picture.overview.viewport if whole and picture.overview is not None else picture.board.viewport
        low, high = sorted(columns)
        return port.start + low * port.column_s, port.start + (high + 1) * port.column_s

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """A drag over columns begins here."""
        geometry = Geometry.of(self.size.width)
        if event.button == 1 and 0 <= event.x - geometry.begin < geometry.chart and self._row(event.y) >= 0:
            self._pressed = self._column(event.x)
            whole = self._drawn_board.overview and self._row(event.y) == 0
            self.sight = replace(self.sight, whole=whole)
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Mark the columns that are dragged over."""
        if self._pressed is None:
            return
        column = self._column(event.x)
        if self.sight.dragged is not None or abs(column - self._pressed) >= _DRAGGED:
            self.sight = replace(self.sight, dragged=(self._pressed, column))
            self.redraw()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Show the time that was dragged over."""
        dragged, self._pressed = self.sight.dragged, None
        self.release_mouse()
        self._was_dragged = dragged is not None
        if dragged is not None:
            self.sight = replace(self.sight, dragged=None)
            self.redraw()
            self.post_message(Request("range", self._moments(dragged, self.sight.whole)))

    def on_click(self, event: events.Click) -> None:
        """A click selects the lane, a second one opens it.

        One on the axis, or with shift, puts the cursor there; one on the whole run moves the view there.
        """
        if self._was_dragged:
            self._was_dragged = False
            return
        row, lanes, geometry = self._row(event.y), self._drawn_board.lanes, Geometry.of(self.size.width)
        inside = 0 <= event.x - geometry.begin < geometry.chart
        if row == 0 and self._drawn_board.overview:
            if inside:
                low, high = self._moments((self._column(event.x),) * 2, whole=True)
                self.post_message(Request("centre", (low + high) / 2))
            return
        on_lane = 0 <= row < len(lanes) and lanes[row] is not None
        if on_lane:
            shown = sum(lane is not None for lane in lanes[:row])
            self._select(self._drawn_board.top + shown)
        if inside and (event.shift or (row == self._drawn_board.overview and not on_lane)):
            low, high = self._moments((self._column(event.x),) * 2, whole=False)
            self.post_message(Request("cursor", (low + high) / 2))
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
