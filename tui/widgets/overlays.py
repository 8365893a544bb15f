"""Screens that open over the panes: pages of lines, and the prompt for one line of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Label

from perfmon.viewmodel import MonitorState

from ..render.rows import Entry, Row, styled
from ..theme import ThemeStyles
from .pane import Listing, Pane, Request

if TYPE_CHECKING:
    from perfmon.diagnosis import EvidenceLine


class Overlay(Pane, can_focus=True):
    """Content of a PageScreen."""

    def show(self, picture: MonitorState) -> None:
        """Show what has changed; most pages hold still while they are open."""

    def do_back(self) -> None:
        """Close it."""
        self.screen.dismiss(None)


class Page(Overlay, Listing):
    """Lines that are laid out once for a width; the cursor stops at log lines, and without any, keys scroll."""

    _laid_out: tuple[int, Sequence[Entry]] = (-1, ())

    def layout_entries(self, width: int) -> Sequence[Entry]:
        """Lay out all lines at that width."""
        raise NotImplementedError

    def entries(self, width: int) -> Sequence[Entry]:
        """All lines at that width."""
        if self._laid_out[0] != width:
            self._laid_out = width, self.layout_entries(width)
        return self._laid_out[1]

    def forget(self) -> None:
        """Lay the lines out again when they are drawn next."""
        self._laid_out = (-1, ())

    def apply_theme(self, skin: ThemeStyles) -> None:
        """Draw everything in another theme."""
        self.forget()
        super().apply_theme(skin)

    def count(self) -> int:
        """Number of lines."""
        return len(self.entries(self.size.width))

    def line(self, at: int, width: int, ground: str) -> Row:
        """One line of the page."""
        return styled(self.entries(width)[at].words, self.skin, ground)

    def stops_at(self, at: int) -> bool:
        """Return true for log lines and commands."""
        entry = self.entries(self.size.width)[at]
        return entry.evidence is not None or bool(entry.command)

    @property
    def line_under_cursor(self) -> EvidenceLine | None:
        """The log line that keys act on: the first one while the cursor is nowhere."""
        entries = self.entries(self.size.width)
        if self.cursor is not None and self.cursor < len(entries):
            return entries[self.cursor].evidence
        return next((entry.evidence for entry in entries if entry.evidence is not None), None)

    def _request(self, action: str) -> None:
        line = self.line_under_cursor
        if line is not None:
            self.post_message(Request(action, line))

    def do_open(self) -> None:
        """Show the line among its neighbours in the log."""
        self._request("jump")

    def do_yank(self) -> None:
        """Copy the line and its position, or the command under the cursor."""
        entries = self.entries(self.size.width)
        command = entries[self.cursor].command if self.cursor is not None and self.cursor < len(entries) else ""
        if command:
            self.post_message(Request("copy_text", command))
        else:
            self._request("copy")

    def do_pager(self) -> None:
        """Open the log at the line."""
        self._request("pager")


class PageScreen(Screen[None]):
    """Shows one page over everything; the app keeps giving it pictures."""

    def __init__(self, page: Overlay) -> None:
        super().__init__()
        self.page = page

    def compose(self) -> ComposeResult:
        """Yield the page."""
        yield self.page

    def on_mount(self) -> None:
        """Give the keys to the page."""
        self.page.focus()

    def show(self, picture: MonitorState) -> None:
        """Update from a new picture."""
        self.page.show(picture)


class Prompt(ModalScreen[str | None]):
    """Prompt for one line of text at the bottom of the screen; None if it was left."""

    DEFAULT_CSS = """
    Prompt { align: left bottom; background: transparent; }
    Prompt Horizontal { height: 1; background: $panel; }
    Prompt Label { width: auto; color: $accent; padding: 0 1; }
    Prompt Input { border: none; height: 1; padding: 0; background: $panel; }
    Prompt Input:focus { border: none; }
    """
    BINDINGS = [("escape", "dismiss", "leave")]  # noqa: RUF012 - Textual's own way

    def __init__(self, question: str, value: str = "") -> None:
        super().__init__()
        self._question, self._value = question, value

    def compose(self) -> ComposeResult:
        """One row."""
        with Horizontal():
            yield Label(self._question, markup=False)
            yield Input(self._value, select_on_focus=False)

    def on_mount(self) -> None:
        """Select the initial text: typing replaces it, unless the cursor is moved first."""
        self.query_one(Input).action_select_all()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the text."""
        event.stop()
        self.dismiss(event.value)
