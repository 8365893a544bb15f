"""Messages from panes and screens to the app, and the options that the app opens with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from textual.message import Message

from perfmon.textgraphics import UNICODE, Glyphs
from perfmon.themes import ThemeData
from perfmon.viewmodel import Alert

# --- Messages of panes and screens of alerts to the app ---


class AlertMessage(Message):
    """About one alert, as it was shown."""

    def __init__(self, alert: Alert) -> None:
        super().__init__()
        self.alert = alert


class AlertOpened(AlertMessage):
    """Show all of it."""


class AlertAcked(AlertMessage):
    """Somebody looks after it."""


class AlertSilenceAsked(AlertMessage):
    """Ask for how long, then silence it."""


class AlertUndone(AlertMessage):
    """Take back acknowledgement and silence."""


class LineMessage(Message):
    """About one line of a log: the log's name as in its evidence, the line's number from 1, and its text."""

    def __init__(self, source: str, line: int, text: str) -> None:
        super().__init__()
        self.source, self.line, self.text = source, line, text


class JumpToLine(LineMessage):
    """Show it among its neighbours."""


class LineYanked(LineMessage):
    """Copy `copied` to the clipboard."""

    @property
    def copied(self) -> str:
        """Its position and text."""
        return f"{self.source}:{self.line} {self.text}"


class PagerAsked(LineMessage):
    """Open its log in the user's pager, at the line."""


@dataclass(slots=True)
class AppOptions:
    """How the monitor is opened."""

    title: str
    themes: Mapping[str, ThemeData]
    theme: str
    layout: str = "auto"
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys that the user chose, by action."""
    glyphs: Glyphs = UNICODE
