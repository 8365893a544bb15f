"""All of one alert: it holds still while it is open, and says when there is news."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.screen import Screen

from perfmon.diagnosis import EvidenceLine
from perfmon.viewmodel import Alert, MonitorState

from ..messages import (
    AlertAcked,
    AlertMessage,
    AlertSilenceAsked,
    AlertUndone,
    JumpToLine,
    LineMessage,
    LineYanked,
    PagerAsked,
)
from ..render.alerts import Line, detail, status
from ..render.header_footer import key_row
from ..render.rows import Row, between, moment_text, styled
from ..theme import ThemeStyles
from ..widgets.pane import Listing

_KEYS = (
    ("esc", "back"), ("[ ]", "other alerts"), ("j k", "lines"), ("Enter", "log"), ("y", "copy"), ("O", "pager"),
    ("a", "ack"), ("S", "silence"), ("u", "undo"),
)  # fmt: skip


class AlertDetail(Listing):
    """The page of an alert; the cursor stops at log lines."""

    def __init__(self, skin: ThemeStyles, alert: Alert, picture: MonitorState, *, id: str | None = "alerts") -> None:
        super().__init__(skin, id=id)
        self._latest = picture
        self._freeze(alert, picture)

    def _freeze(self, alert: Alert, picture: MonitorState) -> None:
        self.alert, self._frozen = alert, picture
        self._made: tuple[int, list[Line]] = (-1, [])
        self.top, self.cursor = 0, None

    def show(self, picture: MonitorState) -> None:
        """State and age are those of the present; the page stays as it was."""
        self._latest = picture
        self.redraw()

    def dress(self, skin: ThemeStyles) -> None:
        """Puts on another skin."""
        self._made = (-1, [])
        super().dress(skin)

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

    @property
    def line_under_cursor(self) -> EvidenceLine | None:
        """The log line that keys act on: the first one while the cursor is nowhere."""
        lines = self._lines(self.size.width)
        if self.cursor is not None and self.cursor < len(lines):
            return lines[self.cursor].evidence
        return next((line.evidence for line in lines if line.evidence is not None), None)

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

    def count(self) -> int:
        """Lines of the page."""
        return len(self._lines(self.size.width))

    def line(self, at: int, width: int, ground: str) -> Row:
        """A line of the page."""
        return styled(self._lines(width)[at].words, self.skin, ground)

    def stops_at(self, at: int) -> bool:
        """At log lines."""
        return self._lines(self.size.width)[at].evidence is not None

    def _lines(self, width: int) -> list[Line]:
        if self._made[0] != width:
            self._made = (width, detail(self.alert, self._frozen, self.skin, width))
        return self._made[1]

    # --- acting -------------------------------------------------------------------------------------------------------
    def do_live(self) -> None:
        """Shows what is known now."""
        top = self.top
        if self._now is not None:
            self._freeze(self._now, self._latest)
            self.top = top
        self.redraw()

    def do_next_alert(self) -> None:
        """The alert below it in the pane."""
        self._turn(1)

    def do_previous_alert(self) -> None:
        """The alert above it in the pane."""
        self._turn(-1)

    def _turn(self, by: int) -> None:
        alerts = self._latest.alerts
        if alerts:
            numbers = [alert.number for alert in alerts]
            at = numbers.index(self.alert.number) + by if self.alert.number in numbers else 0
            self._freeze(alerts[at % len(alerts)], self._latest)
        self.redraw()

    def do_open(self) -> None:
        """To the line, among its neighbours in the log."""
        self._post_line(JumpToLine)

    def do_yank(self) -> None:
        """Copies the line and where it stands."""
        self._post_line(LineYanked)

    def do_pager(self) -> None:
        """Opens the log at the line."""
        self._post_line(PagerAsked)

    def do_ack(self) -> None:
        """Says that somebody looks after it."""
        self._post_alert(AlertAcked)

    def do_silence(self) -> None:
        """Asks for how long nobody wants to hear of it."""
        self._post_alert(AlertSilenceAsked)

    def do_undo(self) -> None:
        """Takes that back."""
        self._post_alert(AlertUndone)

    def do_back(self) -> None:
        """Closes the page."""
        self.screen.dismiss(None)

    def _post_alert(self, message: type[AlertMessage]) -> None:
        self.post_message(message(self._now or self.alert))

    def _post_line(self, message: type[LineMessage]) -> None:
        line = self.line_under_cursor
        if line is not None:
            self.post_message(message(line.source, line.line, line.text))


class AlertScreen(Screen[None]):
    """Opens over everything; the app goes on giving it pictures."""

    def __init__(self, skin: ThemeStyles, alert: Alert, picture: MonitorState) -> None:
        super().__init__()
        self.detail = AlertDetail(skin, alert, picture)

    def compose(self) -> ComposeResult:
        """The page."""
        yield self.detail

    def on_mount(self) -> None:
        """Keys go to the page."""
        self.detail.focus()

    def show(self, picture: MonitorState) -> None:
        """Update from a new picture."""
        self.detail.show(picture)

    def dress(self, skin: ThemeStyles) -> None:
        """Puts on another skin."""
        self.detail.dress(skin)
