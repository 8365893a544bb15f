"""The pane of alerts: the most pressing first, what is explained or over below, dimmed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partialmethod

from perfmon.core import format_seconds
from perfmon.diagnosis import Assessment
from perfmon.viewmodel import Alert, AlertKey, MonitorState

from ..layout import HEADED
from ..render.alerts import alert_row, heading_row, preview
from ..render.rows import Row, short_duration
from ..theme import ThemeStyles
from ..widgets.pane import Listing, Request

_COUNTED = ("firing", "acked", "pending", "resolving", "unknown", "inhibited", "silenced", "resolved")
_KEYS = "Enter evidence  a ack  S silence  u undo"


class AlertPane(Listing):
    """All alerts of a picture, one a row."""

    def __init__(self, skin: ThemeStyles) -> None:
        super().__init__(skin, id="alerts")
        self.cursor = 0
        self._picture: MonitorState | None = None
        self._alerts: tuple[Alert, ...] = ()
        self._chosen: AlertKey | None = None
        self._several: frozenset[str] = frozenset()

    def show(self, picture: MonitorState) -> None:
        """Repaint what differs from the picture before; the cursor stays on its alert, on top it stays on top."""
        self._picture, self._alerts = picture, picture.alerts
        kinds = Counter(alert.key[0] for alert in picture.alerts)
        self._several = frozenset(kind for kind, count in kinds.items() if count > 1)
        keys = [alert.key for alert in picture.alerts]
        if self._chosen is None:
            self.cursor = 0
        elif self._chosen in keys:
            self._follow(keys.index(self._chosen))
        else:
            self.cursor = max(0, min(self.cursor or 0, len(keys) - 1))
        self.redraw()

    @property
    def selected(self) -> Alert | None:
        """The alert under the cursor."""
        at = self.cursor or 0
        return self._alerts[at] if at < len(self._alerts) else None

    def summary(self, width: int = 1000) -> str:
        """`2 firing · 1 pending`; of what there is no room for in `width` cells only that there is more."""
        counts = Counter(alert.state.value for alert in self._alerts)
        parts = [f"{counts[state]} {state}" for state in _COUNTED if counts[state]]
        while parts and len(" · ".join(parts)) > width:
            parts = [*parts[: -2 if parts[-1] == "…" else -1], "…"] if len(parts) > 1 and parts != ["…"] else []
        return " · ".join(parts)

    # --- drawing ------------------------------------------------------------------------------------------------------
    def head(self, width: int, height: int) -> Sequence[Row]:
        """The title, and the names of the columns where there is room."""
        names = self._picture is not None and bool(self._alerts) and width >= HEADED
        names = names and (height >= 8 or height >= len(self._alerts) + 2)
        place = self.place(height - 1 - names)
        keys = _KEYS if width >= 150 else _KEYS[:14] if width >= 80 else ""
        keys = keys if self.has_focus else ""  # elsewhere they are of another pane
        summary = self.summary(width - 16 - len(place) - len(keys))
        right = "  ".join(part for part in (place, keys) if part)
        rows = [self.title_row(2, "ALERTS", summary, right, width)]
        if names and self._picture is not None:
            rows.append(heading_row(self.skin, width, self._picture.window_s))
        return rows

    def foot(self, width: int, height: int) -> Sequence[Row]:
        """Details of the alert under the cursor, if there is room below the list."""
        free = height - len(self.head(width, height)) - self.count()
        if self.selected is None or free < 2:
            return ()
        shown = preview(self.selected, self.skin, width, free - 1)
        return [*shown, *[()] * (free - 1 - len(shown))] if shown else ()

    def count(self) -> int:
        """One line shows that there is nothing."""
        return max(1, len(self._alerts))

    def line(self, at: int, width: int, ground: str) -> Row:
        """An alert."""
        picture = self._picture
        if picture is None or not self._alerts:
            return self._nothing(picture)
        alert = self._alerts[at]
        return alert_row(alert, self.skin, ground, width, picture, alert.key[0] in self._several)

    def stops_at(self, at: int) -> bool:
        """Every alert can be chosen."""
        return at < len(self._alerts)

    def _nothing(self, picture: MonitorState | None) -> Row:
        skin = self.skin
        if picture is None or picture.snapshot is None:
            return ((f" {skin.glyph('waiting')} nothing read yet", skin.style("muted")),)
        if picture.stale_s is not None and not picture.is_over:
            words = f"no alerts, but the newest line is {format_seconds(picture.stale_s)} old"
            return ((f" {skin.glyph('stale')} ", skin.style("stale")), (words, skin.style("muted")))
        if picture.snapshot.assessment in (Assessment.UNREADABLE, Assessment.LEARNING):
            reason = "the logs cannot be read" if picture.snapshot.assessment is Assessment.UNREADABLE else "too early"
            return ((f" {skin.glyph('unknown')} ", skin.style("stale")), (f"no alerts: {reason}", skin.style("muted")))
        window = "" if picture.is_over else f" in the last {short_duration(picture.window_s)}"
        words = f"no alerts{window}"
        return ((f" {skin.glyph('good')} ", skin.style("good")), (words, skin.style("muted")))

    # --- acting -------------------------------------------------------------------------------------------------------
    def moved(self) -> None:
        """On top, the cursor is for what is most pressing, whichever that is."""
        alert = self.selected
        self._chosen = alert.key if self.cursor and alert is not None else None

    def do_open(self) -> None:
        """Open the page of the alert."""
        if self.selected is not None:
            self.post_message(Request("alert", self.selected))

    def _request(self, action: str) -> None:
        """Request it; that may move the alert in the list: the cursor stays on it, for the next key is about it too."""
        if self.selected is not None:
            self._chosen = self.selected.key
            self.post_message(Request(action, self.selected))

    do_ack = partialmethod(_request, "ack")
    do_silence = partialmethod(_request, "silence")
    do_undo = partialmethod(_request, "undo")

    def _follow(self, at: int) -> None:
        first, last = self.sight
        in_sight = self.cursor is not None and first <= self.cursor < last
        self.cursor = at
        if in_sight:
            self.reveal()
