"""All of one alert: it holds still while it is open, and shows when there is news."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partialmethod

from perfmon.viewmodel import Alert, MonitorState

from ..render.alerts import detail, status
from ..render.header_footer import key_row
from ..render.rows import Entry, Row, between, moment_text, styled
from ..theme import ThemeStyles
from ..widgets.overlays import Page
from ..widgets.pane import Request

_KEYS = (
    ("esc", "back"), ("[ ]", "other alerts"), ("j k", "lines"), ("Enter", "log"), ("y", "copy"), ("O", "pager"),
    ("a", "ack"), ("S", "silence"), ("u", "undo"),
)  # fmt: skip


class AlertPage(Page):
    """The page of an alert; the cursor stops at log lines."""

    def __init__(self, skin: ThemeStyles, alert: Alert, picture: MonitorState) -> None:
        super().__init__(skin, id="alerts")
        self._latest = picture
        self._freeze(alert, picture)

    def _freeze(self, alert: Alert, picture: MonitorState) -> None:
        self.alert, self._frozen = alert, picture
        self.forget()
        self.top, self.cursor = 0, None

    def show(self, picture: MonitorState) -> None:
        """Update state and age; the page stays as it was."""
        self._latest = picture
        self.redraw()

    @property
    def news(self) -> str:
        """Changes since the page was opened; "" without any."""
        now = self._now
        if now is None:
            return "gone since"
        more = now.count - self.alert.count
        if more > 0:
            return f"{more} more since"
        return f"{now.state.value} now" if now.state is not self.alert.state else ""

    @property
    def _now(self) -> Alert | None:
        return next((alert for alert in self._latest.alerts if alert.number == self.alert.number), None)

    # --- drawing ------------------------------------------------------------------------------------------------------
    def head(self, width: int, height: int) -> Sequence[Row]:
        """The title row: the alert, the age of the data, and its current state."""
        skin, panel = self.skin, "panel"
        where = f" alerts {skin.glyph('next')} #{self.alert.number} {self.alert.key[0]} "
        left = styled(((where, "title"),), skin, panel)
        frozen = f"as of {moment_text(self._frozen.now, self._frozen.time_base)} "
        right = [(frozen, skin.style("muted", panel))]
        if self.news:
            right = [(f" {self.news}: L shows it ", skin.style("badge-info")), (" ", skin.style("muted", panel))]
        now = self._now or self.alert
        rows = [between(left, right, width, (" ", skin.style("panel")))]
        return [*rows, styled(status(now, self._latest, skin, width), skin, "background")] if height > 2 else rows

    def foot(self, width: int, height: int) -> Sequence[Row]:
        """The keys."""
        if height < 6:
            return ()
        place = self.place(height - len(self.head(width, height)) - 1)
        right = [(f" {place} ", self.skin.style("muted", "panel"))] if place else []
        return [key_row(_KEYS, right, width, self.skin)]

    def layout_entries(self, width: int) -> Sequence[Entry]:
        """Lay out all sections of the page."""
        return detail(self.alert, self._frozen, self.skin, width)

    # --- acting -------------------------------------------------------------------------------------------------------
    def do_live(self) -> None:
        """Show the present state."""
        top = self.top
        if self._now is not None:
            self._freeze(self._now, self._latest)
            self.top = top
        self.redraw()

    def _turn(self, by: int) -> None:
        alerts = self._latest.alerts
        if alerts:
            numbers = [alert.number for alert in alerts]
            at = numbers.index(self.alert.number) + by if self.alert.number in numbers else 0
            self._freeze(alerts[at % len(alerts)], self._latest)
        self.redraw()

    do_next_alert = partialmethod(_turn, 1)
    do_previous_alert = partialmethod(_turn, -1)

    def _request_alert(self, action: str) -> None:
        self.post_message(Request(action, self._now or self.alert))

    do_ack = partialmethod(_request_alert, "ack")
    do_silence = partialmethod(_request_alert, "silence")
    do_undo = partialmethod(_request_alert, "undo")
